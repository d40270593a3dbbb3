//! The engine on a fake device: what it does with pages, slots and steps, whatever a model computes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fake;
mod generate;
mod interleaved;
mod score;
mod strings;

use engine::{Engine, Limits};

/// An engine on a fake device.
fn engine(limits: Limits) -> Engine {
    Engine::new(Box::new(fake::Fake::default()), &fake::model(), limits).unwrap()
}

/// Panics unless every page and every slot is free exactly once.
fn assert_idle(engine: &Engine) {
    let sorted = |numbers: &[u32]| {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers
    };
    let limits = engine.limits();
    assert_eq!(sorted(engine.free_pages()), Vec::from_iter(1..=limits.pages));
    assert_eq!(sorted(engine.free_slots()), Vec::from_iter(0..limits.sequences));
}
