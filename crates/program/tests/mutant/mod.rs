//! A device with one thing changed.

use std::collections::HashMap;

use program::reference::Reference;
use program::{
    CacheSize, CacheSpec, Device, Format, HostTensor, Memory, ModelSpec, Op, Options, Outcome, Program,
    ProgramId, Result, Step, Ticket, Val, WeightId,
};

/// The reference with its operations, weights or cached rows changed on their way in.
pub(crate) struct Mutant {
    inner: Reference,
    fault: Fault,
    caches: Vec<CacheSpec>,
    /// For each program the inputs that go into caches, with the format of their part.
    cached: HashMap<(ProgramId, Val), Format>,
}

pub(crate) type ChangeOp = fn(&mut Op);
pub(crate) type ChangeTensor = fn(&mut HostTensor);

#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Each operation is changed when a program is prepared.
    Op(ChangeOp),
    /// Each tensor is changed when it arrives.
    Weight(ChangeTensor),
    /// Rows written to go into a cache are rounded as its format says: no fault at all.
    Rounding,
}

impl Mutant {
    pub(crate) fn new(fault: Fault) -> Mutant {
        Mutant { inner: Reference::new(), fault, caches: Vec::new(), cached: HashMap::new() }
    }
}

impl Device for Mutant {
    fn name(&self) -> &str {
        "mutant"
    }

    fn plan(&self, model: &ModelSpec, options: &Options, caches: CacheSize) -> Result<Memory> {
        self.inner.plan(model, options, caches)
    }

    fn upload(&mut self, id: WeightId, part: u32, mut tensor: HostTensor) -> Result<()> {
        if let Fault::Weight(change) = self.fault {
            change(&mut tensor);
        }
        self.inner.upload(id, part, tensor)
    }

    fn reserve(&mut self, caches: &[CacheSpec], size: CacheSize) -> Result<()> {
        self.caches = caches.to_vec();
        self.inner.reserve(caches, size)
    }

    fn prepare(&mut self, program: &Program, options: &Options) -> Result<ProgramId> {
        let mut program = program.clone();
        if let Fault::Op(change) = self.fault {
            program.ops.iter_mut().for_each(change);
        }
        let id = self.inner.prepare(&program, options)?;
        for op in &program.ops {
            if let Op::CacheWrite { x, cache, part } = op {
                let format = self.caches[cache.0 as usize].parts[*part as usize].format;
                self.cached.insert((id, x.val), format);
            }
        }
        Ok(id)
    }

    fn submit(&mut self, program: ProgramId, step: &Step<'_>) -> Result<Ticket> {
        self.inner.submit(program, step)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outcome<'_>> {
        self.inner.wait(ticket)
    }

    fn read(&mut self, program: ProgramId, value: Val, out: &mut [f32]) -> Result<()> {
        self.inner.read(program, value, out)
    }

    fn write(&mut self, program: ProgramId, value: Val, rows: &[f32]) -> Result<()> {
        match (self.fault, self.cached.get(&(program, value))) {
            (Fault::Rounding, Some(format)) => self.inner.write(program, value, &format.stored(rows)),
            _ => self.inner.write(program, value, rows),
        }
    }
}
