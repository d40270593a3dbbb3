//! One request: its prompt in chunks, then tokens one by one until something ends it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use program::Output;

use crate::reply::{Ending, Next, Reply};
use crate::sampling::{TokenBytes, Workspace};
use crate::{Engine, Error, Part, Result, Sampling, Sequence};

/// What is to be generated.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// How tokens are drawn.
    pub sampling: &'a Sampling,
    /// What ends the answer, and what must not be in it.
    pub ending: &'a Ending,
    /// What each token stands for.
    pub token_bytes: &'a TokenBytes<'a>,
    /// Ends the answer when it becomes true: at once while tokens are drawn, after the chunk under way
    /// while the prompt is fed.
    pub cancel: &'a AtomicBool,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model drew one of the tokens that end it, or one of the strings came.
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
    /// Those of them that were cached already.
    pub cached_tokens: usize,
    /// Tokens of the answer.
    pub tokens: usize,
    /// Tokens that were drawn and taken back, since a banned string came.
    pub taken_back: usize,
    /// From the start until the first token was drawn.
    pub prompt_time: Duration,
    /// From then on to the end.
    pub answer_time: Duration,
}

/// Runs one request to its end: answers what the sequence holds, all of which is the prompt, and calls `emit` with
/// each piece of the answer's text as soon as it is sure; `emit` breaks to cancel. The answer's tokens are in the
/// sequence afterwards, but for one that ended it.
///
/// A prompt of `n` tokens in a context of `c` can be answered by up to `c - n + 1` tokens, since the last
/// one need not be cached.
///
/// # Errors
/// If the prompt has no tokens that are not cached, or more than the context, or the engine fails.
pub fn generate(
    engine: &mut Engine,
    sequence: &mut Sequence,
    request: &Request<'_>,
    emit: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<Report> {
    let (prompt, context) = (sequence.tokens().len(), engine.limits().context);
    if sequence.waiting() == 0 {
        return Err(Error::EmptyPrompt);
    }
    if prompt > context as usize {
        return Err(Error::PromptTooLong { prompt, context });
    }
    let cached_tokens = sequence.cached() as usize;
    let Request { sampling, ending, token_bytes, .. } = *request;
    let mut reply = Reply::new(sampling.clone(), ending.clone(), sequence.tokens(), token_bytes);
    let mut work = Workspace::default();
    let mut text = String::new();
    let mut taken_back = 0;
    let start = Instant::now();
    let mut first_drawn = None;
    let finish = loop {
        text.clear();
        let token = if reply.tokens() >= ending.max_tokens {
            Err(Finish::Length)
        } else if sequence.cached() == context {
            Err(Finish::Context)
        } else {
            draw(engine, sequence, &reply, (&mut work, request.cancel))?.ok_or(Finish::Cancelled)
        };
        let token = match token {
            Ok(token) => token,
            Err(finish) => {
                reply.finish(&mut text);
                let _ = emit_text(&text, emit);
                break finish;
            }
        };
        first_drawn.get_or_insert_with(Instant::now);
        let next = reply.push(token, token_bytes(token), sequence.tokens(), &mut text);
        if let Next::Append | Next::AppendAndEnd(_) = next {
            sequence.push(token);
        }
        let wanted = emit_text(&text, emit);
        match next {
            Next::End(finish) | Next::AppendAndEnd(finish) => break finish,
            Next::Append if wanted.is_break() => break Finish::Cancelled,
            Next::Append => {}
            Next::GoBack { length } => {
                taken_back += sequence.tokens().len() + 1 - length;
                engine.truncate(sequence, length);
            }
        }
    };
    let end = Instant::now();
    let first_drawn = first_drawn.unwrap_or(end);
    Ok(Report {
        finish,
        prompt_tokens: prompt,
        cached_tokens,
        tokens: reply.tokens(),
        taken_back,
        prompt_time: first_drawn - start,
        answer_time: end - first_drawn,
    })
}

fn emit_text(text: &str, emit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    if text.is_empty() { ControlFlow::Continue(()) } else { emit(text) }
}

/// Feeds what the sequence has waiting and draws the token after it, or none if the request was cancelled.
fn draw(
    engine: &mut Engine,
    sequence: &mut Sequence,
    reply: &Reply,
    (work, cancel): (&mut Workspace, &AtomicBool),
) -> Result<Option<u32>> {
    let known = engine.known();
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let rows = sequence.waiting().min(engine.limits().chunk);
        let last = rows == sequence.waiting();
        let output = Output { row: rows - 1, want: reply.want() };
        let outputs = if last { std::slice::from_ref(&output) } else { &[] };
        let outcome = engine.step(&mut [Part { sequence, rows, outputs }])?;
        if last {
            return reply.token(sequence.tokens(), known, (&outcome, 0), work).map(Some);
        }
    }
}
