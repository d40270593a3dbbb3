//! One request: its prompt in chunks, then tokens one by one until something ends it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use program::{Output, Want};

use crate::{Engine, Error, Part, Result, Sampling, Sequence};

/// What is to be generated.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Where it begins; at least one token.
    pub prompt: &'a [u32],
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Tokens that end the answer and are no part of it.
    pub stop: &'a [u32],
    /// The longest answer.
    pub max_tokens: usize,
    /// Ends the answer when it becomes true: at once while tokens are drawn, after the chunk under way
    /// while the prompt is fed.
    pub cancel: &'a AtomicBool,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model drew one of the stop tokens.
    Stop,
    /// It is as long as was asked for.
    Length,
    /// Its last token could be drawn, but the context has no room to go on from it.
    Context,
    /// The caller wanted no more.
    Cancelled,
}

/// What came of a request.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens given to the caller.
    pub tokens: usize,
    /// From the start until the first token was drawn.
    pub prompt_time: Duration,
    /// From then on to the end.
    pub answer_time: Duration,
}

/// Runs one request to its end and calls `emit` with each token of the answer as it is drawn; `emit`
/// breaks to cancel.
///
/// A prompt of `n` tokens in a context of `c` can be answered by up to `c - n + 1` tokens, since the last
/// one need not be cached.
///
/// # Errors
/// If the prompt has no tokens or more than the context, or the engine fails.
pub fn generate(
    engine: &mut Engine,
    request: &Request<'_>,
    emit: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Report> {
    let (prompt, context) = (request.prompt.len(), engine.limits().context);
    if prompt == 0 {
        return Err(Error::EmptyPrompt);
    }
    if prompt > context as usize {
        return Err(Error::PromptTooLong { prompt, context });
    }
    let mut sequence = engine.open(request.prompt)?;
    let report = run(engine, request, &mut sequence, emit);
    engine.close(sequence);
    report
}

fn run(
    engine: &mut Engine,
    request: &Request<'_>,
    sequence: &mut Sequence,
    emit: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Report> {
    let context = engine.limits().context;
    let start = Instant::now();
    let mut first_drawn = None;
    let mut tokens = 0;
    let finish = loop {
        if tokens == request.max_tokens {
            break Finish::Length;
        }
        if sequence.cached() == context {
            break Finish::Context;
        }
        let Some(token) = draw(engine, request, sequence)? else { break Finish::Cancelled };
        first_drawn.get_or_insert_with(Instant::now);
        if request.stop.contains(&token) {
            break Finish::Stop;
        }
        sequence.push(token);
        tokens += 1;
        if emit(token).is_break() {
            break Finish::Cancelled;
        }
    };
    let end = Instant::now();
    let first_drawn = first_drawn.unwrap_or(end);
    Ok(Report {
        finish,
        prompt_tokens: request.prompt.len(),
        tokens,
        prompt_time: first_drawn - start,
        answer_time: end - first_drawn,
    })
}

/// Feeds what the sequence has waiting and draws the token after it, or none if the request was cancelled.
fn draw(engine: &mut Engine, request: &Request<'_>, sequence: &mut Sequence) -> Result<Option<u32>> {
    loop {
        if request.cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let rows = sequence.waiting().min(engine.limits().chunk);
        let place = sequence.cached() + rows;
        let output = Output { row: rows - 1, want: Want::Choose(request.sampling.draw(place)) };
        let last = rows == sequence.waiting();
        let outputs = if last { std::slice::from_ref(&output) } else { &[] };
        let outcome = engine.step(&mut [Part { sequence, rows, outputs }])?;
        if last {
            return outcome.token(0).map(Some).ok_or(Error::NotFinite { tokens: place });
        }
    }
}
