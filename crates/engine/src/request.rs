//! What a client asks for, and what it is told.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::{Ending, Error, Sampling};

/// A prompt to be answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Where the answer begins; at least one token.
    pub prompt: Vec<u32>,
    /// How tokens are drawn. Sample `i` of several draws with the seed plus `i`.
    pub sampling: Sampling,
    /// What ends an answer, and what must not be in it. With a longest answer of 0 tokens the prompt is read, and its
    /// log-probabilities given if they are asked for, but nothing is drawn.
    pub ending: Ending,
    /// How many answers.
    pub samples: NonZeroU32,
    /// Whether each token of an answer comes with its log-probability and those of this many of the most probable.
    pub log_probabilities: Option<u32>,
    /// The same for each token of the prompt but the first. They are told once, of sample 0.
    pub prompt_log_probabilities: Option<u32>,
    /// Its place in the queue.
    pub class: Class,
    /// When it ends, finished or not.
    pub deadline: Option<Instant>,
    /// Requests share cached pages only if they have the same salt.
    pub salt: Vec<u8>,
}

impl Request {
    /// One answer to a prompt, and nothing else asked for.
    pub fn new(prompt: Vec<u32>, sampling: Sampling, ending: Ending) -> Request {
        Request {
            prompt,
            sampling,
            ending,
            samples: NonZeroU32::MIN,
            log_probabilities: None,
            prompt_log_probabilities: None,
            class: Class::Normal,
            deadline: None,
            salt: Vec::new(),
        }
    }
}

/// A request's place in the queue: within a class who comes first goes first, and a class is a head start over the
/// next one of [`Class::HEAD_START`] places. So nobody waits for ever, whatever comes later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Somebody waits for it more than for others.
    Urgent,
    /// No more than any other.
    #[default]
    Normal,
    /// It can wait.
    Background,
}

impl Class {
    /// How many answers that come later can at most overtake one of the next class.
    pub const HEAD_START: u64 = 256;

    /// How many places behind its turn an answer stands.
    pub(crate) fn places(self) -> u64 {
        match self {
            Class::Urgent => 0,
            Class::Normal => Class::HEAD_START,
            Class::Background => 2 * Class::HEAD_START,
        }
    }
}

/// A request, among all that a scheduler was ever given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// One answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleId {
    /// The request.
    pub request: RequestId,
    /// Which of its answers, from 0.
    pub sample: u32,
}

/// What happened to an answer. [`Event::Finished`] or [`Event::Failed`] is the last one of each.
#[derive(Debug)]
pub enum Event<'a> {
    /// How probable a token of the prompt was, in their order.
    Prompt {
        /// Its place in the prompt, at least 1.
        place: usize,
        /// The token.
        token: u32,
        /// How probable it was.
        log_probabilities: LogProbabilities<'a>,
    },
    /// A token was drawn and is part of the answer.
    Token {
        /// The token.
        token: u32,
        /// What text is sure now: whole characters, which may be those of tokens before, or none.
        text: &'a str,
        /// How probable it was, if that was asked for.
        log_probabilities: Option<LogProbabilities<'a>>,
    },
    /// The last tokens of the answer are none of it after all, since a banned string came. No text of theirs was told.
    TakenBack {
        /// How many.
        tokens: usize,
    },
    /// The answer is at its end.
    Finished {
        /// What text was held until now.
        text: &'a str,
        /// Why it ended, and what it took.
        report: Report,
    },
    /// There will be no more of the answer.
    Failed(Error),
}

impl Event<'_> {
    /// The text that it brings.
    pub fn text(&self) -> &str {
        match self {
            Event::Token { text, .. } | Event::Finished { text, .. } => text,
            Event::Prompt { .. } | Event::TakenBack { .. } | Event::Failed(_) => "",
        }
    }
}

/// How probable tokens were as the model predicted them, before any temperature, penalty or filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogProbabilities<'a> {
    /// The natural logarithm of the token's probability.
    pub token: f32,
    /// The most probable tokens with theirs, the best first, ties to the lower id: as many as were asked for.
    pub top: &'a [(u32, f32)],
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
    /// Its time was up.
    Deadline,
}

/// What came of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of them that were cached already when it began.
    pub cached_tokens: usize,
    /// Tokens of the answer.
    pub tokens: usize,
    /// Tokens that were drawn and taken back, since a banned string came.
    pub taken_back: usize,
    /// How often it had to give its pages to an older one and begin anew.
    pub preemptions: u32,
    /// From the call until it began.
    pub queue_time: Duration,
    /// From then on until its first token was drawn.
    pub prompt_time: Duration,
    /// From then on to the end.
    pub answer_time: Duration,
}
