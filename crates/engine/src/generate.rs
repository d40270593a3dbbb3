//! One request with nobody else about.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::request::{Event, Report, Request};
use crate::sampling::TokenBytes;
use crate::{Result, Scheduler};

/// Runs a request for one answer to its end and hands over what happens to it; `emit` breaks to cancel, and so does
/// `cancel` when it becomes true: at once while tokens are drawn, after the chunk under way while the prompt is fed.
/// The scheduler has nothing else to do.
///
/// A prompt of `n` tokens in a context of `c` can be answered by up to `c - n + 1` tokens, since the last
/// one need not be cached.
///
/// # Errors
/// If [`Scheduler::submit`] refuses the request, or the answer fails.
pub fn generate(
    scheduler: &mut Scheduler,
    request: Request,
    token_bytes: &TokenBytes<'_>,
    cancel: &AtomicBool,
    emit: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Result<Report> {
    let id = scheduler.submit(request, token_bytes)?;
    let mut ended = None;
    let mut wanted = true;
    loop {
        let go_on = wanted && !cancel.load(Ordering::Relaxed);
        let mut hear = |_, event: Event<'_>| {
            wanted &= emit(&event).is_continue();
            match event {
                Event::Finished { report, .. } => ended = Some(Ok(report)),
                Event::Failed(error) => ended = Some(Err(error)),
                Event::Prompt { .. } | Event::Token { .. } | Event::TakenBack { .. } => {}
            }
        };
        if go_on {
            scheduler.step(token_bytes, &mut hear)?;
        } else {
            scheduler.cancel(id, &mut hear);
        }
        if let Some(ended) = ended {
            return ended;
        }
    }
}
