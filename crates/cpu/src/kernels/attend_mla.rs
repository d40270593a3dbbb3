//! Latent attention over a paged cache, in its absorbed form.
//!
//! With `K` and `V` the rows of one head of the up-projection,
//!
//! ```text
//! l   = K^T q_nope                                          rank numbers
//! l'  = sum_j softmax_j(scale * (l . latent_j + q_rotary . rotary_j)) latent_j
//! out = V l'
//! ```
//!
//! so that latents are never projected up: all heads share one key and one value of `rank` (and `rotary`)
//! numbers. Three phases, each parallel over rows and heads: absorb, attend (see
//! [`attention`](super::attention); up to 8 heads and 32 queries a task), project.
//!
//! Traffic: the up-projection once for every 64 rows, the cached rows once a task.

use exl3::hadamard::BLOCK;
use program::Mla;

use super::attention::{self, Layout, Memory, Places, QUERIES, Sight};
use super::codes::PANEL;
use super::dots::{Bf16, F16, F32, Numbers};
use super::linear;
use super::products::{COLUMNS, pack, products};
use super::{Rows, Work};
use crate::arena::{Blocks, Columns, Cut, for_each_block};
use crate::cache::CachePart;
use crate::pool::Pool;
use crate::simd::{LANES, Simd};
use crate::weights::{Dense, Matrix};

/// Rows of a task that absorbs or projects.
const ROWS: usize = 64;

/// Rows of `K` that are made `f32` at a time.
const PANEL_ROWS: usize = 32;

/// The most heads of a task that attends.
const HEADS: usize = 8;

/// Sizes as the kernel uses them.
#[derive(Clone, Copy)]
struct Sizes {
    heads: usize,
    nope: usize,
    rotary: usize,
    value: usize,
    rank: usize,
    layout: Layout,
}

impl Sizes {
    fn of(shape: &Mla) -> Sizes {
        let [heads, nope, rotary, value, rank] =
            [shape.heads, shape.nope, shape.rotary, shape.value, shape.rank].map(|count| count as usize);
        Sizes { heads, nope, rotary, value, rank, layout: Layout::latent(rank, rotary) }
    }

    /// Numbers of a row of latent queries: all heads, padded.
    fn latents(&self) -> usize {
        self.heads * self.layout.value
    }
}

/// The work space of [`attend_mla`] for up to `rows` rows.
pub(crate) fn work(rows: usize, shape: &Mla) -> Work {
    let sizes = Sizes::of(shape);
    let absorb = (ROWS.min(rows) + PANEL_ROWS) * sizes.layout.value + PANEL_ROWS * COLUMNS;
    let thread = absorb.max(sizes.layout.scratch(QUERIES)).max(linear::task(ROWS.min(rows)));
    Work { shared: rows * sizes.latents(), thread }
}

/// What a step attends with.
#[derive(Clone, Copy)]
pub(crate) struct Attention<'a> {
    pub(crate) shape: &'a Mla,
    /// `[heads * (nope + value), rank]`.
    pub(crate) up: &'a Dense,
    pub(crate) latents: &'a CachePart,
    pub(crate) rotary: &'a CachePart,
    pub(crate) places: Places<'a>,
}

/// Where a step works.
pub(crate) struct Room<'a> {
    /// Room for a number a row and one more.
    pub(crate) bounds: &'a mut Vec<usize>,
    pub(crate) shared: &'a mut [f32],
    pub(crate) scratch: &'a mut [f32],
}

/// Attends from each row of q to the places that it sees.
pub(crate) fn attend_mla<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (q, attention): (&[f32], Attention<'_>),
    out: &mut [f32],
    room: Room<'_>,
) {
    let sizes = Sizes::of(attention.shape);
    let width = sizes.heads * (sizes.nope + sizes.rotary);
    let q = Rows::new(q, width, 0, width);
    let rows = attention.places.places.len();
    let latents = &mut room.shared[..rows * sizes.latents()];
    absorb(simd, pool, (q, attention.up, sizes), (latents, room.scratch));
    attend(simd, pool, (q, attention, sizes), (latents, room.bounds, room.scratch));
    project(simd, pool, (latents, attention.up, sizes), (out, room.scratch));
}

/// `latents[r][head] = K^T q_nope`.
fn absorb<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (q, up, sizes): (Rows<'_>, &Dense, Sizes),
    (latents, scratch): (&mut [f32], &mut [f32]),
) {
    let width = sizes.layout.value;
    let blocks = Blocks::of(latents, Columns::dense(sizes.latents(), width), Cut::Every(ROWS));
    for_each_block(pool, blocks, scratch, |mut block, scratch| {
        let head = block.cols.start / width;
        let rows = block.rows.len();
        let (panel, rest) = scratch.split_at_mut(PANEL_ROWS * width);
        let (packed, rest) = rest.split_at_mut(PANEL_ROWS * COLUMNS);
        let acc = &mut rest[..rows * width];
        let q = q.from(block.rows.start).columns(head * (sizes.nope + sizes.rotary), sizes.nope);
        simd.vectorize(
            #[inline(always)]
            || {
                acc.fill(0.0);
                for first in (0..sizes.nope).step_by(PANEL_ROWS) {
                    let count = PANEL_ROWS.min(sizes.nope - first);
                    for (row, to) in panel.chunks_exact_mut(width).take(count).enumerate() {
                        let (numbers, padding) = to.split_at_mut(sizes.rank);
                        read_row(simd, up, head * (sizes.nope + sizes.value) + first + row, numbers);
                        padding.fill(0.0);
                    }
                    let (k, q) = (Rows::new(panel, width, 0, width), q.columns(first, count));
                    for column in (0..width).step_by(COLUMNS) {
                        let packed = &mut packed.as_chunks_mut().0[..count];
                        pack(k, column, packed);
                        products(simd, q, packed, &mut acc[column..], (rows, width));
                    }
                }
            },
        );
        for (row, acc) in acc.chunks_exact(width).enumerate() {
            block.row(row).copy_from_slice(acc);
        }
    });
}

