//! A device with programs prepared.

use super::batch::Batch;
use super::sample::Sample;
use crate::{
    Answer, CacheSize, CacheSpec, Device, Error, HostTensor, Op, Options, Program, ProgramId, Role, Rows,
    Size, Val, WeightId,
};

/// What a device needs before it can run a step.
#[derive(Clone)]
pub(super) struct Setup {
    /// The first is the one that is tested.
    pub(super) programs: Vec<Program>,
    /// Each part of each weight.
    pub(super) weights: Vec<(WeightId, u32, HostTensor)>,
    pub(super) caches: Vec<CacheSpec>,
    /// Pages to reserve, the scratch page included.
    pub(super) pages: u32,
    /// [`Options::deterministic`].
    pub(super) deterministic: bool,
    /// Rows of the largest step.
    pub(super) tokens: u32,
}

/// The pages that most cases reserve.
pub(super) const PAGES: u32 = 24;

/// The sequences that a step may have.
const SLOTS: u32 = 8;

/// The largest step, so that every number of rows runs through one prepared program.
pub(super) const SIZE: Size = Size { tokens: 160, outputs: 160, sequences: SLOTS };

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            programs: Vec::new(),
            weights: Vec::new(),
            caches: Vec::new(),
            pages: PAGES,
            deterministic: false,
            tokens: SIZE.tokens,
        }
    }
}

impl Setup {
    /// A whole model.
    pub(super) fn of_model(sample: &Sample) -> Setup {
        Setup {
            programs: sample.spec.programs.clone(),
            weights: sample.weights.clone(),
            caches: sample.spec.caches.clone(),
            ..Setup::default()
        }
    }

    /// Operations that need no weights and no caches.
    pub(super) fn of(ops: &[Op]) -> Setup {
        Setup { programs: vec![Program::of(ops)], ..Setup::default() }
    }
}

/// The rows of one value.
pub(super) type Values = (Val, Vec<f32>);

/// A device after uploading, reserving and preparing.
pub(super) struct Prepared {
    pub(super) device: Box<dyn Device>,
    programs: Vec<(Program, ProgramId)>,
}

impl Prepared {
    pub(super) fn new(mut device: Box<dyn Device>, setup: &Setup) -> Result<Prepared, String> {
        for (id, part, tensor) in &setup.weights {
            device.upload(*id, *part, tensor.clone()).map_err(said("upload"))?;
        }
        let size = CacheSize { pages: setup.pages, slots: SLOTS };
        device.reserve(&setup.caches, size).map_err(said("reserve"))?;
        let size = Size { tokens: setup.tokens, ..SIZE };
        let options = Options { deterministic: setup.deterministic, ..Options::new(size) };
        let mut programs = Vec::new();
        for program in &setup.programs {
            let id = device.prepare(program, &options).map_err(said("prepare"))?;
            programs.push((program.clone(), id));
        }
        Ok(Prepared { device, programs })
    }

    /// The first program.
    pub(super) fn id(&self) -> ProgramId {
        self.programs[0].1
    }

    /// Writes the inputs of the first program, runs one step, and reads all results.
    pub(super) fn run(&mut self, batch: &Batch, inputs: &[Values]) -> Result<Vec<Values>, String> {
        self.run_program(0, batch, inputs)
    }

    /// The same with another program.
    pub(super) fn run_program(
        &mut self,
        index: usize,
        batch: &Batch,
        inputs: &[Values],
    ) -> Result<Vec<Values>, String> {
        let (program, id) = &self.programs[index];
        for (val, rows) in inputs {
            self.device.write(*id, *val, rows).map_err(said("write"))?;
        }
        let ticket = self.device.submit(*id, &batch.step()).map_err(said("submit"))?;
        self.device.wait(ticket).map_err(said("wait"))?;
        let mut results = Vec::new();
        for val in &program.results {
            let rows = match val.rows {
                Rows::Tokens => batch.tokens.len(),
                Rows::Outputs => batch.outputs.len(),
            };
            let mut numbers = vec![f32::NAN; rows * val.cols as usize];
            self.device.read(*id, *val, &mut numbers).map_err(said("read"))?;
            results.push((*val, numbers));
        }
        Ok(results)
    }

    /// Runs one step of the first program and gives its answers and the logits asked for.
    pub(super) fn answers(
        &mut self,
        batch: &Batch,
        inputs: &[Values],
    ) -> Result<(Vec<Answer>, Vec<f32>), String> {
        let id = self.id();
        for (val, rows) in inputs {
            self.device.write(id, *val, rows).map_err(said("write"))?;
        }
        let ticket = self.device.submit(id, &batch.step()).map_err(said("submit"))?;
        let outcome = self.device.wait(ticket).map_err(said("wait"))?;
        if outcome.answers.len() != batch.outputs.len() {
            return Err(format!("{} answers to {} outputs", outcome.answers.len(), batch.outputs.len()));
        }
        Ok((outcome.answers.to_vec(), outcome.logits.to_vec()))
    }
}

/// Names the call that an error came from.
pub(super) fn said(call: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{call} failed: {error}")
}

/// A value with as many rows as the step has tokens.
pub(super) fn val(id: u32, cols: u32) -> Val {
    Val { id, rows: Rows::Tokens, cols, role: Role::Activation }
}
