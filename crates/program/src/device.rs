//! The device: a place that holds a model's weights and caches and runs its programs.

use crate::{
    CacheId, CacheSpec, Error, HostTensor, Op, Outcome, Result, Rows, Step, Val, WeightId, WeightSpec,
};

/// Everything that a model is, but for its numbers. Ids of weights, caches and values are unique over
/// its programs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// What is to be uploaded; a [`WeightId`] is an index.
    pub weights: Vec<WeightSpec>,
    /// What a sequence remembers; a [`CacheId`] is an index.
    pub caches: Vec<CacheSpec>,
    /// What can be run. The first is the trunk.
    pub programs: Vec<Program>,
}

impl ModelSpec {
    /// Trained numbers in all weights.
    pub fn parameters(&self) -> u64 {
        self.weights.iter().map(|weight| weight.kind.parameters() * weight.parts.len() as u64).sum()
    }

    /// The weight with this id.
    pub fn weight(&self, id: WeightId) -> &WeightSpec {
        &self.weights[id.0 as usize]
    }

    /// The cache with this id.
    pub fn cache(&self, id: CacheId) -> &CacheSpec {
        &self.caches[id.0 as usize]
    }
}

/// A list of operations, run from first to last.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What is done.
    pub ops: Vec<Op>,
    /// Values that the operations read and none of them makes: the host writes them before a step
    /// ([`Device::write`]). Empty for a whole model.
    pub inputs: Vec<Val>,
    /// Values that can be read after a step ([`Device::read`]) besides what [`Op::Answer`] gives.
    pub results: Vec<Val>,
}

impl Program {
    /// A program of its own made of `ops`: what they read and do not make becomes its inputs, what they
    /// make its results. This is how a program is split.
    pub fn of(ops: &[Op]) -> Program {
        let mut made: Vec<Val> = Vec::new();
        let mut inputs: Vec<Val> = Vec::new();
        for op in ops {
            for val in op.reads() {
                if !made.contains(&val) && !inputs.contains(&val) {
                    inputs.push(val);
                }
            }
            made.extend(op.writes());
        }
        Program { ops: ops.to_vec(), inputs, results: made }
    }

    /// Whether the value can be read after a step, with all values kept or not.
    pub fn can_be_read(&self, value: Val, keep_all: bool) -> bool {
        let made = || self.ops.iter().any(|op| op.writes().contains(&value));
        self.results.contains(&value) || keep_all && (self.inputs.contains(&value) || made())
    }

    /// Which of the inputs `value` is and how many rows `numbers` numbers of it are, or why they cannot be
    /// written before a step of up to `size`.
    ///
    /// # Errors
    /// If the program has no such input, a row is incomplete, or there are more rows than `size` allows.
    pub fn input_rows(&self, value: Val, numbers: usize, size: Size) -> Result<(usize, usize), String> {
        let Some(index) = self.inputs.iter().position(|input| *input == value) else {
            return Err(format!("value {} is no input of this program", value.id));
        };
        let (cols, most) = (value.cols as usize, size.rows(value.rows) as usize);
        if !numbers.is_multiple_of(cols) || numbers / cols > most {
            let id = value.id;
            return Err(format!("value {id} takes up to {most} rows of {cols}, not {numbers} numbers"));
        }
        Ok((index, numbers / cols))
    }
}

/// The most rows a step may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Rows.
    pub tokens: u32,
    /// Outputs.
    pub outputs: u32,
    /// Sequences.
    pub sequences: u32,
}

impl Size {
    /// The most rows of a value.
    pub fn rows(&self, rows: Rows) -> u32 {
        match rows {
            Rows::Tokens => self.tokens,
            Rows::Outputs => self.outputs,
        }
    }

    /// The size of one step.
    pub fn of(step: &Step<'_>) -> Size {
        let [tokens, outputs, sequences] =
            [step.tokens.len(), step.outputs.len(), step.sequences.len()].map(|count| count as u32);
        Size { tokens, outputs, sequences }
    }

