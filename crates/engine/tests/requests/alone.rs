//! One request at a time.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use engine::sampling::TokenBytes;
use engine::{Engine, Event, Limits, Report, Request, Result, Scheduler, Settings, generate};

use crate::fake::{self, Fake};
use crate::{assert_idle, engine};

/// What came of a request.
pub(crate) struct Answer {
    pub(crate) pieces: Vec<String>,
    pub(crate) tokens: Vec<u32>,
    pub(crate) report: Report,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        self.pieces.concat()
    }
}

/// A scheduler on a fake device.
pub(crate) fn scheduler(limits: Limits) -> Scheduler {
    Scheduler::new(engine(limits), Settings::default()).unwrap()
}

/// A scheduler on this one.
pub(crate) fn scheduler_on(device: Fake, limits: Limits) -> Scheduler {
    let engine = Engine::new(Box::new(device), &fake::model(), limits).unwrap();
    Scheduler::new(engine, Settings::default()).unwrap()
}

/// Runs a request to its end, and checks that nothing is left behind.
pub(crate) fn ask(scheduler: &mut Scheduler, request: &Request) -> Result<Answer> {
    ask_in(scheduler, request, &fake::token_bytes)
}

/// As [`ask`], where tokens stand for these bytes.
pub(crate) fn ask_in(
    scheduler: &mut Scheduler,
    request: &Request,
    token_bytes: &TokenBytes<'_>,
) -> Result<Answer> {
    let (mut pieces, mut tokens) = (Vec::new(), Vec::new());
    let report = generate(scheduler, request.clone(), token_bytes, &AtomicBool::new(false), &mut |event| {
        if !event.text().is_empty() {
            pieces.push(event.text().to_owned());
        }
        match event {
            Event::Token { token, .. } => tokens.push(*token),
            Event::TakenBack { tokens: count } => tokens.truncate(tokens.len() - count),
            Event::Prompt { .. } | Event::Finished { .. } | Event::Failed(_) => {}
        }
        ControlFlow::Continue(())
    });
    scheduler.audit().unwrap();
    assert_idle(scheduler.engine());
    report.map(|report| Answer { pieces, tokens, report })
}
