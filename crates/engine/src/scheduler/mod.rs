//! The scheduler: which rows of which answers go through the device next.
//!
//! A single thread drives it: [`Scheduler::submit`] puts answers into the queue, and each [`Scheduler::step`] runs one
//! step of the device and tells what came of it as [`Event`]s.
//!
//! ```text
//! submit -> waiting --begin--> running --end--> told, forgotten
//!              ^                  |
//!              +----- yield ------+
//! ```
//!
//! There is one order of all answers, the [rank](crate::Class): first come, first served, with a head start for some.
//!
//! - **Begin**: the first answer waiting begins when there are a slot and pages for all of its tokens, and one more
//!   for each answer running. Pages for the answer itself are taken as it grows.
//! - **Yield**: when a running answer needs a page and there is none, the last one running gives back all it holds and
//!   waits at its place. Its tokens stay on the host; it is computed again from them, or finds them still cached.
//! - **Share**: a full page is known by a hash of all tokens up to its end. An answer begins with the pages that are
//!   there, and waits for an older one that is about to compute what it needs. So do the answers to one prompt: the
//!   first computes it and the others share its full pages; what is left of it, less than a page, each feeds itself,
//!   which needs no copy and costs one part of one step.
//! - **A step** has one row of each answer that draws, then as much of prompts, the first first, as it may have rows.
//!
//! Nobody starves. The first of all answers is never made to yield and has a row in every step, so an answer is at its
//! end after at most as many steps as all answers up to it in the order have tokens, prompts included (and tokens taken
//! back).
//!
//! An answer does not depend on the others, provided that a device's rows do not: random numbers come from seed and
//! place, and what is fed again is the same tokens.
//!
//! One step is under way at a time: `plan` makes it, `Engine::run` runs it, `settle` draws the consequences. To prepare
//! the next one while a device runs this one, `plan` would have to run before `settle`, with the tokens still unknown as
//! `Token::Previous`; what ends an answer would then be found a row too late, and that row thrown away.

mod job;
mod plan;
mod queue;
mod settle;

use std::time::{Duration, Instant};

use crate::prefix::PageHash;
use crate::request::{Event, Finish, Request, RequestId, SampleId};
use crate::sampling::{TokenBytes, Workspace};
use crate::{Engine, Error, Reply, Result, Sequence};

use job::{Job, Rank};
use plan::Turn;

/// How a scheduler works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Answers that may wait when all that can run do.
    pub queue: usize,
    /// Whether pages are kept for, and shared with, later requests that begin in the same way. Answers to one request
    /// share them in any case.
    pub prefix_cache: bool,
    /// What cached rows depend on beside the tokens: names of the model's weights, its template, the caches' number
    /// format. It matters once pages outlive the process.
    pub salt: Vec<u8>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { queue: 1024, prefix_cache: true, salt: Vec::new() }
    }
}

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Answers that wait.
    pub waiting: usize,
    /// Answers that run.
    pub running: usize,
    /// Cache pages in all.
    pub pages: usize,
    /// Those that no answer owns.
    pub available_pages: usize,
    /// Those of them that hold the beginning of a text that may come again.
    pub kept_pages: usize,
}

/// What happened since the scheduler was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps of the device.
    pub steps: u64,
    /// Rows fed, those of preempted answers each time.
    pub rows: u64,
    /// Tokens drawn, those taken back included.
    pub drawn: u64,
    /// How often an answer had to yield.
    pub preemptions: u64,
    /// Answers that failed.
    pub failed: u64,
    /// Tokens of answers that began, each time they did.
    pub prefix_tokens: u64,
    /// Those of them that were cached already.
    pub prefix_hits: u64,
    /// Time in the device.
    pub device: Duration,
}

/// Receives events.
pub type Emit<'a> = dyn FnMut(SampleId, Event<'_>) + 'a;

/// An engine, and all answers that it is asked for.
pub struct Scheduler {
    engine: Engine,
    settings: Settings,
    /// In the order of their ranks, as `running` is.
    #[expect(
        clippy::vec_box,
        reason = "answers are hundreds of bytes, and move within the lists and between them"
    )]
    waiting: Vec<Box<Job>>,
    #[expect(clippy::vec_box, reason = "see `waiting`")]
    running: Vec<Box<Job>>,
    /// What each of `running` does in the step under way.
    turns: Vec<Turn>,
    scratch: Scratch,
    counts: Counts,
    requests: u64,
    samples: u64,
}

/// Lists that are filled anew each time.
#[derive(Default)]
struct Scratch {
    outputs: Vec<program::Output>,
    text: String,
    top: Vec<(u32, f32)>,
    draws: Workspace,
}

