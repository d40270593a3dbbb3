//! One request from prompt to end.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Ending, Error, Finish, Limits, Report, Request, Sampling, Scheduler, generate};

use crate::alone::{Answer, ask, scheduler, scheduler_on};
use crate::fake::{self, Fake};

fn warm() -> Sampling {
    Sampling { temperature: 1.0, seed: 5, ..Sampling::GREEDY }
}

fn question(prompt: &[u32], max_tokens: usize) -> Request {
    Request::new(prompt.to_vec(), warm(), Ending { max_tokens, ..Ending::default() })
}

/// Asks, and checks that the text is that of the tokens.
fn answer(scheduler: &mut Scheduler, request: &Request) -> (Vec<u32>, Report) {
    let Answer { pieces, tokens, report } = ask(scheduler, request).unwrap();
    assert_eq!((report.tokens, report.prompt_tokens), (tokens.len(), request.prompt.len()));
    assert_eq!(pieces.concat(), fake::text(&tokens));
    (tokens, report)
}

#[test]
fn an_answer_ends_at_the_length_asked_for() {
    let mut scheduler = scheduler(Limits::one_sequence(100));
    for length in [0, 1, 5] {
        let (tokens, report) = answer(&mut scheduler, &question(&[1, 2, 3], length));
        assert_eq!((tokens.len(), report.finish), (length, Finish::Length));
    }
}

#[test]
fn an_answer_ends_before_a_stop_token() {
    let mut scheduler = scheduler(Limits::one_sequence(100));
    let (tokens, _) = answer(&mut scheduler, &question(&[1, 2, 3], 20));
    let stop = tokens[7];
    let before = tokens.iter().position(|token| *token == stop).unwrap();
    let ending = Ending { tokens: vec![stop], max_tokens: 20, ..Ending::default() };
    let (stopped, report) = answer(&mut scheduler, &Request { ending, ..question(&[1, 2, 3], 20) });
    assert_eq!((&stopped[..], report.finish), (&tokens[..before], Finish::Stop));
}

#[test]
fn a_prompt_of_exactly_the_context_gives_one_token() {
    let mut scheduler = scheduler(Limits::one_sequence(70));
    let (tokens, report) = answer(&mut scheduler, &question(&[3; 70], 20));
    assert_eq!((tokens.len(), report.finish), (1, Finish::Context));
    let (tokens, report) = answer(&mut scheduler, &question(&[3; 64], 20));
    assert_eq!((tokens.len(), report.finish), (7, Finish::Context));
}

#[test]
fn a_prompt_one_token_longer_than_the_context_is_refused_with_both_counts() {
    let mut scheduler = scheduler(Limits::one_sequence(70));
    let refused = ask(&mut scheduler, &question(&[3; 71], 20)).err().unwrap();
    assert!(matches!(refused, Error::PromptTooLong { prompt: 71, context: 70 }));
    assert!(refused.to_string().contains("71") && refused.to_string().contains("70"), "{refused}");
}

#[test]
fn an_empty_prompt_is_refused() {
    let mut scheduler = scheduler(Limits::one_sequence(70));
    let refused = ask(&mut scheduler, &question(&[], 20)).err().unwrap();
    assert!(matches!(refused, Error::EmptyPrompt));
}

#[test]
fn a_token_id_that_the_model_does_not_know_is_refused_and_nothing_is_lost() {
    let mut scheduler = scheduler(Limits::one_sequence(70));
    let refused = ask(&mut scheduler, &question(&[61], 20)).err().unwrap();
    assert!(refused.to_string().contains("61"), "{refused}");
}

#[test]
fn logits_that_are_not_finite_end_the_request_with_an_error_and_nothing_is_lost() {
    let mut broken = Fake::default();
    broken.offset = f32::NAN;
    let mut scheduler = scheduler_on(broken, Limits::one_sequence(70));
    let refused = ask(&mut scheduler, &question(&[1, 2, 3], 20)).err().unwrap();
    assert!(matches!(refused, Error::NotFinite { tokens: 3 }), "{refused}");
}

#[test]
fn the_chunk_does_not_change_the_answer() {
    let prompt: Vec<u32> = (0..150).map(|token| token % 61).collect();
    let (tokens, _) = answer(&mut scheduler(Limits::one_sequence(200)), &question(&prompt, 20));
    for chunk in [1, 7, 64, 65, 150] {
        let mut scheduler = scheduler(Limits { chunk, ..Limits::one_sequence(200) });
        assert_eq!(answer(&mut scheduler, &question(&prompt, 20)).0, tokens, "chunks of {chunk}");
    }
}

#[test]
fn a_seed_gives_the_same_answer_again_and_another_seed_another_one() {
    let mut scheduler = scheduler(Limits::one_sequence(100));
    let mut with = |sampling| answer(&mut scheduler, &Request { sampling, ..question(&[1, 2, 3], 20) }).0;
    assert_eq!(with(warm()), with(warm()));
    assert_ne!(with(warm()), with(Sampling { seed: 6, ..warm() }));
    assert_ne!(with(warm()), with(Sampling::GREEDY));
    assert_eq!(with(Sampling { top_k: 1, ..warm() }), with(Sampling::GREEDY));
    assert_eq!(with(Sampling { top_p: 0.0, ..warm() }), with(Sampling::GREEDY));
    assert_eq!(with(Sampling { min_p: 1.0, ..warm() }), with(Sampling::GREEDY));
}

/// Runs a request, and counts the tokens told until `emit` or `cancel` ended it.
fn cancelled(cancel: &AtomicBool, emit: &dyn Fn(usize) -> ControlFlow<()>) -> (usize, Report) {
    let mut scheduler = scheduler(Limits::one_sequence(100));
    let mut count = 0;
    let report =
        generate(&mut scheduler, question(&[1, 2, 3], 20), &fake::token_bytes, cancel, &mut |event| {
            count += event.text().len();
            emit(count)
        });
    crate::assert_idle(scheduler.engine());
    (count, report.unwrap())
}

#[test]
fn a_request_cancelled_before_it_begins_draws_nothing() {
    let (count, report) = cancelled(&AtomicBool::new(true), &|_| ControlFlow::Continue(()));
    assert_eq!((count, report.tokens, report.finish), (0, 0, Finish::Cancelled));
}

#[test]
fn a_request_cancelled_while_tokens_are_drawn_ends_at_once() {
    let cancel = AtomicBool::new(false);
    let (count, report) = cancelled(&cancel, &|count| {
        cancel.store(count == 4, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert_eq!((report.finish, count), (Finish::Cancelled, 4));
}

#[test]
fn a_receiver_that_wants_no_more_ends_the_request() {
    let (count, report) = cancelled(&AtomicBool::new(false), &|_| ControlFlow::Break(()));
    assert_eq!((report.finish, report.tokens, count), (Finish::Cancelled, 1, 1));
}
