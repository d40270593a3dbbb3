//! One request from prompt to end.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Engine, Error, Finish, Limits, Report, Request, Sampling, generate};

use crate::fake::{self, Fake};
use crate::{assert_idle, engine};

const WARM: Sampling = Sampling { temperature: 1.0, seed: 5, ..Sampling::GREEDY };
static GO_ON: AtomicBool = AtomicBool::new(false);

fn request(prompt: &[u32], max_tokens: usize) -> Request<'_> {
    Request { prompt, sampling: WARM, stop: &[], max_tokens, cancel: &GO_ON }
}

fn run(engine: &mut Engine, request: &Request<'_>) -> (Vec<u32>, Report) {
    let mut tokens = Vec::new();
    let report = generate(engine, request, &mut |token| {
        tokens.push(token);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((report.tokens, report.prompt_tokens), (tokens.len(), request.prompt.len()));
    assert_idle(engine);
    (tokens, report)
}

#[test]
fn an_answer_ends_at_the_length_asked_for() {
    let mut engine = engine(Limits::one_sequence(100));
    for length in [0, 1, 5] {
        let (tokens, report) = run(&mut engine, &request(&[1, 2, 3], length));
        assert_eq!((tokens.len(), report.finish), (length, Finish::Length));
    }
}

#[test]
fn an_answer_ends_before_a_stop_token() {
    let mut engine = engine(Limits::one_sequence(100));
    let (tokens, _) = run(&mut engine, &request(&[1, 2, 3], 20));
    let stop = tokens[7];
    let before = tokens.iter().position(|token| *token == stop).unwrap();
    let (stopped, report) = run(&mut engine, &Request { stop: &[stop], ..request(&[1, 2, 3], 20) });
    assert_eq!((&stopped[..], report.finish), (&tokens[..before], Finish::Stop));
}

#[test]
fn a_prompt_of_exactly_the_context_gives_one_token() {
    let mut engine = engine(Limits::one_sequence(70));
    let (tokens, report) = run(&mut engine, &request(&[3; 70], 20));
    assert_eq!((tokens.len(), report.finish), (1, Finish::Context));
    let (tokens, report) = run(&mut engine, &request(&[3; 64], 20));
    assert_eq!((tokens.len(), report.finish), (7, Finish::Context));
}

#[test]
fn a_prompt_one_token_longer_than_the_context_is_refused_with_both_counts() {
    let mut engine = engine(Limits::one_sequence(70));
    let refused = generate(&mut engine, &request(&[3; 71], 20), &mut |_| unreachable!()).unwrap_err();
    assert!(matches!(refused, Error::PromptTooLong { prompt: 71, context: 70 }));
    assert!(refused.to_string().contains("71") && refused.to_string().contains("70"), "{refused}");
    assert_idle(&engine);
}

#[test]
fn an_empty_prompt_is_refused() {
    let mut engine = engine(Limits::one_sequence(70));
    let refused = generate(&mut engine, &request(&[], 20), &mut |_| unreachable!()).unwrap_err();
    assert!(matches!(refused, Error::EmptyPrompt));
    assert_idle(&engine);
}

#[test]
fn a_token_id_that_the_model_does_not_know_is_refused_and_nothing_is_lost() {
    let mut engine = engine(Limits::one_sequence(70));
    let refused = generate(&mut engine, &request(&[61], 20), &mut |_| unreachable!()).unwrap_err();
    assert!(refused.to_string().contains("61"), "{refused}");
    assert_idle(&engine);
}

#[test]
fn logits_that_are_not_finite_end_the_request_with_an_error_and_nothing_is_lost() {
    let mut broken = Fake::default();
    broken.offset = f32::NAN;
    let mut engine = Engine::new(Box::new(broken), &fake::model(), Limits::one_sequence(70)).unwrap();
    let refused = generate(&mut engine, &request(&[1, 2, 3], 20), &mut |_| unreachable!()).unwrap_err();
    assert!(matches!(refused, Error::NotFinite { tokens: 3 }), "{refused}");
    assert_idle(&engine);
}

#[test]
fn the_chunk_does_not_change_the_answer() {
    let prompt: Vec<u32> = (0..150).map(|token| token % 61).collect();
    let (tokens, _) = run(&mut engine(Limits::one_sequence(200)), &request(&prompt, 20));
    for chunk in [1, 7, 64, 65, 150] {
        let mut engine = engine(Limits { chunk, ..Limits::one_sequence(200) });
        assert_eq!(run(&mut engine, &request(&prompt, 20)).0, tokens, "chunks of {chunk}");
    }
}

#[test]
fn a_seed_gives_the_same_answer_again_and_another_seed_another_one() {
    let mut engine = engine(Limits::one_sequence(100));
    let mut with = |sampling| run(&mut engine, &Request { sampling, ..request(&[1, 2, 3], 20) }).0;
    assert_eq!(with(WARM), with(WARM));
    assert_ne!(with(WARM), with(Sampling { seed: 6, ..WARM }));
    assert_ne!(with(WARM), with(Sampling::GREEDY));
    assert_eq!(with(Sampling { top_k: 1, ..WARM }), with(Sampling::GREEDY));
    assert_eq!(with(Sampling { top_p: 0.0, ..WARM }), with(Sampling::GREEDY));
    assert_eq!(with(Sampling { min_p: 1.0, ..WARM }), with(Sampling::GREEDY));
}

#[test]
fn a_request_cancelled_before_it_begins_draws_nothing() {
    let mut engine = engine(Limits::one_sequence(100));
    let cancel = AtomicBool::new(true);
    let (tokens, report) = run(&mut engine, &Request { cancel: &cancel, ..request(&[1, 2, 3], 20) });
    assert_eq!((tokens.len(), report.finish), (0, Finish::Cancelled));
}

#[test]
fn a_request_cancelled_while_tokens_are_drawn_ends_at_once() {
    let mut engine = engine(Limits::one_sequence(100));
    let cancel = AtomicBool::new(false);
    let request = Request { cancel: &cancel, ..request(&[1, 2, 3], 20) };
    let mut count = 0;
    let report = generate(&mut engine, &request, &mut |_| {
        count += 1;
        cancel.store(count == 4, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert_eq!((report.unwrap().finish, count), (Finish::Cancelled, 4));
    assert_idle(&engine);
}

#[test]
fn a_receiver_that_wants_no_more_ends_the_request() {
    let mut engine = engine(Limits::one_sequence(100));
    let report = generate(&mut engine, &request(&[1, 2, 3], 20), &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((report.finish, report.tokens), (Finish::Cancelled, 1));
    assert_idle(&engine);
}
