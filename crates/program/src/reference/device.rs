//! The order of calls.

use std::collections::HashMap;

use super::cache::{self, Caches};
use super::run::{self, Run};
use super::values::{StepRows, Values};
use super::weight::{Weights, refuse};
use crate::answer::Answers;
use crate::memory::ScratchPlan;
use crate::{
    CacheSize, CacheSpec, Device, Error, HostTensor, Memory, ModelSpec, Op, Options, Outcome, Program,
    ProgramId, Result, Step, Storage, Ticket, Token, Val, WeightId,
};

/// The device's name in messages.
pub(super) const NAME: &str = "reference";

/// The definition of right: a device in plain loops.
#[derive(Debug)]
pub struct Reference {
    weights: Weights,
    caches: Caches,
    programs: Vec<Prepared>,
    answers: Answers,
}

#[derive(Debug)]
struct Prepared {
    program: Program,
    options: Options,
    values: Values,
    /// The rows written to each input since the last step.
    written: HashMap<Val, usize>,
}

impl Reference {
    /// A device that holds nothing yet.
    pub fn new() -> Reference {
        Reference {
            weights: Weights::default(),
            caches: Caches::new(&[], CacheSize { pages: 0, slots: 0 }),
            programs: Vec::new(),
            answers: Answers::default(),
        }
    }

    /// A weight that is a vector.
    pub(crate) fn vector(&self, id: WeightId) -> Result<&[f32]> {
        self.weights.vector(id)
    }

    fn prepared(&mut self, program: ProgramId) -> Result<&mut Prepared> {
        match self.programs.get_mut(program.0 as usize) {
            Some(prepared) => Ok(prepared),
            None => refuse(format!("program {} was not prepared", program.0)),
        }
    }

    /// How many token ids a step of this program may name.
    fn vocab(&self, program: &Program) -> Result<u32> {
        let mut vocab = u32::MAX;
        for op in &program.ops {
            match op {
                Op::Embed { table, .. } => vocab = vocab.min(self.weights.table_shape(*table)?.0 as u32),
                Op::Answer { logits, .. } => vocab = vocab.min(logits.cols),
                _ => {}
            }
        }
        Ok(vocab)
    }

    /// The token of each row.
    fn tokens(&self, step: &Step<'_>) -> Result<Vec<u32>> {
        let token = |(row, token): (usize, &Token)| match *token {
            Token::Id(id) => Ok(id),
            Token::Previous(output) => self.answers.previous(output).ok_or_else(|| {
                Error::Step(format!(
                    "row {row} reads output {output} of the step before, which drew no token"
                ))
            }),
        };
        step.tokens.iter().enumerate().map(token).collect()
    }

    fn run(&mut self, program: ProgramId, step: &Step<'_>) -> Result<()> {
        let tokens = self.tokens(step)?;
        let prepared = &mut self.programs[program.0 as usize];
        self.answers.start_clock(prepared.options.timing);
        let mut run = Run {
            weights: &self.weights,
            caches: &mut self.caches,
            values: &mut prepared.values,
            answers: &mut self.answers,
            step,
            tokens,
        };
        for op in &prepared.program.ops {
            run.op(op)?;
            run.answers.operation_done();
        }
        Ok(())
    }
}

impl Default for Reference {
    fn default() -> Reference {
        Reference::new()
    }
}

impl Device for Reference {
    fn name(&self) -> &str {
        NAME
    }

    /// Everything as `f32`, tables of codes excepted; without the temporary copies of one operation.
    fn plan(&self, model: &ModelSpec, options: &Options, caches: CacheSize) -> Result<Memory> {
        let mut memory = Memory::default();
        for weight in &model.weights {
            for part in &weight.parts {
                memory.weights += match part.storage {
                    Storage::Exl3Table { .. } => part.storage.bytes(weight.kind),
                    Storage::Dense(_) | Storage::Exl3 { .. } => weight.kind.parameters() * 4,
                };
            }
        }
        for spec in &model.caches {
            let cols: u64 = spec.parts.iter().map(|part| u64::from(part.cols)).sum();
            memory.cache += cache::rows(spec, caches) as u64 * cols * 4;
        }
        for program in &model.programs {
            memory.scratch += ScratchPlan::new(program, options).len() as u64 * 4;
        }
        Ok(memory)
    }

    fn upload(&mut self, id: WeightId, part: u32, tensor: HostTensor) -> Result<()> {
        self.weights.insert(id, part, &tensor)
    }

    fn reserve(&mut self, caches: &[CacheSpec], size: CacheSize) -> Result<()> {
        self.caches = Caches::new(caches, size);
        Ok(())
    }

    fn prepare(&mut self, program: &Program, options: &Options) -> Result<ProgramId> {
        for op in &program.ops {
            run::check(op, &self.weights, &self.caches)?;
            if let Op::Answer { logits, .. } = op {
                self.answers.reserve(options.size.outputs as usize, logits.cols as usize);
            }
        }
        if options.timing {
            self.answers.reserve_times(program.ops.len());
        }
        let values = Values::new(program, options);
        self.programs.push(Prepared {
            program: program.clone(),
            options: *options,
            values,
            written: HashMap::new(),
        });
        Ok(ProgramId(self.programs.len() as u32 - 1))
    }

    fn submit(&mut self, program: ProgramId, step: &Step<'_>) -> Result<Ticket> {
        let Prepared { program: recorded, options, .. } = &*self.prepared(program)?;
        options.size.check(step)?;
        let recorded = recorded.clone();
        step.check(self.vocab(&recorded)?, self.caches.size)?;
        let rows = StepRows { tokens: step.tokens.len(), outputs: step.outputs.len() };
        let prepared = self.prepared(program)?;
        for input in &recorded.inputs {
            let written = prepared.written.get(input).copied().unwrap_or(0);
            if written != rows.of(*input) {
                let what =
                    format!("{written} rows of input {} were written, not {}", input.id, rows.of(*input));
                return refuse(what);
            }
        }
        prepared.written.clear();
        prepared.values.rows = rows;
        let ticket = self.answers.submit(NAME)?;
        if let Err(error) = self.run(program, step) {
            self.answers.abandon();
            return Err(error);
        }
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outcome<'_>> {
        self.answers.wait(&ticket, NAME)
    }

    fn read(&mut self, program: ProgramId, value: Val, out: &mut [f32]) -> Result<()> {
        let Prepared { program, options, values, .. } = &*self.prepared(program)?;
        if !program.can_be_read(value, options.keep_all) {
            return refuse(format!("value {} cannot be read from this program", value.id));
        }
        let rows = values.get(value);
        if rows.len() != out.len() {
            let what = format!("value {} has {} numbers, room for {}", value.id, rows.len(), out.len());
            return refuse(what);
        }
        out.copy_from_slice(rows);
        Ok(())
    }

    fn write(&mut self, program: ProgramId, value: Val, rows: &[f32]) -> Result<()> {
        let Prepared { program, options, values, written } = self.prepared(program)?;
        let rows_written = match program.input_rows(value, rows.len(), options.size) {
            Ok((_, rows)) => rows,
            Err(what) => return refuse(what),
        };
        values.set(value, rows);
        written.insert(value, rows_written);
        Ok(())
    }
}