impl Scheduler {
    /// Takes over an engine.
    ///
    /// # Errors
    /// If its limits leave no room for one sequence of the longest context, or for one row and one output of each
    /// sequence in a step.
    pub fn new(engine: Engine, settings: Settings) -> Result<Scheduler> {
        let limits = engine.limits();
        let need = [
            (limits.pages, limits.context.div_ceil(program::PAGE_TOKENS), "pages, and one sequence can need"),
            (limits.chunk, limits.sequences, "rows a step, and the sequences can need"),
            (limits.outputs, limits.sequences, "outputs a step, and the sequences can need"),
            (limits.sequences, 1, "sequences at once, and there must be"),
        ];
        if let Some((found, needed, what)) = need.into_iter().find(|(found, needed, _)| found < needed) {
            return Err(Error::Limits(format!("there are {found} {what} {needed}")));
        }
        let sequences = limits.sequences as usize;
        Ok(Scheduler {
            engine,
            waiting: Vec::with_capacity(settings.queue.min(1 << 16) + 2 * sequences),
            running: Vec::with_capacity(sequences),
            turns: Vec::with_capacity(sequences),
            scratch: Scratch {
                outputs: Vec::with_capacity(limits.outputs as usize),
                text: String::with_capacity(1024),
                ..Scratch::default()
            },
            settings,
            counts: Counts::default(),
            requests: 0,
            samples: 0,
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Puts the answers to a request into the queue. What is wrong with it is said here, before any work.
    ///
    /// # Errors
    /// If the prompt has no tokens, more than the context, or unknown ones, or if too many answers wait already.
    pub fn submit(&mut self, request: Request, token_bytes: &TokenBytes<'_>) -> Result<RequestId> {
        self.check(&request)?;
        let id = RequestId(self.requests);
        self.requests += 1;
        let root = self.root(&request, id);
        let prompt = &request.prompt[..];
        let context = self.engine.limits().context as usize;
        for sample in 0..request.samples.get() {
            let mut sampling = request.sampling.clone();
            sampling.seed = sampling.seed.wrapping_add(u64::from(sample));
            // The last token of an answer can lie beyond the context; it is not cached.
            let most = prompt.len().saturating_add(request.ending.max_tokens).min(context + 1);
            let job = Job {
                id: SampleId { request: id, sample },
                rank: Rank { place: self.samples + request.class.places(), number: self.samples },
                sequence: Sequence::new(prompt, root, most),
                reply: Reply::new(sampling, request.ending.clone(), prompt, token_bytes),
                prompt: prompt.len(),
                max_tokens: request.ending.max_tokens,
                top: request.log_probabilities,
                prompt_top: request.prompt_log_probabilities.filter(|_| sample == 0),
                scored: 1,
                deadline: request.deadline,
                taken_back: 0,
                preemptions: 0,
                cached_tokens: 0,
                submitted: Instant::now(),
                begun: None,
                first_drawn: None,
            };
            self.samples += 1;
            self.wait(Box::new(job));
        }
        Ok(id)
    }

    fn check(&self, request: &Request) -> Result<()> {
        let (prompt, limits) = (request.prompt.len(), self.engine.limits());
        if prompt == 0 {
            return Err(Error::EmptyPrompt);
        }
        if prompt > limits.context as usize {
            return Err(Error::PromptTooLong { prompt, context: limits.context });
        }
        let vocabulary = self.engine.vocabulary();
        if let Some(token) = request.prompt.iter().copied().find(|token| *token >= vocabulary) {
            return Err(Error::UnknownToken { token, vocabulary });
        }
        let begin_at_once = limits.sequences as usize - self.running.len();
        let (waiting, limit) = (self.waiting.len(), self.settings.queue);
        if waiting + request.samples.get() as usize > limit + begin_at_once {
            return Err(Error::QueueFull { waiting, limit });
        }
        Ok(())
    }

    /// Where the chain of its pages' names begins, if they are to be shared.
    fn root(&self, request: &Request, id: RequestId) -> Option<PageHash> {
        let Settings { prefix_cache, salt, .. } = &self.settings;
        match (self.engine.is_stateful(), prefix_cache) {
            (true, _) => None,
            (false, true) => Some(PageHash::root(&[salt, &request.salt])),
            (false, false) if request.samples.get() > 1 => {
                Some(PageHash::root(&[salt, &request.salt, &id.0.to_le_bytes()]))
            }
            (false, false) => None,
        }
    }

    /// Ends all answers of a request that are under way, at once.
    pub fn cancel(&mut self, request: RequestId, emit: &mut Emit<'_>) {
        self.end_where(Finish::Cancelled, &|job| job.id.request == request, emit);
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Runs one step of the device, and tells what came of it. It gives false if there was nothing to run.
    ///
    /// Nothing is allocated for a step that only draws tokens, but for what an answer's own books take (penalties,
    /// strings looked for) and for text of more than 1 KB at once.
    ///
    /// # Errors
    /// If the device fails. The answers that took part in the step have failed with the same error.
    pub fn step(&mut self, token_bytes: &TokenBytes<'_>, emit: &mut Emit<'_>) -> Result<bool> {
        let now = Instant::now();
        self.end_where(Finish::Deadline, &|job| job.deadline.is_some_and(|deadline| deadline <= now), emit);
        self.grow()?;
        self.begin_waiting()?;
        if self.running.is_empty() {
            return Ok(false);
        }
        self.plan();
        self.run(token_bytes, emit)?;
        Ok(true)
    }

    /// What is going on.
    pub fn load(&self) -> Load {
        Load {
            waiting: self.waiting.len(),
            running: self.running.len(),
            pages: self.engine.limits().pages as usize,
            available_pages: self.engine.available_pages(),
            kept_pages: self.engine.kept_pages(),
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Checks that every page and every slot has the owners that it should have. It walks everything: for tests, and
    /// for moments when nothing is under way.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn audit(&self) -> Result<(), String> {
        if let Some(job) = self.waiting.iter().find(|job| !job.sequence.pages.is_empty()) {
            return Err(format!("{:?} waits and has pages", job.id));
        }
        for list in [&self.waiting, &self.running] {
            if !list.is_sorted_by(|a, b| a.rank < b.rank) {
                return Err("an answer is out of its turn".into());
            }
        }
        self.engine.audit(self.waiting.iter().chain(&self.running).map(|job| &job.sequence))
    }
}
