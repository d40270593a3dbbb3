//! One request from prompt to end.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Ending, Engine, Error, Finish, Limits, Report, Request, Sampling, generate};

use crate::fake::{self, Fake};
use crate::{assert_idle, engine};

static GO_ON: AtomicBool = AtomicBool::new(false);

fn warm() -> Sampling {
    Sampling { temperature: 1.0, seed: 5, ..Sampling::GREEDY }
}

/// A prompt and what is asked of its answer.
struct Question<'a> {
    prompt: &'a [u32],
    sampling: Sampling,
    ending: Ending,
    cancel: &'a AtomicBool,
}

fn question(prompt: &[u32], max_tokens: usize) -> Question<'_> {
    Question { prompt, sampling: warm(), ending: Ending { max_tokens, ..Ending::default() }, cancel: &GO_ON }
}

impl Question<'_> {
    /// Asks, and closes the sequence again. The answer's tokens are what `generate` left in the sequence.
    fn ask(
        &self,
        engine: &mut Engine,
        emit: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<(Vec<u32>, Report), Error> {
        let mut sequence = engine.open(self.prompt)?;
        let request = Request {
            sampling: &self.sampling,
            ending: &self.ending,
            token_bytes: &|token| fake::token_bytes(token),
            cancel: self.cancel,
        };
        let report = generate(engine, &mut sequence, &request, emit);
        let tokens = sequence.tokens()[self.prompt.len()..].to_vec();
        engine.close(sequence);
        assert_idle(engine);
        report.map(|report| (tokens, report))
    }

    /// As [`Question::ask`], and checks that the text is that of the tokens.
    fn answer(&self, engine: &mut Engine) -> (Vec<u32>, Report) {
        let mut text = String::new();
        let answer = self.ask(engine, &mut |piece| {
            text.push_str(piece);
            ControlFlow::Continue(())
        });
        let (tokens, report) = answer.unwrap();
        assert_eq!((report.tokens, report.prompt_tokens), (tokens.len(), self.prompt.len()));
        assert_eq!(text, fake::text(&tokens));
        (tokens, report)
    }
}

#[test]
fn an_answer_ends_at_the_length_asked_for() {
    let mut engine = engine(Limits::one_sequence(100));
    for length in [0, 1, 5] {
        let (tokens, report) = question(&[1, 2, 3], length).answer(&mut engine);
        assert_eq!((tokens.len(), report.finish), (length, Finish::Length));
    }
}

#[test]
fn an_answer_ends_before_a_stop_token() {
    let mut engine = engine(Limits::one_sequence(100));
    let (tokens, _) = question(&[1, 2, 3], 20).answer(&mut engine);
    let stop = tokens[7];
    let before = tokens.iter().position(|token| *token == stop).unwrap();
    let ending = Ending { tokens: vec![stop], max_tokens: 20, ..Ending::default() };
    let (stopped, report) = Question { ending, ..question(&[1, 2, 3], 20) }.answer(&mut engine);
    assert_eq!((&stopped[..], report.finish), (&tokens[..before], Finish::Stop));
}

#[test]
fn a_prompt_of_exactly_the_context_gives_one_token() {
    let mut engine = engine(Limits::one_sequence(70));
    let (tokens, report) = question(&[3; 70], 20).answer(&mut engine);
    assert_eq!((tokens.len(), report.finish), (1, Finish::Context));
    let (tokens, report) = question(&[3; 64], 20).answer(&mut engine);
    assert_eq!((tokens.len(), report.finish), (7, Finish::Context));
}

#[test]
fn a_prompt_one_token_longer_than_the_context_is_refused_with_both_counts() {
    let mut engine = engine(Limits::one_sequence(70));
    let refused = question(&[3; 71], 20).ask(&mut engine, &mut |_| unreachable!()).unwrap_err();
    assert!(matches!(refused, Error::PromptTooLong { prompt: 71, context: 70 }));
    assert!(refused.to_string().contains("71") && refused.to_string().contains("70"), "{refused}");
}