/// `latents[r][head]` becomes the attention's result for the query that it was.
fn attend<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (q, attention, sizes): (Rows<'_>, Attention<'_>, Sizes),
    (latents, bounds, scratch): (&mut [f32], &mut Vec<usize>, &mut [f32]),
) {
    let Attention { shape, latents: cached, rotary, places, .. } = attention;
    let layout = sizes.layout;
    let width = layout.value;
    let heads = heads_of_a_task(&sizes, places.places.len(), pool.threads());
    attention::cut(places.step, QUERIES / heads, bounds);
    let blocks = Blocks::of(latents, Columns::dense(sizes.latents(), heads * width), Cut::At(bounds));
    for_each_block(pool, blocks, scratch, |mut block, scratch| {
        let (first_head, heads) = (block.cols.start / width, block.cols.len() / width);
        let count = block.rows.len() * heads;
        let first_row = block.rows.start;
        let mut memory = Memory::new(scratch, &layout, count);
        for (row, queries) in memory.queries.chunks_exact_mut(heads * layout.key).enumerate() {
            let q = q.row(first_row + row).chunks_exact(sizes.nope + sizes.rotary).skip(first_head);
            let parts = block.row(row).chunks_exact(width).zip(q);
            for (query, (latent, q)) in queries.chunks_exact_mut(layout.key).zip(parts) {
                let scaled = latent.iter().chain(&q[sizes.nope..]).map(|number| number * shape.scale);
                query.iter_mut().zip(scaled).for_each(|(to, number)| *to = number);
            }
        }
        let pages = places.pages(first_row);
        let sight = Sight { first: places.visible(first_row), heads };
        attention::attend(simd, &layout, &mut memory, sight, |page, rows, out| {
            let (rows, stride) = ((pages[page], rows), layout.stride);
            cached.read(simd, rows, (0, sizes.rank), (out, stride));
            rotary.read(simd, rows, (0, sizes.rotary), (&mut out[width..], stride));
        });
        for (row, results) in memory.results.chunks_exact(heads * width).enumerate() {
            block.row(row).copy_from_slice(results);
        }
    });
}

/// Heads of a task: up to eight, and with few rows so many that all threads have equally much to do.
fn heads_of_a_task(sizes: &Sizes, rows: usize, threads: usize) -> usize {
    let tasks = sizes.heads.div_ceil(HEADS);
    let tasks = if rows < threads { tasks.next_multiple_of(threads).min(sizes.heads) } else { tasks };
    sizes.heads.div_ceil(tasks)
}

/// `out[r][head] = V latents[r][head]`.
fn project<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (latents, up, sizes): (&[f32], &Dense, Sizes),
    (out, scratch): (&mut [f32], &mut [f32]),
) {
    let latents = Rows::new(latents, sizes.latents(), 0, sizes.latents());
    let columns = Columns::dense(sizes.heads * sizes.value, sizes.value);
    let blocks = Blocks::of(out, columns, Cut::Every(ROWS));
    for_each_block(pool, blocks, scratch, |mut block, scratch| {
        let head = block.cols.start / sizes.value;
        let first_row_of_v = head * (sizes.nope + sizes.value) + sizes.nope;
        let x = latents.from(block.rows.start).columns(head * sizes.layout.value, sizes.rank);
        let rows = block.rows.len();
        let (panel, acc) = scratch.split_at_mut(PANEL);
        for first in (0..sizes.value).step_by(BLOCK) {
            let count = BLOCK.min(sizes.value - first);
            let start = first_row_of_v + first;
            linear::columns(simd, Matrix::Dense(up), (start..start + count, rows), x, (acc, panel));
            for (row, acc) in (0..rows).zip(acc.chunks_exact(BLOCK)) {
                block.row(row)[first..first + count].copy_from_slice(&acc[..count]);
            }
        }
    });
}

/// A row of a plain matrix as `f32`.
#[inline(always)]
fn read_row<S: Simd>(simd: S, dense: &Dense, row: usize, out: &mut [f32]) {
    let bytes = dense.inputs * dense.dtype.bytes();
    let row = &dense.data[row * bytes..][..bytes];
    match dense.dtype {
        program::Dtype::F32 => read_numbers::<S, F32>(simd, row, out),
        program::Dtype::F16 => read_numbers::<S, F16>(simd, row, out),
        program::Dtype::Bf16 => read_numbers::<S, Bf16>(simd, row, out),
    }
}

#[inline(always)]
fn read_numbers<S: Simd, N: Numbers<Unit = u8>>(simd: S, row: &[u8], out: &mut [f32]) {
    let (vectors, rest) = N::vectors(row);
    let (whole, last) = out.as_chunks_mut::<LANES>();
    for (vector, out) in vectors.iter().zip(whole) {
        simd.store(N::load(simd, vector), out);
    }
    last.copy_from_slice(&rest[..last.len()]);
}
