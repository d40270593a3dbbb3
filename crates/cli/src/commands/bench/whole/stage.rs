//! A model that is run over fixed traces of tokens.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use engine::{Engine, Error, Limits, Part, Sequence};
use model::Model;
use program::random::SplitMix64;
use program::{Answer, Draw, Life, ModelSpec, Output, PAGE_TOKENS, Want};

use super::trial::{Kind, Trial};
use crate::traffic::{StepShape, Traffic};

/// An engine with one open sequence for each of the largest batch, and the tokens that each will read whatever
/// the model predicts: the same in every run, so that the same experts are chosen.
pub(super) struct Stage {
    engine: Engine,
    sequences: Vec<Sequence>,
    traces: Vec<Vec<u32>>,
}

/// What is asked of every row that counts; NaN and infinite logits are answered with an error.
const WANT: Want = Want::Choose(Draw::GREEDY);

/// What `trials` need at once.
pub(super) fn limits(trials: &[Trial], chunk: u32) -> Limits {
    let most = |of: &dyn Fn(&Trial) -> u32| trials.iter().map(of).max().unwrap_or(1);
    let batch = most(&|trial| trial.batch);
    let longest = most(&|trial| match trial.kind {
        Kind::Prompt(length) => length.max(trial.depth),
        Kind::Answer(_) => trial.depth.max(1),
    });
    let context = most(&Trial::context);
    let rows = chunk.min(longest).max(batch);
    // A sequence keeps its pages from test to test.
    let of_batch = |batch: u32| {
        let with = trials.iter().filter(|trial| trial.batch >= batch);
        with.map(|trial| trial.context().div_ceil(PAGE_TOKENS)).max().unwrap_or(0)
    };
    let pages = (1..=batch).map(of_batch).sum();
    Limits { sequences: batch, pages, chunk: rows, outputs: batch, ..Limits::one_sequence(context) }
}

impl Stage {
    /// Opens the sequences, and makes up their tokens.
    pub(super) fn new(mut engine: Engine, model: &Model) -> Result<Stage> {
        ensure!(
            model.spec.caches.iter().all(|cache| cache.life == Life::PerToken),
            "the model keeps a state for each sequence, which cannot be taken back between two measurements"
        );
        let Limits { context, sequences: count, .. } = engine.limits();
        let known = model.tokenizer.as_ref().map_or(model.facts.vocab, |tokenizer| tokenizer.vocab());
        let trace = |sequence: u32| {
            let mut random = SplitMix64::new(u64::from(sequence) + 1);
            (0..context).map(|_| random.below(known)).collect()
        };
        let sequences = (0..count).map(|_| engine.open(&[])).collect::<Result<_, _>>()?;
        Ok(Stage { engine, sequences, traces: (0..count).map(trace).collect() })
    }

    /// The device's name.
    pub(super) fn device(&self) -> &str {
        self.engine.device()
    }

    /// Makes each sequence of a test remember as many tokens as it has to.
    pub(super) fn set_depth(&mut self, trial: &Trial) -> Result<()> {
        for index in 0..trial.batch as usize {
            self.engine.truncate(&mut self.sequences[index], trial.depth as usize);
            self.feed(index, trial.depth)?;
        }
        Ok(())
    }

    /// Runs a test from its depth on, and takes back what it fed: the time that it took.
    pub(super) fn run(&mut self, trial: &Trial) -> Result<Duration> {
        let start = Instant::now();
        match trial.kind {
            Kind::Prompt(_) => self.feed(0, trial.context())?,
            Kind::Answer(length) => {
                for _ in 0..length {
                    self.decode(trial.batch as usize)?;
                }
            }
        }
        let time = start.elapsed();
        for sequence in &mut self.sequences[..trial.batch as usize] {
            // The first token after the depth stays, and waits to be fed again.
            self.engine.truncate(sequence, trial.depth as usize + 1);
        }
        Ok(time)
    }

    /// Feeds one sequence up to place `end` of its trace, in chunks, and draws a token after the last.
    fn feed(&mut self, index: usize, end: u32) -> Result<()> {
        let sequence = &mut self.sequences[index];
        let begin = sequence.tokens().len();
        self.traces[index][begin..end as usize].iter().for_each(|token| sequence.push(*token));
        while self.sequences[index].waiting() > 0 {
            let sequence = &mut self.sequences[index];
            let rows = sequence.waiting().min(self.engine.limits().chunk);
            let output = Output { row: rows - 1, want: WANT };
            let outputs = if rows == sequence.waiting() { std::slice::from_ref(&output) } else { &[] };
            let outcome = self.engine.step(&mut [Part { sequence, rows, outputs }])?;
            finite(outcome.answers, end)?;
        }
        Ok(())
    }

