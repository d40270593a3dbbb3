//! Many requests at once on one device.

mod arrivals;
mod ends;
mod log_probabilities;
mod prefix;
mod turns;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use engine::{
    Ending, Engine, Error, Event, Finish, Limits, Report, Request, RequestId, Result, SampleId, Sampling,
    Scheduler, Settings,
};
use program::draw::Candidates;

use crate::fake::{self, Fake, Faults, Memories};

/// What was told of an answer.
#[derive(Debug, Default)]
struct Told {
    tokens: Vec<u32>,
    text: String,
    /// Log-probabilities of the prompt's tokens from the second on, and of the answer's.
    prompt: Vec<(f32, Vec<(u32, f32)>)>,
    answer: Vec<(f32, Vec<(u32, f32)>)>,
    end: Option<Result<Report>>,
    /// The step after which it ended.
    ended_in: u64,
}

impl Told {
    fn report(&self) -> Report {
        self.end.as_ref().unwrap().as_ref().unwrap().to_owned()
    }

    fn finish(&self) -> Finish {
        self.report().finish
    }

    fn error(&self) -> &Error {
        self.end.as_ref().unwrap().as_ref().unwrap_err()
    }
}

/// A scheduler on a fake device, and everything that it told.
struct House {
    scheduler: Scheduler,
    faults: Faults,
    told: BTreeMap<SampleId, Told>,
}

const LIMITS: Limits =
    Limits { context: 300, sequences: 4, pages: 20, chunk: 100, outputs: 4, deterministic: false };

impl House {
    fn new(limits: Limits, settings: Settings, memories: Memories) -> House {
        House::with(Fake::default(), limits, settings, memories)
    }

    fn with(device: Fake, limits: Limits, settings: Settings, memories: Memories) -> House {
        let faults = device.faults.clone();
        let engine = Engine::new(Box::new(device), &fake::model_with(memories), limits).unwrap();
        House { scheduler: Scheduler::new(engine, settings).unwrap(), faults, told: BTreeMap::new() }
    }

    fn paged(limits: Limits) -> House {
        House::new(limits, Settings::default(), Memories::Pages)
    }

    fn submit(&mut self, request: &Request) -> Result<RequestId> {
        let id = self.scheduler.submit(request.clone(), &fake::token_bytes)?;
        for sample in 0..request.samples.get() {
            self.told.insert(SampleId { request: id, sample }, Told::default());
        }
        Ok(id)
    }

    fn hear(told: &mut BTreeMap<SampleId, Told>, step: u64, id: SampleId, event: Event<'_>) {
        let told = told.get_mut(&id).unwrap();
        assert!(told.end.is_none(), "{id:?} had ended, and then {event:?}");
        told.text.push_str(event.text());
        match event {
            Event::Prompt { place, log_probabilities, .. } => {
                assert_eq!(place, told.prompt.len() + 1);
                told.prompt.push((log_probabilities.token, log_probabilities.top.to_vec()));
            }
            Event::Token { token, log_probabilities, .. } => {
                told.tokens.push(token);
                told.answer.extend(log_probabilities.map(|given| (given.token, given.top.to_vec())));
            }
            Event::TakenBack { tokens } => told.tokens.truncate(told.tokens.len() - tokens),
            Event::Finished { report, .. } => told.end = Some(Ok(report)),
            Event::Failed(error) => told.end = Some(Err(error)),
        }
        if told.end.is_some() {
            told.ended_in = step;
        }
    }

    /// One step, after which every page must have its owners.
    fn step(&mut self) -> Result<bool> {
        let step = self.scheduler.counts().steps + 1;
        let told = &mut self.told;
        let ran =
            self.scheduler.step(&fake::token_bytes, &mut |id, event| House::hear(told, step, id, event));
        self.scheduler.audit().unwrap();
        ran
    }

    fn cancel(&mut self, request: RequestId) {
        let step = self.scheduler.counts().steps;
        let told = &mut self.told;
        self.scheduler.cancel(request, &mut |id, event| House::hear(told, step, id, event));
        self.scheduler.audit().unwrap();
    }

    /// Steps until nothing is under way; then every page must be free.
    fn finish(&mut self) {
        while self.step().unwrap() {}
        assert!(self.scheduler.is_idle());
        let load = self.scheduler.load();
        assert_eq!(load.available_pages, load.pages);
        assert!(self.told.values().all(|told| told.end.is_some()));
    }

    fn told(&self, request: RequestId, sample: u32) -> &Told {
        &self.told[&SampleId { request, sample }]
    }

    /// Submits a request for one answer and runs it to its end.
    fn run(&mut self, request: &Request) -> &Told {
        let id = self.submit(request).unwrap();
        self.finish();
        self.told(id, 0)
    }
}

/// A greedy request for one answer.
fn request(prompt: &[u32], max_tokens: usize) -> Request {
    let ending = Ending { max_tokens, ..Ending::default() };
    Request::new(prompt.to_vec(), Sampling::GREEDY, ending)
}

fn samples(count: u32, request: Request) -> Request {
    Request { samples: NonZeroU32::new(count).unwrap(), ..request }
}

/// Tokens that repeat late: `count` of them.
fn words(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32).map(|place| (place * place + seed * 17 + place * seed) % fake::VOCAB).collect()
}

/// What a sample of a request should say, computed from the tokens alone; it ends at the longest answer or where the
/// context does, and knows nothing of other ways to end.
fn right(request: &Request, sample: u32, memories: Memories) -> Vec<u32> {
    let sampling = Sampling { seed: request.sampling.seed + u64::from(sample), ..request.sampling.clone() };
    let mut oracle = fake::Oracle::new(memories);
    request.prompt.iter().for_each(|token| oracle.push(*token));
    let (mut answer, prompt) = (Vec::new(), request.prompt.len());
    while answer.len() < request.ending.max_tokens && prompt + answer.len() <= LIMITS.context as usize {
        let draw = sampling.draw((prompt + answer.len()) as u32);
        let token = draw.token(&oracle.logits(), &mut Candidates::default());
        oracle.push(token);
        answer.push(token);
    }
    answer
}
