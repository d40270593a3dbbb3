//! When to try again.

use std::time::Duration;

use crate::event::tell;
use crate::{Error, Event, Result, Watch};

/// How often a request is tried before its error is given back. With the usual first pause of half a second
/// the waits are 0.5, 1 and 2 seconds: enough for a connection that is being set up again, and short enough for
/// someone who is offline.
pub const TRIES: u32 = 4;

/// Counts failures in a row.
pub(crate) struct Retries {
    first_pause: Duration,
    failures: u32,
}

impl Retries {
    pub(crate) fn new(first_pause: Duration) -> Self {
        Self { first_pause, failures: 0 }
    }

    /// Forgets the failures so far, since something came of the last try.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// `error` itself if trying again is pointless: it is none of the connection, or the last try is used up.
    pub(crate) fn wait(&mut self, error: Error, watch: &mut Watch<'_>) -> Result<()> {
        self.failures += 1;
        if !matches!(error, Error::Unreachable { .. }) || self.failures >= TRIES {
            return Err(error);
        }
        let pause = self.first_pause * 2_u32.pow(self.failures - 1);
        tell(watch, Event::Retrying { error: &error, pause })?;
        std::thread::sleep(pause);
        Ok(())
    }

    /// Tries until it succeeds or trying again is pointless.
    pub(crate) fn run<T>(
        mut self,
        watch: &mut Watch<'_>,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match attempt() {
                Ok(value) => return Ok(value),
                Err(error) => self.wait(error, watch)?,
            }
        }
    }
}
