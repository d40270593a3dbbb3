//! From operations to launches, for steps of a given number of rows.
//!
//! A step of fewer rows runs the same launches: kernels read how many rows there are and leave the others alone.

mod attention;
mod experts;
mod linear;

#[cfg(test)]
pub(crate) use attention::fitting;

use program::memory::ScratchPlan;
use program::{Cols, Dtype, Op, Rows, Score, Size, Storage, Val, WeightId};

use crate::caches::Caches;
use crate::constants::Constants;
use crate::driver::{Address, Facts, Grid};
use crate::fuse::{Fusions, Norm};
use crate::kernel::{Elementwise, GEMV_ROWS, Kernel, RouteScore};
use crate::launch::{Launch, Params};
use crate::step::StepAddresses;
use crate::weights::{Part, Weights};

/// The first architecture (compute capability times ten) that has the kernels for a few rows.
const GEMV_ARCH: u32 = 90;

/// Bytes of counters that linear maps need, all zero between launches.
pub(crate) const TICKET_BYTES: usize = 1 << 20;

/// What the launches of a program refer to.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) weights: &'a Weights,
    pub(crate) caches: &'a Caches,
    pub(crate) constants: &'a Constants,
    pub(crate) fusions: &'a Fusions,
    pub(crate) plan: &'a ScratchPlan,
    /// Where the values begin.
    pub(crate) values: Address,
    /// Where kernels keep what no other operation reads.
    pub(crate) work: Address,
    /// [`TICKET_BYTES`] of zeros.
    pub(crate) tickets: Address,
    pub(crate) step: StepAddresses,
    /// Tokens drawn in this step and the one before, on the device.
    pub(crate) chosen: Address,
    /// Outcomes of this step and the one before, in the host's memory.
    pub(crate) given: Address,
}

/// The launches of a program.
pub(crate) struct Lowered {
    pub(crate) launches: Vec<Launch>,
    /// Bytes of work space.
    pub(crate) work: usize,
}

/// Turns `ops` into launches for steps of up to `size`.
pub(crate) fn lower(ops: &[Op], size: Size, places: Places<'_>) -> Lowered {
    let mut lowering = Lowering { places, size, launches: Vec::new(), index: 0, taken: 0, most: 0 };
    for (index, op) in ops.iter().enumerate() {
        lowering.index = index;
        lowering.taken = 0;
        lowering.op(index, op);
    }
    Lowered { launches: lowering.launches, work: lowering.most }
}

struct Lowering<'a> {
    places: Places<'a>,
    size: Size,
    launches: Vec<Launch>,
    /// The operation at hand.
    index: usize,
    /// Bytes of work space that the operation at hand has taken.
    taken: usize,
    most: usize,
}

