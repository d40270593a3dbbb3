//! The order of calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use program::{
    Answer, CacheSize, CacheSpec, Device, Error, HostTensor, Memory, ModelSpec, Options, Outcome, Program,
    ProgramId, Result, Size, Step, Ticket, Token, Val, Want, WeightId,
};

use crate::caches::{self, Caches};
use crate::check::{check, vocab};
use crate::compile::Compiler;
use crate::driver::{Buffer, Context, Event, Function, Graph, Module, Order, Pinned, fault};
use crate::kernel::Kernel;
use crate::launch::{Launch, start};
use crate::lower::TICKET_BYTES;
use crate::options::CudaOptions;
use crate::prepared::{Prepared, Shared, rounded};
use crate::weights::{self, Weights};

/// Outputs of a step that there is room for before a program with more is prepared.
const FIRST_ROOM: u32 = 1024;

/// The first architecture (compute capability times ten) on which a kernel may start while the one before ends.
const OVERLAPPING_ARCH: u32 = 90;

/// Words of one outcome, as kernels write it.
const GIVEN_WORDS: usize = 2;

/// An NVIDIA GPU as a place to run programs.
///
/// All work runs on one stream. A step is one upload and one graph; tokens that it draws stay on the device for the
/// step after, and come to the host by themselves.
pub struct Cuda {
    name: String,
    context: Arc<Context>,
    compiler: Compiler,
    functions: HashMap<Kernel, Function>,
    weights: Weights,
    caches: Caches,
    programs: Vec<Prepared>,
    tickets: Buffer,
    /// Tokens drawn in the last two steps, one half each.
    chosen: Buffer,
    /// Outcomes of the last two steps, one half each; kernels write them.
    given: Pinned,
    /// Outputs that one half holds.
    room: u32,
    flights: [Flight; 2],
    answers: Vec<Answer>,
    times: Vec<Duration>,
    submitted: u64,
    waited: u64,
}

/// A step under way.
struct Flight {
    done: Event,
    /// What was wanted, if the program answers.
    wants: Vec<Want>,
    /// The rows of logits that were wanted.
    logits: Option<Pinned>,
    vocab: usize,
    /// With timing: the operation that begins at each event; the last event ends the step.
    clock: Vec<(usize, Event)>,
    /// With timing: how many operations there are.
    timed: usize,
}

