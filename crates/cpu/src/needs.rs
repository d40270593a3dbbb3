//! The memory that programs work in besides their values, known before any weight is read.

use half::f16;
use program::{Answer, Kind, ModelSpec, Op, Options, Storage, WeightId};

use crate::arena::Memory;
use crate::kernels::grouping::Grouping;
use crate::kernels::linear::{MOST_TARGETS, Stored};
use crate::kernels::{Work, attend, attend_mla, experts, linear, rope, route};

/// What the largest step of some programs needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// Work space of the kernels.
    pub(crate) work: Work,
    /// Rows of a step.
    pub(crate) rows: usize,
    /// Choices of an expert in a step.
    pub(crate) slots: usize,
    /// Experts of a layer.
    pub(crate) experts: usize,
    /// Channels of a table of codes.
    pub(crate) table: usize,
    /// Outputs of a step.
    pub(crate) outputs: usize,
    /// Logits of an output.
    pub(crate) vocab: usize,
}

impl Needs {
    /// What the largest step needs for `ops`; `stored` says how a weight is stored.
    pub(crate) fn new(ops: &[Op], options: &Options, stored: &dyn Fn(WeightId) -> Stored) -> Needs {
        let mut needs = Needs { rows: options.size.tokens as usize, ..Needs::default() };
        for op in ops {
            needs.add(op, options, stored);
        }
        needs
    }

    fn add(&mut self, op: &Op, options: &Options, stored: &dyn Fn(WeightId) -> Stored) {
        let size = options.size;
        let tokens = size.tokens as usize;
        let work = match op {
            Op::Linear { x, to } => {
                let rows = size.rows(x.val.rows) as usize;
                let of = |group: &[_]| linear::work(rows, group.iter().map(|(weight, _)| stored(*weight)));
                to.chunks(MOST_TARGETS).map(of).fold(Work::default(), Work::or)
            }
            Op::Rope { heads, .. } => rope::work(*heads),
            Op::Attend { shape, .. } => attend::work(tokens, shape),
            Op::AttendMla { shape, .. } => attend_mla::work(tokens, shape, options.deterministic),
            Op::Route { how, .. } => {
                self.experts = self.experts.max(how.experts as usize);
                route::work(how)
            }
            Op::Experts { ids, experts, shared, .. } => {
                self.slots = self.slots.max(tokens * ids.cols as usize);
                let shared = shared.map(|glu| stored(glu.up));
                experts::work(tokens, ids.cols as usize, stored(experts.up), shared)
            }
            Op::Embed { table, .. } => {
                let table = stored(*table);
                self.table = self.table.max(if table.codes { table.inputs } else { 0 });
                Work::default()
            }
            Op::Answer { logits, .. } => {
                self.outputs = self.outputs.max(size.outputs as usize);
                self.vocab = self.vocab.max(logits.cols as usize);
                Work::default()
            }
            Op::RmsNorm { .. }
            | Op::AddRmsNorm { .. }
            | Op::CacheWrite { .. }
            | Op::ActMul { .. }
            | Op::Add { .. }
            | Op::Outputs { .. } => Work::default(),
        };
        self.work = self.work.or(work);
    }

    /// What serves both, one after the other.
    pub(crate) fn or(self, other: Needs) -> Needs {
        Needs {
            work: self.work.or(other.work),
            rows: self.rows.max(other.rows),
            slots: self.slots.max(other.slots),
            experts: self.experts.max(other.experts),
            table: self.table.max(other.table),
            outputs: self.outputs.max(other.outputs),
            vocab: self.vocab.max(other.vocab),
        }
    }

    /// Bytes of all of it, on so many threads.
    pub(crate) fn bytes(&self, threads: usize) -> usize {
        // Tokens, places and sequences; the rows at which a task of attention begins.
        let rows = self.rows * 3 * size_of::<u32>() + (self.rows + 1) * size_of::<usize>();
        let experts = Grouping::bytes(self.slots, self.experts) + self.experts * size_of::<u32>();
        // Two outcomes under way, and a candidate (logit and id) for each logit.
        let outcome = self.outputs * (self.vocab * size_of::<f32>() + size_of::<Answer>());
        let answers = 2 * outcome + self.vocab * size_of::<(f32, u32)>();
        Memory::size(self.shared_bytes())
            + Memory::size(self.scratch_bytes(threads))
            + rows
            + experts
            + self.table * size_of::<f16>()
            + answers
    }

    /// Bytes of the work space that all threads share.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.work.shared * size_of::<f32>()
    }

    /// Bytes of the work space of all threads; each thread's begins at a cache line.
    pub(crate) fn scratch_bytes(&self, threads: usize) -> usize {
        threads * Memory::size(self.work.thread * size_of::<f32>())
    }
}

/// How a weight of a model is stored.
pub(crate) fn stored_in(model: &ModelSpec, id: WeightId) -> Stored {
    let weight = model.weight(id);
    let (out, inputs) = weight.kind.shape();
    let codes = weight.parts.iter().any(|part| !matches!(part.storage, Storage::Dense(_)));
    Stored { inputs: inputs as usize, out: out as usize, codes }
}

/// Bytes that a weight takes on this device: as the host stores it, and vectors as `f32`.
pub(crate) fn weight_bytes(kind: Kind, storage: Storage) -> u64 {
    match kind {
        Kind::Vector { len } => u64::from(len) * 4,
        _ => storage.bytes(kind),
    }
}
