//! The engine on a fake device: what it does with pages, slots and steps, whatever a model computes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone;
mod fake;
mod generate;
mod interleaved;
mod scheduler;
mod score;
mod strings;

use engine::{Engine, Limits};

/// An engine on a fake device.
fn engine(limits: Limits) -> Engine {
    Engine::new(Box::new(fake::Fake::default()), &fake::model(), limits).unwrap()
}

/// Panics unless every page and every slot is free exactly once.
fn assert_idle(engine: &Engine) {
    engine.audit([].iter()).unwrap();
    assert_eq!(engine.available_pages(), engine.limits().pages as usize);
}
