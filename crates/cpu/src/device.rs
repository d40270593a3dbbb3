//! The order of calls.

use std::num::NonZero;

use program::answer::Answers;
use program::{
    CacheSize, CacheSpec, Device, Error, HostTensor, Memory, ModelSpec, Op, Options, Outcome, Program,
    ProgramId, Result, Step, Ticket, Token, Val, WeightId,
};

use crate::cache::{self, Caches};
use crate::check::check;
use crate::cores;
use crate::kernels::inputs::Activations;
use crate::needs::{Needs, stored_in, weight_bytes};
use crate::pool::Pool;
use crate::run::Run;
use crate::simd::{Instructions, Simd, SimdLevel};
use crate::values::{self, Values};
use crate::weights::Weights;
use crate::workspace::Workspace;

/// How the device uses the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuOptions {
    /// Threads that work on a step; one a physical core that this process may use if none.
    pub threads: Option<usize>,
    /// Vector instructions; the best of this processor if none.
    pub simd: Option<SimdLevel>,
    /// In which numbers rows are multiplied with trellis codes.
    pub activations: Activations,
}

/// The processor as a place to run programs.
pub struct Cpu {
    name: String,
    instructions: Instructions,
    activations: Activations,
    pool: Pool,
    weights: Weights,
    caches: Caches,
    programs: Vec<Prepared>,
    answers: Answers,
    workspace: Workspace,
}

struct Prepared {
    program: Program,
    options: Options,
    /// How many token ids a step may name.
    vocab: u32,
    values: Values,
    /// The rows written to each input since the last step.
    written: Vec<usize>,
}

impl Cpu {
    /// A device that holds nothing yet.
    ///
    /// # Errors
    /// [`Error::Use`] if the processor lacks the instructions asked for, no thread was asked for, or the
    /// system refuses to start one.
    pub fn new(options: CpuOptions) -> Result<Cpu> {
        let refuse = |what: String| Error::Use { device: "cpu".into(), what };
        let instructions = match options.simd {
            None => Instructions::best(),
            Some(level) => Instructions::of(level)
                .ok_or_else(|| refuse(format!("this processor has no {level}; leave the level open")))?,
        };
        let threads = match options.threads {
            None => cores::physical(),
            Some(threads) => NonZero::new(threads)
                .ok_or_else(|| refuse("0 threads were asked for, one is needed".into()))?,
        };
        let pool = Pool::new(threads).map_err(|error| refuse(format!("cannot start a thread: {error}")))?;
        let plural = if threads.get() == 1 { "" } else { "s" };
        Ok(Cpu {
            name: format!("cpu ({}, {threads} thread{plural})", instructions.level()),
            instructions,
            activations: options.activations,
            pool,
            weights: Weights::default(),
            caches: Caches::none(),
            programs: Vec::new(),
            answers: Answers::default(),
            workspace: Workspace::default(),
        })
    }

    fn refuse<T>(&self, what: String) -> Result<T> {
        Err(Error::Use { device: self.name.clone(), what })
    }

    fn prepared(&self, program: ProgramId) -> Result<&Prepared> {
        match self.programs.get(program.0 as usize) {
            Some(prepared) => Ok(prepared),
            None => self.refuse(format!("program {} was not prepared", program.0)),
        }
    }

    /// How many token ids a step of this program may name: those of its table and of its logits.
    fn vocab(&self, program: &Program) -> u32 {
        let of = |op: &Op| match op {
            Op::Embed { table, .. } => self.weights.get(*table, 0).map(|table| table.stored().out as u32),
            Op::Answer { logits, .. } => Some(logits.cols),
            _ => None,
        };
        program.ops.iter().filter_map(of).min().unwrap_or(u32::MAX)
    }

    fn check_step(&self, prepared: &Prepared, step: &Step<'_>) -> Result<()> {
        prepared.options.size.check(step)?;
        step.check(prepared.vocab, self.caches.size())?;
        for (input, written) in prepared.program.inputs.iter().zip(&prepared.written) {
            let rows = match input.rows {
                program::Rows::Tokens => step.tokens.len(),
                program::Rows::Outputs => step.outputs.len(),
            };
            if *written != rows {
                return self.refuse(format!("{written} rows of input {} were written, not {rows}", input.id));
            }
        }
        Ok(())
    }

