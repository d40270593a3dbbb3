//! What a download tells while it runs.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use crate::{Error, Result};

/// Something that happened during [`Hub::snapshot`](crate::Hub::snapshot).
#[derive(Debug)]
pub enum Event<'a> {
    /// The hub cannot be reached, but the cache has all of the revision as it was last seen: that is used.
    Unreachable {
        /// What was tried.
        error: &'a Error,
        /// The snapshot used instead.
        path: &'a Path,
    },
    /// What has to be downloaded is known. Not sent if nothing has to be.
    Planned {
        /// Files that are not whole in the cache.
        files: usize,
        /// Bytes of these files.
        bytes: u64,
        /// Bytes of them that earlier downloads left.
        present: u64,
    },
    /// Another process is downloading this file; sent again and again until it has ended.
    Waiting {
        /// The file's path in the repository.
        file: &'a str,
    },
    /// A file is begun. Sent once more for the same file if it has to be started anew.
    File {
        /// Its path in the repository.
        file: &'a str,
        /// Its size.
        bytes: u64,
        /// The first so many bytes are there already: all, if another process has just fetched it.
        present: u64,
    },
    /// More bytes of the file have arrived and are on the disk.
    Received {
        /// How many.
        bytes: u64,
    },
    /// A request failed and will be tried again.
    Retrying {
        /// What happened.
        error: &'a Error,
        /// The time until the next try.
        pause: Duration,
    },
}

/// What is told of each [`Event`], and may answer [`ControlFlow::Break`] to stop: what has arrived stays on
/// the disk, and [`Error::Stopped`] comes back.
///
/// ```
/// use std::ops::ControlFlow;
///
/// let silent: &mut hub::Watch<'_> = &mut |_event| ControlFlow::Continue(());
/// # let _ = silent;
/// ```
pub type Watch<'w> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'w;

pub(crate) fn tell(watch: &mut Watch<'_>, event: Event<'_>) -> Result<()> {
    match watch(event) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Stopped),
    }
}