    /// Checks that `step` is no larger than this.
    ///
    /// # Errors
    /// [`Error::Step`], with what was found and what there is room for.
    pub fn check(&self, step: &Step<'_>) -> Result<()> {
        let counts = |size: &Size| [size.tokens, size.outputs, size.sequences];
        let (found, most) = (counts(&Size::of(step)), counts(self));
        if found.iter().zip(most).any(|(found, most)| *found > most) {
            let what = format!("{found:?} tokens, outputs and sequences, prepared for {most:?}");
            return Err(Error::Step(what));
        }
        Ok(())
    }
}

/// How a program is to be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The largest step.
    pub size: Size,
    /// Whether every value keeps its memory to itself, so that all can be read after a step.
    pub keep_all: bool,
    /// Whether each step tells how long each of its operations took ([`Outcome::times`]).
    pub timing: bool,
    /// Whether the bits of a row must depend on its own sequence alone, and not on how that was cut into
    /// steps: a device that promises this leaves out the paths that cannot keep it.
    pub deterministic: bool,
}

impl Options {
    /// Steps up to `size`, and nothing else asked for.
    pub const fn new(size: Size) -> Options {
        Options { size, keep_all: false, timing: false, deterministic: false }
    }
}

/// How many pages and slots all caches of a model have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize {
    /// Pages, the scratch page 0 included.
    pub pages: u32,
    /// Sequences that can have state at once.
    pub slots: u32,
}

/// Bytes that a device will take, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Weights.
    pub weights: u64,
    /// Caches.
    pub cache: u64,
    /// Values and work space of a step.
    pub scratch: u64,
}

/// A program that a device has prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProgramId(pub u32);

/// A step under way. Tickets are waited for in the order of their steps.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a step that nobody waits for blocks the ones after it"]
pub struct Ticket(pub u64);

/// A place that can run programs. One thread owns it. Weights, caches and scratch memory live inside.
///
/// The order of calls: [`plan`](Device::plan) to see whether a model fits; [`upload`](Device::upload) each
/// part of each weight once; [`reserve`](Device::reserve) caches; [`prepare`](Device::prepare) programs; then
/// [`submit`](Device::submit) and [`wait`](Device::wait) for each step.
pub trait Device: Send {
    /// A short name for messages: `cpu (avx2, 2 threads)`.
    fn name(&self) -> &str;

    /// What the model would take here, before any weight is read.
    ///
    /// # Errors
    /// If the device cannot run one of the model's operations or hold one of its caches.
    fn plan(&self, model: &ModelSpec, options: &Options, caches: CacheSize) -> Result<Memory>;

    /// Takes one part (expert) of a weight. Whatever repacking the device does happens here.
    ///
    /// # Errors
    /// If the tensor contradicts its own sizes, or the device cannot use it.
    fn upload(&mut self, id: WeightId, part: u32, tensor: HostTensor) -> Result<()>;

    /// Makes room for the caches, zeroed; what they held before is gone.
    ///
    /// # Errors
    /// If they cannot be held here.
    fn reserve(&mut self, caches: &[CacheSpec], size: CacheSize) -> Result<()>;

    /// Turns a program into the device's cheapest repeatable form.
    ///
    /// # Errors
    /// If a weight it uses was not uploaded, or an operation cannot be run here.
    fn prepare(&mut self, program: &Program, options: &Options) -> Result<ProgramId>;

    /// Starts a step. At most two are under way; a third is refused.
    ///
    /// # Errors
    /// If the step is malformed ([`Step::check`]), larger than prepared for, or the third.
    fn submit(&mut self, program: ProgramId, step: &Step<'_>) -> Result<Ticket>;

    /// Waits for a step, in the order in which they were submitted, and hands over what it gave.
    ///
    /// # Errors
    /// If the ticket is not the oldest under way.
    fn wait(&mut self, ticket: Ticket) -> Result<Outcome<'_>>;

    /// Copies a value of the last step of `program` to the host: `rows x cols` numbers. The value must be
    /// one of its results or, when prepared with `keep_all`, any of its values.
    ///
    /// # Errors
    /// If the program has no such value to be read.
    fn read(&mut self, program: ProgramId, value: Val, out: &mut [f32]) -> Result<()>;

    /// Copies rows from the host into an input of `program`, for its next step.
    ///
    /// # Errors
    /// If the program has no such input, or `rows` is larger than prepared for.
    fn write(&mut self, program: ProgramId, value: Val, rows: &[f32]) -> Result<()>;
}
