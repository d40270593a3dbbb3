//! Which operations run together with their neighbours.
//!
//! | together | what is saved |
//! |---|---|
//! | a linear map or mixture and the `add_rms_norm` that alone reads its result: it adds the stream itself | a value, and the sum's launch where the norm goes too |
//! | `rms_norm` and the products that alone read its result: they norm their inputs on the way in | a launch |
//! | `act_mul` and the linear map that alone reads its result: likewise | a launch |
//! | norms, rotations and cache writes of a layer's queries, keys and values | all but one launch |
//!
//! Results are the same bits as those of the operations one by one: the same sums in the same order. Norms and products
//! move into kernels for a few rows only; the others hold for steps of any size. A fused kernel may read a value later,
//! or write it earlier, than its operation: [`Fusions::lives`] says so to the plan of memory.

use std::collections::{HashMap, HashSet};

use program::memory::{Life, lives};
use program::{CacheId, Cols, Heads, Op, Program, Rope, Storage, Val, WeightId};

use crate::weights::Weights;

/// Numbers of a head that the kernel for heads holds.
const MOST_HEAD_DIMS: u32 = 8192;

/// What a normed value is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm {
    pub(crate) x: Cols,
    pub(crate) weight: WeightId,
    pub(crate) eps: f32,
}

/// A result that its operation adds to a stream itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    /// The result, which is not written.
    pub(crate) delta: Val,
    /// The stream before.
    pub(crate) x: Val,
    /// The stream after.
    pub(crate) sum: Val,
}

/// Where a head job's result goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Value(Val),
    Cache(CacheId, u32),
}

/// A norm, a rotation and a write, any of which may be missing, over heads of one value.
#[derive(Clone, Debug)]
pub(crate) struct HeadJob {
    pub(crate) x: Cols,
    pub(crate) norm: Option<(WeightId, f32)>,
    /// The rotation, and the index of its operation.
    pub(crate) rope: Option<(usize, Heads, Rope)>,
    /// Columns of a head: what is normed, and what is rotated.
    pub(crate) dims: u32,
    pub(crate) target: Target,
}

/// How the operations of one program run together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fusions {
    /// Values that products of a few rows norm themselves.
    norms: HashMap<Val, Norm>,
    /// Values that a linear map of a few rows makes itself: of gate and up.
    products: HashMap<Val, [Val; 2]>,
    sums: HashMap<usize, Sum>,
    /// Sums that another operation makes.
    made: HashSet<Val>,
    /// By attention: what is to be done before it.
    heads: HashMap<usize, Vec<HeadJob>>,
    /// Operations that run with another one, at any size.
    elsewhere: HashSet<usize>,
    lives: Vec<Life>,
}

impl Fusions {
    /// Finds what can run together; nothing where all values are kept, since some would not be made.
    pub(crate) fn new(program: &Program, weights: &Weights, keep_all: bool) -> Fusions {
        let mut fusions = Fusions { lives: lives(program, keep_all), ..Fusions::default() };
        if keep_all {
            return fusions;
        }
        let finder = Finder::new(program, weights);
        for (index, op) in program.ops.iter().enumerate() {
            match op {
                Op::AddRmsNorm { x, delta, sum, .. } => fusions.sum(&finder, index, [*x, *delta, *sum]),
                Op::ActMul { gate, up, out, .. } => fusions.product(&finder, [*gate, *up], *out),
                Op::Attend { q, cache, .. } | Op::AttendMla { q, cache, .. } => {
                    fusions.heads(&finder, index, *q, *cache);
                }
                _ => {}
            }
        }
        for (index, op) in program.ops.iter().enumerate() {
            if fusions.elsewhere.contains(&index) {
                continue;
            }
            match op {
                Op::RmsNorm { x, weight, eps, out } => {
                    fusions.norm(&finder, Norm { x: *x, weight: *weight, eps: *eps }, *out);
                }
                Op::AddRmsNorm { sum, weight, eps, out, .. } if fusions.made.contains(sum) => {
                    fusions.norm(&finder, Norm { x: (*sum).into(), weight: *weight, eps: *eps }, *out);
                }
                _ => {}
            }
        }
        fusions
    }

