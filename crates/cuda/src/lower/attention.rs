//! Attention over pages: how heads are grouped, and into how many parts a context is split.

use program::{CacheId, Gqa, Mla, PAGE_TOKENS, Pairing, Rows, Val, WeightId};

use super::{Lowering, dtype};
use crate::driver::{Address, Grid};
use crate::fuse::{HeadJob, Target};
use crate::kernel::{Attention, Kernel};
use crate::launch::Params;

/// Heads of latent attention that one block of threads takes.
const LATENT_HEADS: u32 = 32;

/// Jobs of the kernel for heads.
const MOST_JOBS: usize = 3;

/// The most parts of a context.
const MOST_SPLITS: u32 = 64;

/// Outputs of a head that one block of the last kernel of latent attention makes.
const OUTPUTS: u32 = 32;

/// Where the parts of a context leave their sums.
struct Partial {
    sums: Address,
    weights: Address,
    splits: u32,
    tile: u32,
}

impl Lowering<'_> {
    /// Norms, rotates and caches what attention number `index` reads, where that was not done before.
    pub(super) fn heads(&mut self, index: usize) {
        let fusions = self.places.fusions;
        let jobs = fusions.heads_before(index);
        if jobs.is_empty() {
            return;
        }
        let step = self.places.step;
        let params =
            Params::new().address(self.count(Rows::Tokens)).address(step.positions).address(step.places);
        let params = jobs.iter().fold(params, |params, job| self.head_job(params, job));
        let none = |params: Params| [Address::NULL; 5].into_iter().fold(params, Params::address);
        let params = (jobs.len()..MOST_JOBS)
            .fold(params, |params, _| (0..10).fold(none(params), |params, _| params.word(0)));
        let heads = jobs.iter().map(|job| job.x.len / job.dims).sum();
        let shared = jobs.iter().map(|job| job.dims * 4).max().unwrap_or(0);
        let grid = Grid { blocks: [self.size.tokens, heads, 1], threads: 256, shared, cluster: 1 };
        self.launch_grid(Kernel::Heads, grid, params);
    }

    /// The struct `Job` of the kernel.
    fn head_job(&self, params: Params, job: &HeadJob) -> Params {
        let (weight, eps) =
            job.norm.map_or((Address::NULL, 0.0), |(weight, eps)| (self.vector(weight).data, eps));
        let frequencies = |index| self.places.constants.frequencies(index);
        let rope = job.rope.as_ref().map(|(index, heads, rope)| (frequencies(*index), *heads, rope));
        let (frequencies, first, rotary, interleaved, gain) =
            rope.map_or((Address::NULL, 0, 0, 0, 1.0), |rope| {
                let (frequencies, heads, rope) = rope;
                let interleaved = u32::from(rope.pairing == Pairing::Interleaved);
                (frequencies, heads.first, heads.rotary, interleaved, rope.gain)
            });
        let (out, cache) = match job.target {
            Target::Value(val) => (self.value(val), Address::NULL),
            Target::Cache(cache, part) => (Address::NULL, self.places.caches.address(cache, part)),
        };
        let params = params
            .address(self.columns(job.x))
            .address(weight)
            .address(frequencies)
            .address(out)
            .address(cache);
        let params = params.word(job.x.val.cols).word(job.x.len / job.dims).word(job.dims).word(job.x.len);
        params.word(first).word(rotary).word(interleaved).float(eps).float(gain).word(0)
    }

    pub(super) fn attend(&mut self, q: Val, cache: CacheId, shape: &Gqa, out: Val) {
        let Gqa { heads, kv_heads, key_dims, value_dims, scale } = *shape;
        let kernel = Attention {
            group: heads / kv_heads,
            key_dims,
            value_dims,
            cols: [kv_heads * key_dims, kv_heads * value_dims],
            latent: false,
            tile: 0,
        };
        let q = (self.value(q), q.cols);
        let partial = self.attention(kernel, q, cache, (heads, kv_heads, scale));
        let params = self.combine(&partial, out, (Address::NULL, heads, 0));
        self.launch(Kernel::Combine { dims: value_dims }, [1, heads, self.size.tokens], 256, params);
    }

    pub(super) fn attend_mla(&mut self, [q, out]: [Val; 2], cache: CacheId, up: WeightId, shape: &Mla) {
        let Mla { heads, nope, rotary, value, rank, scale } = *shape;
        let (up, rows) = (self.vector(up), self.size.tokens);
        let up_dtype = dtype(up.storage);
        let absorbed_cols = heads * (rank + rotary);
        let absorbed = self.room(rows as usize * absorbed_cols as usize * 4);
        let params = Params::new().address(self.value(q)).address(up.data).address(absorbed);
        let params = params.address(self.count(Rows::Tokens)).word(heads);
        let kernel = Kernel::MlaAbsorb { nope, rotary, value, rank, up: up_dtype };
        self.launch(kernel, [rank.div_ceil(64), heads, rows], 256, params);

        let group = heads.min(LATENT_HEADS);
        let cols = [rank, rotary];
        let kernel =
            Attention { group, key_dims: rank + rotary, value_dims: rank, cols, latent: true, tile: 0 };
        let partial =
            self.attention(kernel, (absorbed, absorbed_cols), cache, (heads, heads.div_ceil(group), scale));
        let params = self.combine(&partial, out, (up.data, heads, nope));
        let kernel = Kernel::CombineLatent { rank, out: value, up: up_dtype };
        self.launch(kernel, [value.div_ceil(OUTPUTS), heads, rows], 256, params);
    }

    fn attention(
        &mut self,
        kernel: Attention,
        (q, q_stride): (Address, u32),
        cache: CacheId,
        (heads, groups, scale): (u32, u32, f32),
    ) -> Partial {
        let kernel = fitting(kernel, self.places.facts.shared);
        let rows = self.size.tokens;
        let tiles = self.places.caches.size.pages * (PAGE_TOKENS / kernel.tile);
        let wanted = 2 * self.places.facts.processors / (rows * groups).max(1);
        let splits = wanted.clamp(1, MOST_SPLITS.min(tiles.max(1)));
        let each = rows as usize * heads as usize * splits as usize * 4;
        let sums = self.room(each * kernel.value_dims as usize);
        let weights = self.room(each * 2);
        let (caches, step) = (self.places.caches, self.places.step);
        let params =
            Params::new().address(q).address(caches.address(cache, 0)).address(caches.address(cache, 1));
        let params = params.address(sums).address(weights).address(self.count(Rows::Tokens));
        let params = params.address(step.lengths).address(step.tables).address(step.pages);
        let params = params.word(q_stride).word(heads).word(splits).float(scale);
        let grid = Grid { blocks: [splits, rows, groups], threads: 256, shared: kernel.shared(), cluster: 1 };
        self.launch_grid(Kernel::Attention(kernel), grid, params);
        Partial { sums, weights, splits, tile: kernel.tile }
    }

    fn combine(&self, partial: &Partial, out: Val, (up, heads, skip): (Address, u32, u32)) -> Params {
        let params = Params::new().address(partial.sums).address(partial.weights).address(self.value(out));
        let params = params.address(up).address(self.count(Rows::Tokens)).address(self.places.step.lengths);
        params.word(heads).word(partial.splits).word(partial.tile).word(skip)
    }
}

/// The kernel with the largest tile that fits shared memory.
pub(crate) fn fitting(kernel: Attention, shared: u32) -> Attention {
    let with = |tile| Attention { tile, ..kernel };
    [64, 32].map(with).into_iter().find(|kernel| kernel.all_shared() <= shared).unwrap_or(with(16))
}