#[test]
fn an_empty_prompt_is_refused() {
    let mut engine = engine(Limits::one_sequence(70));
    let refused = question(&[], 20).ask(&mut engine, &mut |_| unreachable!()).unwrap_err();
    assert!(matches!(refused, Error::EmptyPrompt));
}

#[test]
fn a_token_id_that_the_model_does_not_know_is_refused_and_nothing_is_lost() {
    let mut engine = engine(Limits::one_sequence(70));
    let refused = question(&[61], 20).ask(&mut engine, &mut |_| unreachable!()).unwrap_err();
    assert!(refused.to_string().contains("61"), "{refused}");
}

#[test]
fn logits_that_are_not_finite_end_the_request_with_an_error_and_nothing_is_lost() {
    let mut broken = Fake::default();
    broken.offset = f32::NAN;
    let mut engine = Engine::new(Box::new(broken), &fake::model(), Limits::one_sequence(70)).unwrap();
    let refused = question(&[1, 2, 3], 20).ask(&mut engine, &mut |_| unreachable!()).unwrap_err();
    assert!(matches!(refused, Error::NotFinite { tokens: 3 }), "{refused}");
}

#[test]
fn the_chunk_does_not_change_the_answer() {
    let prompt: Vec<u32> = (0..150).map(|token| token % 61).collect();
    let (tokens, _) = question(&prompt, 20).answer(&mut engine(Limits::one_sequence(200)));
    for chunk in [1, 7, 64, 65, 150] {
        let mut engine = engine(Limits { chunk, ..Limits::one_sequence(200) });
        assert_eq!(question(&prompt, 20).answer(&mut engine).0, tokens, "chunks of {chunk}");
    }
}

#[test]
fn a_seed_gives_the_same_answer_again_and_another_seed_another_one() {
    let mut engine = engine(Limits::one_sequence(100));
    let mut with = |sampling| Question { sampling, ..question(&[1, 2, 3], 20) }.answer(&mut engine).0;
    assert_eq!(with(warm()), with(warm()));
    assert_ne!(with(warm()), with(Sampling { seed: 6, ..warm() }));
    assert_ne!(with(warm()), with(Sampling::GREEDY));
    assert_eq!(with(Sampling { top_k: 1, ..warm() }), with(Sampling::GREEDY));
    assert_eq!(with(Sampling { top_p: 0.0, ..warm() }), with(Sampling::GREEDY));
    assert_eq!(with(Sampling { min_p: 1.0, ..warm() }), with(Sampling::GREEDY));
}

#[test]
fn a_request_cancelled_before_it_begins_draws_nothing() {
    let mut engine = engine(Limits::one_sequence(100));
    let cancel = AtomicBool::new(true);
    let (tokens, report) = Question { cancel: &cancel, ..question(&[1, 2, 3], 20) }.answer(&mut engine);
    assert_eq!((tokens.len(), report.finish), (0, Finish::Cancelled));
}

#[test]
fn a_request_cancelled_while_tokens_are_drawn_ends_at_once() {
    let mut engine = engine(Limits::one_sequence(100));
    let cancel = AtomicBool::new(false);
    let mut count = 0;
    let question = Question { cancel: &cancel, ..question(&[1, 2, 3], 20) };
    let answer = question.ask(&mut engine, &mut |_| {
        count += 1;
        cancel.store(count == 4, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert_eq!((answer.unwrap().1.finish, count), (Finish::Cancelled, 4));
}

#[test]
fn a_receiver_that_wants_no_more_ends_the_request() {
    let mut engine = engine(Limits::one_sequence(100));
    let answer = question(&[1, 2, 3], 20).ask(&mut engine, &mut |_| ControlFlow::Break(()));
    let (tokens, report) = answer.unwrap();
    assert_eq!((report.finish, report.tokens, tokens.len()), (Finish::Cancelled, 1, 1));
}