    fn run<S: Simd>(&mut self, simd: S, program: ProgramId, step: &Step<'_>) -> Result<()> {
        let answers = &self.answers;
        self.workspace.begin(step, |row| match step.tokens[row] {
            Token::Id(id) => Ok(id),
            Token::Previous(output) => answers.previous(output).ok_or_else(|| {
                Error::Step(format!(
                    "row {row} reads output {output} of the step before, which drew no token"
                ))
            }),
        })?;
        let Prepared { program, options, values, .. } = &mut self.programs[program.0 as usize];
        self.answers.start_clock(options.timing);
        let mut run = Run {
            pool: &mut self.pool,
            weights: &self.weights,
            caches: &mut self.caches,
            values,
            answers: &mut self.answers,
            workspace: &mut self.workspace,
            step,
            deterministic: options.deterministic,
            activations: self.activations,
        };
        for op in &program.ops {
            run.op(simd, op)?;
            run.answers.operation_done();
        }
        Ok(())
    }
}

impl Device for Cpu {
    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, model: &ModelSpec, options: &Options, caches: CacheSize) -> Result<Memory> {
        let mut memory = Memory { cache: cache::bytes(&model.caches, caches)?, ..Memory::default() };
        for weight in &model.weights {
            let bytes = weight.parts.iter().map(|part| weight_bytes(weight.kind, part.storage));
            memory.weights += bytes.sum::<u64>();
        }
        let mut needs = Needs::default();
        for program in &model.programs {
            memory.scratch += values::bytes(program, options) as u64;
            needs = needs.or(Needs::new(&program.ops, options, &|id| stored_in(model, id)));
        }
        memory.scratch += needs.bytes(self.pool.threads()) as u64;
        Ok(memory)
    }

    fn upload(&mut self, id: WeightId, part: u32, tensor: HostTensor) -> Result<()> {
        self.weights.insert(id, part, tensor)
    }

    fn reserve(&mut self, caches: &[CacheSpec], size: CacheSize) -> Result<()> {
        self.caches = Caches::none();
        self.caches = Caches::new(caches, size)?;
        Ok(())
    }

    fn prepare(&mut self, program: &Program, options: &Options) -> Result<ProgramId> {
        if let Err(what) = check(program, &self.weights, &self.caches) {
            return self.refuse(what);
        }
        let stored = |id| self.weights.stored(id);
        let needs = Needs::new(&program.ops, options, &stored);
        self.workspace.grow(needs, self.pool.threads());
        self.answers.reserve(needs.outputs, needs.vocab);
        if options.timing {
            self.answers.reserve_times(program.ops.len());
        }
        self.programs.push(Prepared {
            options: *options,
            vocab: self.vocab(program),
            values: Values::new(program, options),
            written: vec![0; program.inputs.len()],
            program: program.clone(),
        });
        Ok(ProgramId(self.programs.len() as u32 - 1))
    }

    fn submit(&mut self, program: ProgramId, step: &Step<'_>) -> Result<Ticket> {
        self.check_step(self.prepared(program)?, step)?;
        let prepared = &mut self.programs[program.0 as usize];
        prepared.written.fill(0);
        prepared.values.begin(step.tokens.len(), step.outputs.len());
        let ticket = self.answers.submit(&self.name)?;
        let result = match self.instructions {
            Instructions::Scalar(simd) => self.run(simd, program, step),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(simd) => self.run(simd, program, step),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(simd) => self.run(simd, program, step),
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon(simd) => self.run(simd, program, step),
        };
        if let Err(error) = result {
            self.answers.abandon();
            return Err(error);
        }
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outcome<'_>> {
        self.answers.wait(&ticket, &self.name)
    }

    fn read(&mut self, program: ProgramId, value: Val, out: &mut [f32]) -> Result<()> {
        let Prepared { program, options, values, .. } = self.prepared(program)?;
        if !program.can_be_read(value, options.keep_all) {
            return self.refuse(format!("value {} cannot be read from this program", value.id));
        }
        let rows = values.get(value);
        if rows.len() != out.len() {
            let what = format!("value {} has {} numbers, room for {}", value.id, rows.len(), out.len());
            return self.refuse(what);
        }
        out.copy_from_slice(rows);
        Ok(())
    }

    fn write(&mut self, program: ProgramId, value: Val, rows: &[f32]) -> Result<()> {
        let Prepared { program: recorded, options, .. } = self.prepared(program)?;
        let (index, rows_written) = match recorded.input_rows(value, rows.len(), options.size) {
            Ok(found) => found,
            Err(what) => return self.refuse(what),
        };
        let prepared = &mut self.programs[program.0 as usize];
        prepared.values.set(value, rows);
        prepared.written[index] = rows_written;
        Ok(())
    }
}
