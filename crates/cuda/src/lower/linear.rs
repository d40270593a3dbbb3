//! Linear maps: which kernel multiplies with which matrices, and how the work is cut up.

use std::collections::BTreeMap;

use exl3::{Bits, Codebook};
use program::{Cols, Storage, Val, WeightId};

use super::{Lowering, TICKET_BYTES, dtype};
use crate::driver::{Address, Grid};
use crate::kernel::{GEMV_ROWS, Kernel, LinearInput, gemv_shared};
use crate::launch::Params;
use crate::weights::{MATRIX_BYTES, Part, storage_number};

/// The most targets of one launch.
const MOST_TARGETS: usize = 4;

/// Bytes of sums that the splits of one launch leave.
const MOST_PARTIAL: usize = 64 << 20;

/// Bytes of shared memory that a block may fill with its part of the inputs; more would leave too few blocks a processor.
const MOST_SHARED: u32 = 100 << 10;

/// Blocks of the kernel for a few rows that a processor holds at once.
const BLOCKS_A_PROCESSOR: u32 = 3;

/// The most blocks of a cluster that every such GPU takes.
const MOST_CLUSTER: u32 = 8;

/// Rows of plain matrices that a block has results of.
const PLAIN_OUTPUTS: u32 = 8;

/// One result of a launch: where the matrices and the result are, and the largest number of output features.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// A list of matrices, if rows choose among them.
    pub(super) matrices: Address,
    /// The matrix otherwise.
    pub(super) matrix: Option<Part>,
    pub(super) out: Address,
    /// What is added to the result, laid out as it; null: nothing.
    pub(super) added: Address,
    pub(super) stride: u32,
    pub(super) features: u32,
}

/// Which matrix of a list each row uses: that of each expert chosen for it.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub(super) ids: Address,
    pub(super) top_k: u32,
    /// `top_k`, or one more for the shared expert.
    pub(super) slots: u32,
    /// Where the shared expert is in the lists.
    pub(super) shared: u32,
    /// Whether x has a row for each chosen expert already, instead of one a token.
    pub(super) expanded: bool,
}

/// What linear maps read.
#[derive(Clone, Copy)]
pub(super) struct Input {
    pub(super) x: Address,
    pub(super) stride: u32,
    /// The largest number of input features.
    pub(super) features: u32,
    pub(super) count: Address,
    /// The most rows of a step.
    pub(super) rows: u32,
    pub(super) choice: Option<Choice>,
    /// What is done to x on its way in, for a few rows.
    pub(super) kind: LinearInput,
    /// What else that takes.
    pub(super) second: Address,
    pub(super) eps: f32,
}

