//! Latent attention with keys and values of its own for each head, made a page at a time:
//!
//! ```text
//! [k_j, v_j] = [K latent_j, V latent_j]
//! out = sum_j softmax_j(scale * (q_nope . k_j + q_rotary . rotary_j)) v_j
//! ```
//!
//! A task has some rows of one sequence and one head after the other. The up-projection of a page is one
//! product of the head's rows of `K` and `V`, made `f32` some at a time, with the panels of the page's
//! latents; its result has keys as panels already, and values after a transposition.
//!
//! Traffic of a head: its part of the up-projection and the cached rows once for 512 rows; what the rows
//! have summed so far (1 KB a row of 256 dims) once a page.

use super::Rows;
use super::attend_mla::{Attention, Sizes};
use super::attention::{PAGE, Sight, State, visit};
use super::dense;
use super::page::{Keys, Page, room, take, transpose};
use super::panels::{WIDTH, multiply};
use crate::arena::Block;
use crate::simd::{LANES, Simd};
use crate::weights::Dense;

/// Rows of a task: what a page is expanded once for.
pub(crate) const ROWS: usize = 512;

/// Rows that meet a page together, so that their queries and sums stay in the second-level cache.
const AT_ONCE: usize = 64;

/// Rows of the up-projection that are `f32` at a time.
const CHUNK: usize = 24;

/// Numbers of a latent that are multiplied at a time: 16 KB of a panel.
const PIECE: usize = 128;

/// Panels of a page.
const PANELS: usize = PAGE / WIDTH;

/// Rows of a panel of expanded keys and, behind them, values, these padded to whole panels.
fn expanded_rows(sizes: &Sizes) -> usize {
    sizes.nope + sizes.value.next_multiple_of(WIDTH)
}

/// Numbers that a task of so many rows works in.
pub(crate) fn scratch(sizes: &Sizes, rows: usize) -> usize {
    let value = sizes.value.next_multiple_of(WIDTH);
    Page::scratch(&sizes.layout, false)
        + room(CHUNK * sizes.rank.next_multiple_of(LANES))
        + room(PAGE * expanded_rows(sizes))
        + room(PAGE * value)
        + State::scratch(rows, AT_ONCE.min(rows), value)
}

/// Computes the rows and heads of a block, whose rows are of one sequence.
pub(crate) fn attend<S: Simd>(
    simd: S,
    (q, attention, sizes): (Rows<'_>, Attention<'_>, Sizes),
    mut block: Block<'_>,
    scratch: &mut [f32],
) {
    let first_head = block.cols.start / sizes.value;
    let q = q.from(block.rows.start);
    for head in 0..block.cols.len() / sizes.value {
        let results = attend_head(simd, (q, attention, sizes), (first_head + head, &block), scratch);
        let value = results.len() / block.rows.len();
        for (row, result) in results.chunks_exact(value).enumerate() {
            block.row(row)[head * sizes.value..][..sizes.value].copy_from_slice(&result[..sizes.value]);
        }
    }
}

/// The results of one head for the rows of a block, in scratch memory.
fn attend_head<'a, S: Simd>(
    simd: S,
    (q, attention, sizes): (Rows<'_>, Attention<'_>, Sizes),
    (head, block): (usize, &Block<'_>),
    mut scratch: &'a mut [f32],
) -> &'a [f32] {
    let Attention { shape, up, latents, rotary, places, .. } = attention;
    let (layout, rows) = (sizes.layout, block.rows.len());
    let value = sizes.value.next_multiple_of(WIDTH);
    let mut page = Page::take(&mut scratch, &layout, false);
    let chunk = take(&mut scratch, CHUNK * sizes.rank.next_multiple_of(LANES));
    let expanded = take(&mut scratch, PAGE * expanded_rows(&sizes));
    let values = take(&mut scratch, PAGE * value);
    let mut state = State::take(&mut scratch, (rows, AT_ONCE.min(rows)), value);
    let nope = q.columns(head * sizes.query(), sizes.nope);
    let turned = q.columns(head * sizes.query() + sizes.nope, sizes.rotary);
    let pages = places.pages(block.rows.start);
    let sight = Sight { first: places.visible(block.rows.start), heads: 1 };
    let longest = sight.of(rows - 1);
    for start in (0..longest).step_by(PAGE) {
        let count = (longest - start).min(PAGE);
        page.read(simd, &layout, count, |rows, out| {
            let page = pages[start / PAGE];
            latents.read(simd, (page, rows.clone()), (0, sizes.rank), (out, layout.stride));
            rotary.read(simd, (page, rows), (0, sizes.rotary), (&mut out[layout.value..], layout.stride));
        });
        let latent = Keys { panels: page.keys, rows: layout.key, first: 0 };
        expand(simd, (up, head, sizes), latent, (&mut *expanded, &mut *chunk, &mut *values));
        let keys = Keys { panels: expanded, rows: expanded_rows(&sizes), first: 0 };
        let rotary_keys = Keys { first: layout.value, ..latent };
        // Rows that end before the page do not see it.
        let first = (start + 1).saturating_sub(sight.first) / AT_ONCE * AT_ONCE;
        for first in (first..rows).step_by(AT_ONCE) {
            let some = first..rows.min(first + AT_ONCE);
            let parts = [(nope.from(first), keys), (turned.from(first), rotary_keys)];
            let sight = Sight { first: sight.of(first), heads: 1 };
            visit(simd, (&parts, values, shape.scale), &mut state.of(some), sight, (start, count));
        }
    }
    state.finish();
    state.results
}

/// Makes keys and values of one head from the panels of a page's latents.
#[inline(never)]
fn expand<S: Simd>(
    simd: S,
    (up, head, sizes): (&Dense, usize, Sizes),
    latents: Keys<'_>,
    (expanded, chunk, values): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let all = expanded_rows(&sizes);
    let chunk_stride = sizes.rank.next_multiple_of(LANES);
    simd.vectorize(
        #[inline(always)]
        || {
            expanded.fill(0.0);
            for first in (0..sizes.up()).step_by(CHUNK) {
                let count = CHUNK.min(sizes.up() - first);
                let rows = head * sizes.up() + first..head * sizes.up() + first + count;
                dense::read_rows(simd, up, rows, chunk, |row, column| row * chunk_stride + column);
                for panel in 0..PANELS {
                    let latents = &latents.panels[panel * latents.rows * WIDTH..];
                    let result = &mut expanded[(panel * all + first) * WIDTH..];
                    for start in (0..sizes.rank).step_by(PIECE) {
                        let len = PIECE.min(sizes.rank - start);
                        let x = Rows::new(chunk, chunk_stride, start, len);
                        multiply(simd, x, &latents[start * WIDTH..], result, (count, WIDTH));
                    }
                }
            }
            for panel in 0..PANELS {
                let from = &expanded[(panel * all + sizes.nope) * WIDTH..];
                for (column, to) in values.chunks_exact_mut(PAGE * WIDTH).enumerate() {
                    for dim in (0..WIDTH).step_by(LANES) {
                        for place in (0..WIDTH).step_by(LANES) {
                            let from = &from[(column * WIDTH + dim) * WIDTH + place..];
                            let to = &mut to[(panel * WIDTH + place) * WIDTH + dim..];
                            transpose(simd, (from, WIDTH), (to, WIDTH));
                        }
                    }
                }
            }
        },
    );
}