impl Cuda {
    /// A device that holds nothing yet.
    ///
    /// # Errors
    /// [`Error::Use`] if there is no NVIDIA driver or no such GPU, or it is too old.
    pub fn new(options: CudaOptions) -> Result<Cuda> {
        let context = Context::open(options.gpu)?;
        let facts = &context.facts;
        let name = format!(
            "cuda:{} ({}, sm_{}, {} processors)",
            options.gpu, facts.name, facts.arch, facts.processors
        );
        let flight = || {
            Ok::<_, Error>(Flight {
                done: Event::new(&context)?,
                wants: Vec::new(),
                logits: None,
                vocab: 0,
                clock: Vec::new(),
                timed: 0,
            })
        };
        let (chosen, given) = room_for(&context, FIRST_ROOM)?;
        Ok(Cuda {
            name,
            compiler: Compiler::new(options.nvrtc, options.folders, options.cache),
            functions: HashMap::new(),
            weights: Weights::new(&context),
            caches: Caches::none(),
            programs: Vec::new(),
            tickets: Buffer::zeros(&context, TICKET_BYTES)?,
            chosen,
            given,
            room: FIRST_ROOM,
            flights: [flight()?, flight()?],
            answers: Vec::new(),
            times: Vec::new(),
            submitted: 0,
            waited: 0,
            context,
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

    /// Checks all that a step relies on, before anything changes.
    fn check_step(&self, prepared: &Prepared, step: &Step<'_>) -> Result<()> {
        prepared.options.size.check(step)?;
        step.check(prepared.vocab, self.caches.size)?;
        for (input, written) in prepared.program.inputs.iter().zip(&prepared.written) {
            let rows = Size::of(step).rows(input.rows);
            if *written != rows as usize {
                return self.refuse(format!("{written} rows of input {} were written, not {rows}", input.id));
            }
        }
        if self.submitted - self.waited >= 2 {
            return self.refuse("two steps are under way; wait for one first".into());
        }
        for (row, token) in step.tokens.iter().enumerate() {
            if let Token::Previous(output) = *token
                && !self.drew(output)
            {
                return Err(Error::Step(format!(
                    "row {row} reads output {output} of the step before, which drew no token"
                )));
            }
        }
        Ok(())
    }

    /// Whether the step submitted last draws a token for this output.
    fn drew(&self, output: u32) -> bool {
        let last = &self.flights[(self.submitted + 1) as usize % 2];
        self.submitted > 0 && matches!(last.wants.get(output as usize), Some(Want::Choose(_)))
    }

    /// Loads the kernels of some launches, compiling those that nobody has compiled yet.
    fn load(&mut self, launches: &[Launch]) -> Result<()> {
        let mut needed: HashMap<Kernel, u32> = HashMap::new();
        for launch in launches {
            let shared = needed.entry(launch.kernel).or_default();
            *shared = (*shared).max(launch.grid.shared);
        }
        let missing: Vec<Kernel> =
            needed.keys().filter(|kernel| !self.functions.contains_key(kernel)).copied().collect();
        let cubins = self.compiler.cubins(&missing, self.context.facts.arch)?;
        for (kernel, cubin) in missing.iter().zip(cubins) {
            let module = Module::load(&self.context, &cubin)?;
            self.functions.insert(*kernel, module.function(kernel.file())?);
        }
        needed.iter().try_for_each(|(kernel, shared)| self.functions[kernel].allow_shared(*shared))
    }

    /// Starts a checked step.
    fn start(&mut self, program: ProgramId, step: &Step<'_>) -> Result<()> {
        let half = self.submitted as usize % 2;
        let shared = Shared {
            context: &self.context,
            weights: &self.weights,
            caches: &self.caches,
            tickets: self.tickets.address(),
            chosen: self.chosen.address(),
            given: self.given.address(),
        };
        let prepared = &mut self.programs[program.0 as usize];
        prepared.written.fill(0);
        prepared.last = Size::of(step);
        let most = prepared.options.size;
        let (tokens, outputs) = (
            rounded(step.tokens.len() as u32, most.tokens),
            rounded(step.outputs.len() as u32, most.outputs),
        );
        let room = prepared.room(shared)?;
        let words = room.layout.fill(room.staging[half].words_mut(), step, [half as u32, self.room])?;
        room.step.start_write(0, &room.staging[half], 0, words * 4)?;
        let size = Size { tokens, outputs, ..most };
        let function = |kernel: &Kernel| {
            self.functions.get(kernel).cloned().ok_or_else(|| fault(format!("{kernel:?} was not loaded")))
        };
        let flight = &mut self.flights[half];
        flight.clock.clear();
        if prepared.options.timing {
            flight.timed = prepared.program.ops.len();
            for launches in prepared.launches(shared, size).chunk_by(|a, b| a.op == b.op) {
                flight.tick(&self.context, launches[0].op)?;
                start(launches, Order::After, function)?;
            }
            flight.tick(&self.context, flight.timed)?;
        } else {
            if !prepared.room(shared)?.graphs.contains_key(&(tokens, outputs)) {
                let launches = prepared.launches(shared, size);
                let overlapping = self.context.facts.arch >= OVERLAPPING_ARCH;
                let order = if overlapping { Order::Overlapping } else { Order::After };
                let graph = Graph::capture(&self.context, || start(&launches, order, function))?;
                prepared.room(shared)?.graphs.insert((tokens, outputs), graph);
            }
            prepared.room(shared)?.graphs[&(tokens, outputs)].launch()?;
        }
        flight.wants.clear();
        if let Some(logits) = prepared.logits() {
            flight.wants.extend(step.outputs.iter().map(|output| output.want));
            flight.vocab = logits.cols as usize;
            flight.copy_logits(&self.context, prepared, logits)?;
        }
        flight.done.record()
    }
}

impl Flight {
    /// Operation `op` begins here.
    fn tick(&mut self, context: &Arc<Context>, op: usize) -> Result<()> {
        let event = Event::new(context)?;
        event.record()?;
        self.clock.push((op, event));
        Ok(())
    }

    /// Starts copying the rows of logits that are wanted to the host, one behind the other.
    fn copy_logits(&mut self, context: &Arc<Context>, prepared: &Prepared, logits: Val) -> Result<()> {
        let row_bytes = self.vocab * 4;
        let rows: Vec<usize> =
            (0..self.wants.len()).filter(|output| matches!(self.wants[*output], Want::Logits)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let needed = rows.len() * row_bytes;
        if self.logits.as_ref().is_none_or(|logits| logits.bytes().len() < needed) {
            self.logits = None;
            self.logits = Some(Pinned::zeros(context, needed.next_power_of_two())?);
        }
        let (Some(to), Some(start)) = (&mut self.logits, prepared.start(logits)) else {
            return Err(fault("the logits have no place"));
        };
        for (index, row) in rows.into_iter().enumerate() {
            prepared.values.start_read(start * 4 + row * row_bytes, to, index * row_bytes, row_bytes)?;
        }
        Ok(())
    }
}

/// Memory for the tokens and outcomes of two steps of `room` outputs.
fn room_for(context: &Arc<Context>, room: u32) -> Result<(Buffer, Pinned)> {
    let outputs = 2 * room as usize;
    Ok((Buffer::zeros(context, outputs * 4)?, Pinned::zeros(context, outputs * GIVEN_WORDS * 4)?))
}

impl Device for Cuda {
    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, model: &ModelSpec, options: &Options, caches: CacheSize) -> Result<Memory> {
        let mut memory = Memory { cache: caches::bytes(&model.caches, caches)?, ..Memory::default() };
        for weight in &model.weights {
            let bytes = weight.parts.iter().map(|part| weights::bytes(weight.kind, part.storage));
            memory.weights += bytes.sum::<u64>();
        }
        for program in &model.programs {
            memory.scratch += program::memory::ScratchPlan::new(program, options).len() as u64 * 4;
        }
        Ok(memory)
    }

    fn upload(&mut self, id: WeightId, part: u32, tensor: HostTensor) -> Result<()> {
        self.context.enter()?;
        self.weights.insert(id, part, &tensor)
    }

    fn reserve(&mut self, caches: &[CacheSpec], size: CacheSize) -> Result<()> {
        self.context.enter()?;
        self.context.synchronize()?;
        self.programs.iter_mut().for_each(Prepared::forget);
        self.caches = Caches::none();
        self.caches = Caches::new(&self.context, caches, size)?;
        Ok(())
    }

    fn prepare(&mut self, program: &Program, options: &Options) -> Result<ProgramId> {
        self.context.enter()?;
        if let Err(what) = check(program, &self.weights, &self.caches) {
            return self.refuse(what);
        }
        if options.size.outputs > self.room {
            self.context.synchronize()?;
            self.programs.iter_mut().for_each(Prepared::forget);
            self.room = options.size.outputs.next_power_of_two();
            (self.chosen, self.given) = room_for(&self.context, self.room)?;
        }
        let shared = Shared {
            context: &self.context,
            weights: &self.weights,
            caches: &self.caches,
            tickets: self.tickets.address(),
            chosen: self.chosen.address(),
            given: self.given.address(),
        };
        let mut prepared = Prepared::new(shared, program, options, vocab(program, &self.weights))?;
        let launches = prepared.all_launches(shared);
        prepared.room(shared)?;
        self.load(&launches)?;
        self.programs.push(prepared);
        Ok(ProgramId(self.programs.len() as u32 - 1))
    }

    fn submit(&mut self, program: ProgramId, step: &Step<'_>) -> Result<Ticket> {
        self.check_step(self.prepared(program)?, step)?;
        self.context.enter()?;
        self.start(program, step)?;
        self.submitted += 1;
        Ok(Ticket(self.submitted - 1))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outcome<'_>> {
        if ticket.0 != self.waited || self.waited == self.submitted {
            let what = format!("step {} was waited for out of order, the next is {}", ticket.0, self.waited);
            return self.refuse(what);
        }
        self.context.enter()?;
        let half = self.waited as usize % 2;
        self.waited += 1;
        let flight = &self.flights[half];
        flight.done.wait()?;
        self.times.clear();
        if !flight.clock.is_empty() {
            self.times.resize(flight.timed, Duration::ZERO);
            for ((op, begin), (_, end)) in flight.clock.iter().zip(&flight.clock[1..]) {
                self.times[*op] += begin.until(end)?;
            }
        }
        self.answers.clear();
        let given = &self.given.words()[half * self.room as usize * GIVEN_WORDS..];
        let mut rows = 0;
        for given in given.chunks_exact(GIVEN_WORDS).take(flight.wants.len()) {
            self.answers.push(match given[0] {
                0 => Answer::Token(given[1]),
                1 => Answer::NotFinite,
                2 => Answer::Score(f32::from_bits(given[1])),
                _ => {
                    rows += 1;
                    Answer::Logits(rows - 1)
                }
            });
        }
        let logits = flight.logits.as_ref().map_or(&[][..], Pinned::floats);
        Ok(Outcome {
            answers: &self.answers,
            logits: &logits[..rows as usize * flight.vocab],
            vocab: flight.vocab,
            times: &self.times,
        })
    }

    fn read(&mut self, program: ProgramId, value: Val, out: &mut [f32]) -> Result<()> {
        let prepared = self.prepared(program)?;
        let place =
            prepared.start(value).filter(|_| prepared.program.can_be_read(value, prepared.options.keep_all));
        let Some(start) = place else {
            return self.refuse(format!("value {} cannot be read from this program", value.id));
        };
        let needed = prepared.last.rows(value.rows) as usize * value.cols as usize;
        if out.len() != needed {
            let what = format!("value {} has {needed} numbers, room for {}", value.id, out.len());
            return self.refuse(what);
        }
        self.context.enter()?;
        prepared.values.read_floats(start, out)
    }

    fn write(&mut self, program: ProgramId, value: Val, rows: &[f32]) -> Result<()> {
        let prepared = self.prepared(program)?;
        let (index, count) = match prepared.program.input_rows(value, rows.len(), prepared.options.size) {
            Ok(found) => found,
            Err(what) => return self.refuse(what),
        };
        let Some(start) = prepared.start(value) else {
            return self.refuse(format!("value {} has no place", value.id));
        };
        self.context.enter()?;
        prepared.values.write_floats(start, rows)?;
        self.programs[program.0 as usize].written[index] = count;
        Ok(())
    }
}
