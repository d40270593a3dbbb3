//! Latent attention in which the query takes the up-projection in:
//!
//! ```text
//! l   = K^T q_nope                                          rank numbers
//! l'  = sum_j softmax_j(scale * (l . latent_j + q_rotary . rotary_j)) latent_j
//! out = V l'
//! ```
//!
//! All heads share one key and one value of `rank` (and `rotary`) numbers.
//!
//! Traffic of a task: its heads of the up-projection once, the cached rows once for 32 queries.

use std::ops::Range;

use super::attend_mla::{Attention, Sizes};
use super::attention::{self, Memory, Sight};
use super::page::{room, take};
use super::panels::{WIDTH, multiply};
use super::{Rows, dense};
use crate::arena::Block;
use crate::simd::Simd;
use crate::weights::Dense;

/// Rows of a task: what `K` and `V` are read once for.
pub(crate) const ROWS: usize = 32;

/// Queries that attend together, unless one row has more.
const QUERIES: usize = 32;

/// Rows of `K` that are panels at a time.
const PIECE: usize = 32;

/// Numbers that a task of so many rows and heads works in.
pub(crate) fn scratch(sizes: &Sizes, rows: usize, heads: usize) -> usize {
    let width = sizes.layout.value;
    let queries = QUERIES.max(heads).min(rows * heads);
    room(rows * heads * width)
        + room(PIECE * width).max(attention::scratch(&sizes.layout, queries)).max(rows * sizes.value)
}

/// Computes the rows and heads of a block.
pub(crate) fn attend<S: Simd>(
    simd: S,
    (q, attention, sizes): (Rows<'_>, Attention<'_>, Sizes),
    mut block: Block<'_>,
    mut scratch: &mut [f32],
) {
    let width = sizes.layout.value;
    let (rows, first_row) = (block.rows.len(), block.rows.start);
    let first_head = block.cols.start / sizes.value;
    let heads = block.cols.len() / sizes.value;
    let q = q.from(first_row).columns(first_head * sizes.query(), heads * sizes.query());
    // A row of every head, one head after the other.
    let latents = take(&mut scratch, rows * heads * width);
    for (head, latents) in latents.chunks_exact_mut(rows * width).enumerate() {
        let k = (first_head + head) * sizes.up()..(first_head + head) * sizes.up() + sizes.nope;
        let q = q.columns(head * sizes.query(), sizes.nope);
        absorb(simd, (attention.up, k), (q, rows), (latents, width), scratch);
    }
    let mut row = 0;
    while row < rows {
        let sequence = attention.places.sequences[first_row + row];
        let same = (row..rows).take((QUERIES / heads).max(1));
        let same = same.take_while(|row| attention.places.sequences[first_row + row] == sequence);
        let past = row + same.count();
        let of_sequence = (q, attention, sizes, first_row);
        attend_rows(simd, of_sequence, (row..past, heads), (latents, rows), scratch);
        row = past;
    }
    let result = &mut scratch[..rows * sizes.value];
    for (head, latents) in latents.chunks_exact(rows * width).enumerate() {
        let first = (first_head + head) * sizes.up() + sizes.nope;
        let x = Rows::new(latents, width, 0, sizes.rank);
        dense::columns(simd, attention.up, (first..first + sizes.value, rows), x, (result, sizes.value));
        for (row, result) in result.chunks_exact(sizes.value).enumerate() {
            block.row(row)[head * sizes.value..][..sizes.value].copy_from_slice(result);
        }
    }
}

/// `latents[r] = K^T q[r]` for one head; rows of `latents` are `width` long, padded by zeros.
#[inline(never)]
fn absorb<S: Simd>(
    simd: S,
    (up, k): (&Dense, Range<usize>),
    (q, rows): (Rows<'_>, usize),
    (latents, width): (&mut [f32], usize),
    scratch: &mut [f32],
) {
    simd.vectorize(
        #[inline(always)]
        || {
            latents.fill(0.0);
            if rows == 1 {
                // The same sums in the same order, without a copy of K.
                dense::add_rows(simd, up, k, q.row(0), latents);
                return;
            }
            let panels = &mut scratch[..PIECE * width];
            panels.fill(0.0);
            for first in k.clone().step_by(PIECE) {
                let piece = first..k.end.min(first + PIECE);
                let place = |row, column| (column / WIDTH * PIECE + row) * WIDTH + column % WIDTH;
                dense::read_rows(simd, up, piece.clone(), panels, place);
                let q = q.columns(first - k.start, piece.len());
                for (column, panel) in panels.chunks_exact(PIECE * WIDTH).enumerate() {
                    multiply(simd, q, panel, &mut latents[column * WIDTH..], (rows, width));
                }
            }
        },
    );
}

/// Attends for some rows of one sequence: their latents become the results. `q` and `latents` begin at row
/// `first_row` of the step and at the first head of the task, which has `all` rows.
fn attend_rows<S: Simd>(
    simd: S,
    (q, attention, sizes, first_row): (Rows<'_>, Attention<'_>, Sizes, usize),
    (rows, heads): (Range<usize>, usize),
    (latents, all): (&mut [f32], usize),
    scratch: &mut [f32],
) {
    let Attention { shape, latents: cached, rotary, places, .. } = attention;
    let layout = sizes.layout;
    let width = layout.value;
    let mut memory = Memory::new(scratch, &layout, rows.len() * heads);
    for (index, query) in memory.queries.chunks_exact_mut(layout.key).enumerate() {
        let (row, head) = (rows.start + index / heads, index % heads);
        let (latent, turned) = query.split_at_mut(width);
        latent.copy_from_slice(&latents[(head * all + row) * width..][..width]);
        turned[..sizes.rotary]
            .copy_from_slice(&q.row(row)[head * sizes.query() + sizes.nope..][..sizes.rotary]);
    }
    let pages = places.pages(first_row + rows.start);
    let sight = Sight { first: places.visible(first_row + rows.start), heads };
    attention::attend(simd, &layout, &mut memory, (sight, shape.scale), |page, rows, out| {
        cached.read(simd, (pages[page], rows.clone()), (0, sizes.rank), (out, layout.stride));
        rotary.read(simd, (pages[page], rows), (0, sizes.rotary), (&mut out[width..], layout.stride));
    });
    for (index, result) in memory.results().chunks_exact(width).enumerate() {
        let (row, head) = (rows.start + index / heads, index % heads);
        latents[(head * all + row) * width..][..width].copy_from_slice(result);
    }
}
