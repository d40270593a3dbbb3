//! A device with a watch on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use program::{
    CacheSize, CacheSpec, Device, HostTensor, Memory, ModelSpec, Options, Outcome, Program, ProgramId,
    Result, Step, Ticket, Val, WeightId,
};

use super::times::Submitted;
use super::{Log, locked};

/// Hands every call on, and writes down what it learns.
pub(super) struct Watched {
    device: Box<dyn Device>,
    log: Arc<Mutex<Log>>,
    /// The steps under way, in order.
    under_way: VecDeque<Submitted>,
}

impl Watched {
    /// A watch on `device`.
    pub(super) fn new(device: Box<dyn Device>, log: Arc<Mutex<Log>>) -> Watched {
        Watched { device, log, under_way: VecDeque::with_capacity(2) }
    }

    /// Says that a stage of the work is over.
    fn stage(&self, name: &str) {
        if let Some(ledger) = &mut locked(&self.log).ledger {
            ledger.stage(name);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(ledger) = &mut locked(&self.log).ledger {
            ledger.end();
        }
    }
}

impl Device for Watched {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn plan(&self, model: &ModelSpec, options: &Options, caches: CacheSize) -> Result<Memory> {
        self.device.plan(model, options, caches)
    }

    fn upload(&mut self, id: WeightId, part: u32, tensor: HostTensor) -> Result<()> {
        self.device.upload(id, part, tensor)?;
        if let Some(ledger) = &mut locked(&self.log).ledger {
            ledger.uploaded(id);
        }
        Ok(())
    }

    fn reserve(&mut self, caches: &[CacheSpec], size: CacheSize) -> Result<()> {
        self.stage("weights loaded");
        self.device.reserve(caches, size)?;
        if let Some(ledger) = &mut locked(&self.log).ledger {
            ledger.reserved(&*self.device, size)?;
        }
        Ok(())
    }

    fn prepare(&mut self, program: &Program, options: &Options) -> Result<ProgramId> {
        let mut log = locked(&self.log);
        let timing = options.timing || log.times.is_some();
        let id = self.device.prepare(program, &Options { timing, ..*options })?;
        if let Some(times) = &mut log.times {
            times.prepared(id, program);
        }
        if let Some(ledger) = &mut log.ledger {
            ledger.prepared(&*self.device, program, options)?;
        }
        Ok(id)
    }

    fn submit(&mut self, program: ProgramId, step: &Step<'_>) -> Result<Ticket> {
        let submitted = Submitted::now(program, step);
        let ticket = self.device.submit(program, step)?;
        self.under_way.push_back(submitted);
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outcome<'_>> {
        let outcome = self.device.wait(ticket)?;
        let submitted = self.under_way.pop_front();
        let mut log = locked(&self.log);
        if let (Some(times), Some(submitted)) = (&mut log.times, submitted) {
            times.step(&submitted, outcome.times);
        }
        if let Some(ledger) = &mut log.ledger {
            ledger.stepped();
        }
        Ok(outcome)
    }

    fn read(&mut self, program: ProgramId, value: Val, out: &mut [f32]) -> Result<()> {
        self.device.read(program, value, out)
    }

    fn write(&mut self, program: ProgramId, value: Val, rows: &[f32]) -> Result<()> {
        self.device.write(program, value, rows)
    }
}