    /// The lives of values as the fused operations need them.
    pub(crate) fn lives(&self) -> Vec<Life> {
        let mut lives = self.lives.clone();
        lives.sort_by_key(|(_, life)| life.start);
        lives
    }

    /// What products of a few rows norm themselves to have this value.
    pub(crate) fn norm_of(&self, val: Val) -> Option<Norm> {
        self.norms.get(&val).copied()
    }

    /// Gate and up of which a linear map of a few rows makes this value itself.
    pub(crate) fn product_of(&self, val: Val) -> Option<[Val; 2]> {
        self.products.get(&val).copied()
    }

    /// What operation `index` adds a result of its to.
    pub(crate) fn sum_of(&self, index: usize) -> Option<Sum> {
        self.sums.get(&index).copied()
    }

    /// Whether the sum was made by the operation that made the addend.
    pub(crate) fn is_made(&self, sum: Val) -> bool {
        self.made.contains(&sum)
    }

    /// What is to be done to queries, keys and values before attention number `index`.
    pub(crate) fn heads_before(&self, index: usize) -> &[HeadJob] {
        self.heads.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Whether operation `index` runs with another one.
    pub(crate) fn is_elsewhere(&self, index: usize) -> bool {
        self.elsewhere.contains(&index)
    }

    /// Makes sure that `val` is there from operation `from` to operation `to`.
    fn keep(&mut self, val: Val, from: usize, to: usize) {
        if let Some((_, life)) = self.lives.iter_mut().find(|(known, _)| *known == val) {
            life.start = life.start.min(from);
            life.end = life.end.max(to);
        }
    }

    fn sum(&mut self, finder: &Finder<'_>, index: usize, [x, delta, sum]: [Val; 3]) {
        let Some(maker) = finder.maker(delta) else { return };
        let adds = matches!(finder.program.ops[maker], Op::Linear { .. } | Op::Experts { .. });
        let x_is_there = finder.maker(x).is_none_or(|made| made < maker);
        if adds && x_is_there && finder.readers(delta) == [index] && finder.is_inner(delta) {
            self.sums.insert(maker, Sum { delta, x, sum });
            self.made.insert(sum);
            self.keep(sum, maker, index);
        }
    }

    fn product(&mut self, finder: &Finder<'_>, [gate, up]: [Val; 2], out: Val) {
        let &[reader] = finder.readers(out) else { return };
        let Op::Linear { x, to } = &finder.program.ops[reader] else { return };
        if *x == out.into() && finder.is_inner(out) && to.iter().all(|(weight, _)| finder.is_codes(*weight)) {
            self.products.insert(out, [gate, up]);
            self.keep(gate, reader, reader);
            self.keep(up, reader, reader);
        }
    }

    fn norm(&mut self, finder: &Finder<'_>, norm: Norm, out: Val) {
        let norms_itself = |reader: &usize| match &finder.program.ops[*reader] {
            Op::Linear { x, .. } => *x == out.into(),
            Op::Experts { x, .. } => *x == out,
            _ => false,
        };
        let readers = finder.readers(out);
        let whole = finder.len(norm.weight) == Some(norm.x.len);
        if whole && !readers.is_empty() && finder.is_inner(out) && readers.iter().all(norms_itself) {
            self.norms.insert(out, norm);
            for reader in readers {
                self.keep(norm.x.val, *reader, *reader);
            }
        }
    }

    /// Traces what attention number `index` reads back through rotations and norms.
    fn heads(&mut self, finder: &Finder<'_>, index: usize, q: Val, cache: CacheId) {
        let mut jobs = Vec::new();
        let mut elsewhere = Vec::new();
        if finder.is_inner(q) && finder.readers(q) == [index] {
            let (job, ops) = finder.chain(q.into(), Target::Value(q));
            // A query that nothing is done to stays where it is.
            if !ops.is_empty() && job.dims <= MOST_HEAD_DIMS {
                jobs.push(job);
                elsewhere.extend(ops);
            }
        }
        for (writer, x, part) in finder.writes_before(index, cache) {
            let (job, ops) = finder.chain(x, Target::Cache(cache, part));
            if job.dims <= MOST_HEAD_DIMS {
                jobs.push(job);
                elsewhere.extend(ops);
                elsewhere.push(writer);
            }
        }
        if jobs.len() > 1 {
            for job in &jobs {
                self.keep(job.x.val, index, index);
            }
            self.elsewhere.extend(elsewhere);
            self.heads.insert(index, jobs);
        }
    }
}

/// Who makes and who reads each value.
struct Finder<'a> {
    program: &'a Program,
    weights: &'a Weights,
    makers: HashMap<Val, usize>,
    readers: HashMap<Val, Vec<usize>>,
}

