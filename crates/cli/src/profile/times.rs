//! The times of operations as they come, step by step.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use program::{ModelSpec, Op, Program, ProgramId, Step};

use super::label::{self, Label, Layer};
use crate::traffic::StepShape;

/// Everything that was timed.
#[derive(Debug)]
pub(super) struct Times {
    /// When the profile began.
    pub(super) begin: Instant,
    pub(super) device: String,
    pub(super) model: ModelSpec,
    /// What every operation of the model is called.
    labels: Vec<(Op, Label)>,
    /// What every operation of a prepared program is called, and which one it is.
    pub(super) programs: HashMap<ProgramId, Vec<(Op, Label)>>,
    /// Sums over the steps of a program that are alike.
    pub(super) totals: Vec<Total>,
    /// The steps one by one, from the first on.
    pub(super) steps: Vec<Timed>,
    /// Operations in `steps`.
    held: usize,
}

/// Operations that are kept one by one; after so many only sums are kept, so that a long run does not fill memory.
const MOST_HELD: usize = 500_000;

/// The steps of one program with one row, or those with several.
#[derive(Clone, Debug)]
pub(super) struct Total {
    pub(super) program: ProgramId,
    pub(super) one_row: bool,
    pub(super) steps: u32,
    /// Sums over the steps.
    pub(super) tokens: u64,
    pub(super) outputs: u64,
    pub(super) attended: u64,
    /// From submitting a step to its outcome.
    pub(super) wall: Duration,
    /// For each operation of the program.
    pub(super) times: Vec<Duration>,
}

/// One step.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    pub(super) program: ProgramId,
    pub(super) shape: StepShape,
    pub(super) begin: Duration,
    pub(super) wall: Duration,
    pub(super) times: Vec<Duration>,
}

/// A step that was submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Submitted {
    pub(super) program: ProgramId,
    pub(super) shape: StepShape,
    pub(super) begin: Instant,
}

impl Submitted {
    /// A step that begins now.
    pub(super) fn now(program: ProgramId, step: &Step<'_>) -> Submitted {
        let attended = step
            .sequences
            .iter()
            .map(|sequence| u64::from(sequence.cached) + u64::from(sequence.rows.end - sequence.rows.start));
        let shape = StepShape {
            tokens: step.tokens.len() as u32,
            outputs: step.outputs.len() as u32,
            attended: attended.sum(),
        };
        Submitted { program, shape, begin: Instant::now() }
    }
}

impl Default for Times {
    fn default() -> Times {
        let model = ModelSpec { weights: Vec::new(), caches: Vec::new(), programs: Vec::new() };
        Times {
            begin: Instant::now(),
            device: String::new(),
            model,
            labels: Vec::new(),
            programs: HashMap::new(),
            totals: Vec::new(),
            steps: Vec::new(),
            held: 0,
        }
    }
}

impl Times {
    /// Learns what the operations of a model are called.
    pub(super) fn know(&mut self, model: &ModelSpec, device: &str) {
        self.device = device.to_owned();
        self.model = model.clone();
        let labels = |program: &Program| {
            let labels = label::of_program(model, program);
            program.ops.iter().cloned().zip(labels).collect::<Vec<_>>()
        };
        self.labels = model.programs.iter().flat_map(labels).collect();
    }

    /// Takes note of a program that was prepared: the model's, or a piece of it.
    pub(super) fn prepared(&mut self, id: ProgramId, program: &Program) {
        let label = |op: &Op| {
            let known = self.labels.iter().find(|(known, _)| known == op);
            let unknown = || Label { op: op.name(), part: String::new(), layer: Layer::Embedding };
            (op.clone(), known.map_or_else(unknown, |(_, label)| label.clone()))
        };
        let labels = program.ops.iter().map(label).collect();
        self.programs.insert(id, labels);
    }

    /// Takes note of a step that is over.
    pub(super) fn step(&mut self, submitted: &Submitted, times: &[Duration]) {
        let Submitted { program, shape, begin } = *submitted;
        let (wall, one_row) = (begin.elapsed(), shape.tokens == 1);
        let index = self.totals.iter().position(|total| (total.program, total.one_row) == (program, one_row));
        let index = index.unwrap_or_else(|| {
            let (steps, tokens, outputs, attended) = (0, 0, 0, 0);
            let times = vec![Duration::ZERO; times.len()];
            let wall = Duration::ZERO;
            self.totals.push(Total { program, one_row, steps, tokens, outputs, attended, wall, times });
            self.totals.len() - 1
        });
        let total = &mut self.totals[index];
        total.steps += 1;
        total.tokens += u64::from(shape.tokens);
        total.outputs += u64::from(shape.outputs);
        total.attended += shape.attended;
        total.wall += wall;
        total.times.iter_mut().zip(times).for_each(|(sum, time)| *sum += *time);
        if self.held + times.len() <= MOST_HELD {
            self.held += times.len();
            let begin = begin.saturating_duration_since(self.begin);
            self.steps.push(Timed { program, shape, begin, wall, times: times.to_vec() });
        }
    }
}