impl Lowering<'_> {
    fn op(&mut self, index: usize, op: &Op) {
        if self.places.fusions.is_elsewhere(index) {
            return;
        }
        match op {
            Op::Embed { table, out } => self.embed(*table, *out),
            Op::RmsNorm { x, weight, eps, out } => {
                if self.norm_of(*out).is_none() {
                    self.rms_norm(Norm { x: *x, weight: *weight, eps: *eps }, *out);
                }
            }
            Op::AddRmsNorm { sum, weight, eps, out, .. } if self.places.fusions.is_made(*sum) => {
                if self.norm_of(*out).is_none() {
                    self.rms_norm(Norm { x: (*sum).into(), weight: *weight, eps: *eps }, *out);
                }
            }
            Op::AddRmsNorm { x, delta, weight, eps, sum, out } => {
                let params = Params::new().address(self.value(*x)).address(self.value(*delta));
                let params = params
                    .address(self.vector(*weight).data)
                    .address(self.value(*sum))
                    .address(self.value(*out));
                let params = params.address(self.count(x.rows)).word(x.cols).word(x.cols).word(1).float(*eps);
                self.launch(Kernel::AddRmsNorm, [self.size.rows(x.rows), 1, 1], 256, params);
            }
            Op::Linear { x, to } => self.linear(index, *x, to),
            Op::Rope { x, heads, rope, out } => {
                let params = Params::new().address(self.columns(*x)).address(self.value(*out));
                let params = params.address(self.count(Rows::Tokens)).address(self.places.step.positions);
                let params =
                    params.address(self.places.constants.frequencies(index)).word(x.val.cols).word(x.len);
                let params = params.word(heads.dims).word(heads.first).word(heads.rotary).float(rope.gain);
                self.by_columns(Kernel::Rope(rope.pairing), self.size.tokens, x.len, params);
            }
            Op::CacheWrite { x, cache, part } => {
                let params = Params::new()
                    .address(self.columns(*x))
                    .address(self.places.caches.address(*cache, *part));
                let params = params.address(self.count(Rows::Tokens)).address(self.places.step.places);
                self.by_columns(
                    Kernel::CacheWrite,
                    self.size.tokens,
                    x.len,
                    params.word(x.val.cols).word(x.len),
                );
            }
            Op::Attend { q, cache, shape, out } => {
                self.heads(index);
                self.attend(*q, *cache, shape, *out);
            }
            Op::AttendMla { q, cache, up, shape, out } => {
                self.heads(index);
                self.attend_mla([*q, *out], *cache, *up, shape);
            }
            Op::Route { logits, bias, how, ids, gates } => self.route([*logits, *ids, *gates], *bias, how),
            Op::Experts { x, ids, gates, experts, shared, act: program::Activation::Silu, out } => {
                self.experts(index, [*x, *ids, *gates, *out], experts, shared.as_ref());
            }
            Op::ActMul { gate, up, act: program::Activation::Silu, out } => {
                if self.product_of(*out).is_none() {
                    self.elementwise(Elementwise::ActMul, [*gate, *up], *out);
                }
            }
            Op::Add { a, b, out } => self.elementwise(Elementwise::Add, [*a, *b], *out),
            Op::Outputs { x, out } => self.elementwise(Elementwise::Outputs, [*x, *x], *out),
            Op::Answer { logits, known } => {
                let Places { step, given, chosen, .. } = self.places;
                let params =
                    Params::new().address(self.value(*logits)).address(step.counts).address(step.wants);
                let params = params.address(given).address(chosen).word(logits.cols).word(*known);
                self.launch(Kernel::Answer, [self.size.outputs, 1, 1], 1024, params);
            }
        }
    }

    fn rms_norm(&mut self, Norm { x, weight, eps }: Norm, out: Val) {
        let (weight, rows) = (self.vector(weight), x.val.rows);
        let len = weight.shape().1;
        let params = Params::new().address(self.columns(x)).address(Address::NULL).address(weight.data);
        let params = params.address(Address::NULL).address(self.value(out)).address(self.count(rows));
        let params = params.word(x.val.cols).word(len).word(x.len / len).float(eps);
        self.launch(Kernel::RmsNorm, [self.size.rows(rows) * (x.len / len), 1, 1], 256, params);
    }

    /// Whether steps of this size have few enough rows of a value for kernels that make their inputs themselves.
    fn is_few_rows(&self, val: Val) -> bool {
        self.has_gemv() && self.size.rows(val.rows) <= GEMV_ROWS
    }

    fn has_gemv(&self) -> bool {
        self.places.facts.arch >= GEMV_ARCH
    }

    /// What is normed instead of reading `val`, if it is.
    fn norm_of(&self, val: Val) -> Option<Norm> {
        self.places.fusions.norm_of(val).filter(|_| self.is_few_rows(val))
    }

    /// Gate and up that are multiplied instead of reading `val`, if they are.
    fn product_of(&self, val: Val) -> Option<[Val; 2]> {
        self.places.fusions.product_of(val).filter(|_| self.is_few_rows(val))
    }

    fn embed(&mut self, table: WeightId, out: Val) {
        let Places { step, chosen, .. } = self.places;
        let table = self.vector(table);
        let end =
            |params: Params| params.address(step.counts).address(step.tokens).address(chosen).word(out.cols);
        let tokens = self.size.tokens;
        match table.storage {
            Storage::Exl3Table { bits } => {
                let rings = out.cols.div_ceil(256);
                let params = Params::new().address(table.data).address(table.suh).address(self.value(out));
                self.launch(Kernel::EmbedCodes(bits), [tokens, rings, 1], 256, end(params).word(rings));
            }
            storage => {
                let params = Params::new().address(table.data).address(self.value(out));
                self.launch(Kernel::Embed(dtype(storage)), [tokens, 1, 1], 256, end(params));
            }
        }
    }

    fn route(&mut self, [logits, ids, gates]: [Val; 3], bias: Option<WeightId>, how: &program::Routing) {
        let Places { step, chosen, .. } = self.places;
        let (score, layer) = match how.score {
            Score::Softmax => (RouteScore::Softmax, 0),
            Score::Sigmoid => (RouteScore::Sigmoid, 0),
            Score::Hash { layer } => (RouteScore::Hash, layer),
        };
        let (groups, chosen_groups) = how.groups.map_or((0, 0), |groups| (groups.count, groups.chosen));
        let (normalised, epsilon) = match how.gates {
            program::Gates::Raw => (0, 0.0),
            program::Gates::Normalised { epsilon } => (1, epsilon),
        };
        let bias = bias.map_or(Address::NULL, |bias| self.vector(bias).data);
        let params = Params::new().address(self.value(logits)).address(bias).address(self.value(ids));
        let params = params.address(self.value(gates)).address(step.counts).address(step.tokens);
        let params =
            params.address(chosen).address(step.positions).word(how.experts).word(how.top_k).word(groups);
        let params = params.word(chosen_groups).word(layer).word(normalised).float(epsilon).float(how.scale);
        let shared = (2 * how.experts + groups) * 4;
        let grid = Grid { blocks: [self.size.tokens, 1, 1], threads: 32, shared, cluster: 1 };
        self.launch_grid(Kernel::Route(score), grid, params);
    }

    fn elementwise(&mut self, kind: Elementwise, [a, b]: [Val; 2], out: Val) {
        let addresses = [self.value(a), self.value(b), self.value(out)];
        let rows = self.size.rows(out.rows);
        self.elementwise_at(kind, addresses, (self.count(out.rows), rows, 1), out.cols);
    }

    /// `factor` rows of `cols` columns for each row that is counted at `count`, of which there are up to `rows`.
    fn elementwise_at(
        &mut self,
        kind: Elementwise,
        at: [Address; 3],
        (count, rows, factor): (Address, u32, u32),
        cols: u32,
    ) {
        let params = at.into_iter().fold(Params::new(), Params::address).address(count);
        let params = params.address(self.places.step.rows).word(cols).word(factor);
        self.by_columns(Kernel::Elementwise(kind), rows * factor, cols, params);
    }

    /// A launch with a thread for each column of each row.
    fn by_columns(&mut self, kernel: Kernel, rows: u32, cols: u32, params: Params) {
        self.launch(kernel, [rows, cols.div_ceil(256), 1], 256, params);
    }

    fn launch(&mut self, kernel: Kernel, blocks: [u32; 3], threads: u32, params: Params) {
        self.launch_grid(kernel, Grid { blocks, threads, shared: 0, cluster: 1 }, params);
    }

    fn launch_grid(&mut self, kernel: Kernel, grid: Grid, params: Params) {
        // What has no rows in such steps is not run.
        if grid.blocks.iter().all(|blocks| *blocks > 0) {
            self.launches.push(Launch { op: self.index, kernel, grid, params });
        }
    }

    /// Takes work space for this operation.
    fn room(&mut self, bytes: usize) -> Address {
        let start = self.taken;
        self.taken += bytes.next_multiple_of(256);
        self.most = self.most.max(self.taken);
        self.places.work + start
    }

    /// # Panics
    /// If the program does not have it; its values were laid out.
    fn value(&self, val: Val) -> Address {
        let start =
            self.places.plan.start(val).unwrap_or_else(|| panic!("the program has no value {}", val.id));
        self.places.values + start * 4
    }

    fn columns(&self, cols: Cols) -> Address {
        self.value(cols.val) + cols.start as usize * 4
    }

    /// Where kernels read how many rows there are.
    fn count(&self, rows: Rows) -> Address {
        match rows {
            Rows::Tokens => self.places.step.counts,
            Rows::Outputs => self.places.step.counts + 4,
        }
    }

    /// The only part of a weight.
    fn vector(&self, id: WeightId) -> Part {
        self.parts(id)[0]
    }

    /// # Panics
    /// If it was not uploaded; programs are checked when they are prepared.
    fn parts(&self, id: WeightId) -> Vec<Part> {
        crate::constants::parts(self.places.weights, (id, None))
    }
}

/// The number format of a plain tensor.
///
/// # Panics
/// If it is none; programs are checked when they are prepared.
fn dtype(storage: Storage) -> Dtype {
    match storage {
        Storage::Dense(dtype) => dtype,
        other => panic!("{other:?} is not plain"),
    }
}