impl Lowering<'_> {
    pub(super) fn linear(&mut self, index: usize, x: Cols, to: &[(WeightId, Val)]) {
        let input = self.input(x);
        // One launch for all matrices of one storage.
        let mut targets: BTreeMap<u32, (Storage, Vec<Target>)> = BTreeMap::new();
        for (weight, out) in to {
            let part = self.vector(*weight);
            let storage = part.storage;
            let (out, added) = match self.places.fusions.sum_of(index).filter(|sum| sum.delta == *out) {
                Some(sum) => (sum.sum, self.value(sum.x)),
                None => (*out, Address::NULL),
            };
            let target = Target {
                matrices: Address::NULL,
                matrix: Some(part),
                out: self.value(out),
                added,
                stride: out.cols,
                features: out.cols,
            };
            targets.entry(storage_number(storage)).or_insert_with(|| (storage, Vec::new())).1.push(target);
        }
        for (storage, targets) in targets.into_values() {
            for targets in targets.chunks(MOST_TARGETS) {
                self.multiply(input, storage, targets);
            }
        }
    }

    /// What a linear map of `x` reads: x itself, or what x is made of.
    pub(super) fn input(&self, x: Cols) -> Input {
        let (rows, count) = (self.size.rows(x.val.rows), self.count(x.val.rows));
        let plain = |x: Cols, kind| Input {
            x: self.columns(x),
            stride: x.val.cols,
            features: x.len,
            count,
            rows,
            choice: None,
            kind,
            second: Address::NULL,
            eps: 0.0,
        };
        if let Some(norm) = self.norm_of(x.val) {
            let second = self.vector(norm.weight).data;
            return Input { second, eps: norm.eps, ..plain(norm.x, LinearInput::RmsNorm) };
        }
        match self.product_of(x.val) {
            Some([gate, up]) => Input { second: self.value(up), ..plain(gate.into(), LinearInput::ActMul) },
            None => plain(x, LinearInput::Plain),
        }
    }

    /// Multiplies with all matrices of one storage in the targets' lists.
    pub(super) fn multiply(&mut self, input: Input, storage: Storage, targets: &[Target]) {
        match storage {
            Storage::Exl3 { bits, codebook } if self.is_few(&input) => {
                self.multiply_few(input, storage, targets, (bits, codebook));
            }
            Storage::Exl3 { bits, codebook } => {
                let rows = if input.choice.is_none() && input.rows > 8 { 16 } else { 8 };
                let kernel = Kernel::LinearCodes { bits, codebook, rows };
                self.multiply_codes(input, storage, targets, (kernel, rows));
            }
            storage => {
                let outputs = PLAIN_OUTPUTS;
                let groups = groups(&input, 8);
                let blocks = targets.iter().map(|target| target.features.div_ceil(outputs)).sum();
                let no_split = Split { splits: 1, first_group: 0, partial: Address::NULL, small: false };
                for first_group in (0..groups).step_by(1 << 15) {
                    let split = Split { first_group, ..no_split };
                    let params = self.params(input, storage, targets, split, outputs);
                    let blocks = [blocks, 1, (groups - first_group).min(1 << 15)];
                    let kernel = Kernel::Linear { dtype: dtype(storage), input: input.kind };
                    self.launch(kernel, blocks, 256, params);
                }
            }
        }
    }

    fn multiply_codes(
        &mut self,
        input: Input,
        storage: Storage,
        targets: &[Target],
        (kernel, rows): (Kernel, u32),
    ) {
        let groups = groups(&input, rows);
        let blocks: u32 = targets.iter().map(|target| target.features.div_ceil(128)).sum();
        let blocks_in = input.features.div_ceil(128);
        // As many blocks as fill the processors a few times over, each with a part of the inputs that fits.
        let shared = self.places.facts.shared.min(MOST_SHARED) - rows * 512 - 1024;
        let most_part = shared / (rows * 256);
        let wanted = 4 * self.places.facts.processors / (blocks * groups).max(1);
        let splits = wanted.max(blocks_in.div_ceil(most_part)).clamp(1, blocks_in);
        let part = blocks_in.div_ceil(splits);
        // Launches of as many groups as the sums of their splits have room for.
        let bytes_a_group = (blocks * splits * rows) as usize * 512;
        let at_once = if splits == 1 {
            1 << 15
        } else {
            (MOST_PARTIAL / bytes_a_group).min(TICKET_BYTES / 4 / blocks as usize).clamp(1, 1 << 15) as u32
        };
        let partial =
            if splits == 1 { Address::NULL } else { self.room(bytes_a_group * at_once.min(groups) as usize) };
        for first_group in (0..groups).step_by(at_once as usize) {
            let params = self.params(
                input,
                storage,
                targets,
                Split { splits, first_group, partial, small: false },
                128,
            );
            let blocks = [blocks, splits, (groups - first_group).min(at_once)];
            let grid = Grid { blocks, threads: 256, shared: rows * (part * 64 + 4) * 4, cluster: 1 };
            self.launch_grid(kernel, grid, params);
        }
    }

    /// Whether the kernel for a few rows takes them.
    pub(super) fn is_few(&self, input: &Input) -> bool {
        self.has_gemv() && (input.choice.is_some() || input.rows <= GEMV_ROWS)
    }

    fn multiply_few(
        &mut self,
        input: Input,
        storage: Storage,
        targets: &[Target],
        (bits, codebook): (Bits, Codebook),
    ) {
        let rows = if input.choice.is_some() || input.rows == 1 { 1 } else { GEMV_ROWS };
        let groups = groups(&input, rows);
        let blocks: u32 = targets.iter().map(|target| target.features.div_ceil(128)).sum();
        let blocks_in = input.features.div_ceil(128);
        // Clusters that fill the processors once, with parts that the warps hold in registers.
        let processors = self.places.facts.processors;
        let filling = BLOCKS_A_PROCESSOR * processors / (blocks * groups).max(1);
        let holding = blocks_in.div_ceil(if rows == 1 { 16 } else { 8 });
        let splits = filling.max(holding).clamp(1, MOST_CLUSTER.min(blocks_in));
        let shared = gemv_shared(bits, codebook, blocks_in.div_ceil(splits), rows);
        let kernel = Kernel::GemvCodes { bits, codebook, rows, input: input.kind };
        // Up to here the next kernel's blocks gain more by their early start than they cost this one.
        let small = blocks * splits * groups <= 4 * processors;
        for first_group in (0..groups).step_by(1 << 15) {
            let split = Split { splits, first_group, partial: Address::NULL, small };
            let params = self.params(input, storage, targets, split, 128);
            let blocks = [blocks, splits, (groups - first_group).min(1 << 15)];
            self.launch_grid(kernel, Grid { blocks, threads: 288, shared, cluster: splits }, params);
        }
    }

    /// The struct `LinearParams` of the kernels.
    fn params(
        &self,
        input: Input,
        storage: Storage,
        targets: &[Target],
        split: Split,
        outputs: u32,
    ) -> Params {
        let (ids, top_k, slots, shared, divisor) = match input.choice {
            None => (Address::NULL, 0, 1, 0, 1),
            Some(Choice { ids, top_k, slots, shared, expanded }) => {
                (ids, top_k, slots, shared, if expanded { 1 } else { slots })
            }
        };
        let params = Params::new()
            .address(input.x)
            .address(input.second)
            .address(input.count)
            .address(ids)
            .address(split.partial);
        let params =
            params.address(self.places.tickets).word(input.stride).word(top_k).word(slots).word(divisor);
        let params =
            params.word(shared).word(storage_number(storage)).word(split.splits).word(split.first_group);
        let params = params.word(targets.len() as u32).float(input.eps);
        let aligned = input.stride.is_multiple_of(4)
            && [input.x, input.second].iter().all(|at| at.0.is_multiple_of(16));
        let params = params.word(u32::from(split.small)).word(u32::from(aligned));
        let end = |params: Params, target: &Target| {
            let blocks = target.features.div_ceil(outputs);
            let matrix = target.matrix.map_or_else(|| vec![0; MATRIX_BYTES], |part| part.matrix());
            params
                .address(target.matrices)
                .bytes_of(&matrix)
                .address(target.out)
                .address(target.added)
                .word(target.stride)
                .word(blocks)
        };
        let none = Target {
            matrices: Address::NULL,
            matrix: None,
            out: Address::NULL,
            added: Address::NULL,
            stride: 0,
            features: 0,
        };
        targets.iter().chain([none; MOST_TARGETS].iter().skip(targets.len())).fold(params, end)
    }
}

#[derive(Clone, Copy)]
struct Split {
    splits: u32,
    first_group: u32,
    partial: Address,
    /// Whether the grid leaves room for the next kernel's blocks.
    small: bool,
}

/// How many groups of rows, or chosen experts, there are.
fn groups(input: &Input, rows: u32) -> u32 {
    match input.choice {
        None => input.rows.div_ceil(rows),
        Some(choice) => input.rows * choice.slots,
    }
}