impl<'a> Finder<'a> {
    fn new(program: &'a Program, weights: &'a Weights) -> Finder<'a> {
        let (mut makers, mut readers) = (HashMap::new(), HashMap::<Val, Vec<usize>>::new());
        for (index, op) in program.ops.iter().enumerate() {
            makers.extend(op.writes().into_iter().map(|val| (val, index)));
            for val in op.reads() {
                readers.entry(val).or_default().push(index);
            }
        }
        Finder { program, weights, makers, readers }
    }

    fn maker(&self, val: Val) -> Option<usize> {
        self.makers.get(&val).copied()
    }

    fn readers(&self, val: Val) -> &[usize] {
        self.readers.get(&val).map_or(&[], Vec::as_slice)
    }

    /// Whether the program makes the value and nobody reads it after a step.
    fn is_inner(&self, val: Val) -> bool {
        self.makers.contains_key(&val) && !self.program.results.contains(&val)
    }

    fn is_codes(&self, weight: WeightId) -> bool {
        let codes = |part: &crate::weights::Part| matches!(part.storage, Storage::Exl3 { .. });
        self.weights.parts(weight).is_some_and(|parts| parts.iter().all(codes))
    }

    fn len(&self, vector: WeightId) -> Option<u32> {
        self.weights.parts(vector).map(|parts| parts[0].shape().1)
    }

    /// The writes to a cache that an attention before `index` has not seen: their operation, value and part.
    fn writes_before(&self, index: usize, cache: CacheId) -> Vec<(usize, Cols, u32)> {
        let write = |(at, op): (usize, &Op)| match op {
            Op::CacheWrite { x, cache: to, part } if *to == cache => Some((at, *x, *part)),
            _ => None,
        };
        let reads = |op: &Op| matches!(op, Op::Attend { cache: of, .. } | Op::AttendMla { cache: of, .. } if *of == cache);
        let ops = &self.program.ops[..index];
        let start = ops.iter().rposition(reads).map_or(0, |last| last + 1);
        ops.iter().enumerate().skip(start).filter_map(write).collect()
    }

    /// The job that makes `x`, as far back as norm and rotation go, and their operations.
    fn chain(&self, x: Cols, target: Target) -> (HeadJob, Vec<usize>) {
        let mut job = HeadJob { x, norm: None, rope: None, dims: x.len, target };
        let mut ops = Vec::new();
        // What comes next may be read by no one else, and wholly.
        let alone = |x: Cols| {
            let maker = self.maker(x.val).filter(|_| x == x.val.into() && self.is_inner(x.val));
            maker.filter(|_| self.readers(x.val).len() == 1)
        };
        if let Some(maker) = alone(job.x)
            && let Op::Rope { x, heads, rope, .. } = &self.program.ops[maker]
        {
            job = HeadJob { x: *x, rope: Some((maker, *heads, rope.clone())), dims: heads.dims, ..job };
            ops.push(maker);
        }
        if let Some(maker) = alone(job.x)
            && let Op::RmsNorm { x, weight, eps, .. } = &self.program.ops[maker]
            && self.len(*weight).is_some_and(|len| job.rope.is_none() || len == job.dims)
        {
            let dims = self.len(*weight).unwrap_or(job.dims);
            job = HeadJob { x: *x, norm: Some((*weight, *eps)), dims, ..job };
            ops.push(maker);
        }
        (job, ops)
    }
}