    /// Feeds the next token of each of the first `batch` sequences in one step.
    fn decode(&mut self, batch: usize) -> Result<()> {
        let outputs = [Output { row: 0, want: WANT }];
        let mut parts = Vec::with_capacity(batch);
        for (sequence, trace) in self.sequences[..batch].iter_mut().zip(&self.traces) {
            if sequence.waiting() == 0 {
                sequence.push(trace[sequence.tokens().len()]);
            }
            parts.push(Part { sequence, rows: 1, outputs: &outputs });
        }
        let end = parts[0].sequence.tokens().len() as u32;
        let outcome = self.engine.step(&mut parts)?;
        finite(outcome.answers, end)
    }
}

/// Checks that a token could be drawn of every row.
fn finite(answers: &[Answer], tokens: u32) -> Result<()> {
    if answers.contains(&Answer::NotFinite) { Err(Error::NotFinite { tokens }.into()) } else { Ok(()) }
}

/// What all steps of a test read and multiply.
pub(super) fn traffic(model: &ModelSpec, trial: &Trial, chunk: u32) -> Traffic {
    let mut steps = Vec::new();
    match trial.kind {
        Kind::Prompt(length) => {
            let mut fed = 0;
            while fed < length {
                let tokens = chunk.min(length - fed);
                fed += tokens;
                let attended = u64::from(trial.depth + fed);
                steps.push(StepShape { tokens, outputs: u32::from(fed == length), attended });
            }
        }
        Kind::Answer(length) => {
            for fed in 1..=length {
                let attended = u64::from(trial.batch) * u64::from(trial.depth + fed);
                steps.push(StepShape { tokens: trial.batch, outputs: trial.batch, attended });
            }
        }
    }
    steps.iter().map(|step| Traffic::of_step(model, step)).fold(Traffic::default(), Traffic::plus)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cpu::{Cpu, CpuOptions};
    use model::BuildOptions;
    use program::{Device, Format};

    use super::*;

    fn stage(trials: &[Trial]) -> Stage {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-glm");
        let model = Model::open(&folder, &BuildOptions { cache: Format::F16 }).unwrap();
        let mut device: Box<dyn Device> = Box::new(Cpu::new(CpuOptions::default()).unwrap());
        model.load(&mut *device, &mut |_| {}).unwrap();
        let engine = Engine::new(device, &model.spec, limits(trials, 8)).unwrap();
        Stage::new(engine, &model).unwrap()
    }

    #[test]
    fn the_same_tokens_are_read_in_every_run_and_others_by_each_sequence() {
        let trials = Trial::all(&[20], &[3], &[0, 70], &[1, 3]);
        let mut stages = [stage(&trials), stage(&trials)];
        for trial in &trials {
            for stage in &mut stages {
                stage.set_depth(trial).unwrap();
                stage.run(trial).unwrap();
                stage.run(trial).unwrap();
                let depths = stage.sequences[..trial.batch as usize].iter().map(Sequence::cached);
                assert!(depths.into_iter().all(|depth| depth == trial.depth), "{trial}");
            }
        }
        let [one, two] = &stages;
        assert_eq!(one.traces, two.traces);
        assert!(one.traces[0] != one.traces[1] && one.traces[1] != one.traces[2]);
        for (sequence, trace) in one.sequences.iter().zip(&one.traces) {
            assert_eq!(sequence.tokens(), &trace[..71]);
        }
    }

    #[test]
    fn a_prompt_in_chunks_reads_the_weights_once_a_chunk_and_the_head_once() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-glm");
        let model = Model::open(&folder, &BuildOptions { cache: Format::F16 }).unwrap();
        let prompt = |length| Trial { kind: Kind::Prompt(length), depth: 0, batch: 1 };
        let one = traffic(&model.spec, &prompt(1), 8);
        let answer = Trial { kind: Kind::Answer(1), ..prompt(0) };
        assert_eq!(one, traffic(&model.spec, &answer, 8));
        let [eight, sixteen] = [8, 16].map(|length| traffic(&model.spec, &prompt(length), 8));
        // The head is as wide as the vocabulary, and one row of sixteen meets it.
        let head = f64::from(model.facts.vocab) * 256.0;
        assert!((sixteen.products - (2.0 * eight.products - head)).abs() < 1.0, "{eight:?} {sixteen:?}");
        assert!(sixteen.weights > 1.5 * eight.weights && sixteen.weights < 2.0 * eight.weights);
        // Eight rows, then all sixteen.
        assert_eq!(sixteen.cache, 3.0 * eight.cache);
    }
}
