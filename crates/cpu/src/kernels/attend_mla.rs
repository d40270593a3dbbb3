//! Latent attention over a paged cache.
//!
//! `key_j = [K latent_j, rotary_j]`, `value_j = V latent_j` with `K` and `V` the rows of one head of the
//! up-projection. There are two ways: [`absorbed`], in which latents are never projected up, and
//! [`expanded`], in which they are. Each sequence takes the one that has less to multiply: many rows over
//! few places are better off with keys and values of their own heads. The ways round differently, so that a
//! device that must be deterministic takes the first one alone.
//!
//! One phase: a task has some heads of some rows, of several sequences in the first way and of one in the
//! second, and does for them all that there is to do.

use program::{Mla, Sequence};

use super::attention::Places;
use super::page::Layout;
use super::{Rows, Work, absorbed, expanded};
use crate::arena::{Blocks, Columns, Cut, for_each_block};
use crate::cache::CachePart;
use crate::pool::Pool;
use crate::simd::Simd;
use crate::weights::Dense;

/// The fewest rows of a sequence that are worth expanding a page for.
const FEWEST_EXPANDED: usize = 32;

/// Heads of a task, of the absorbed way: the most whose queries fit the second-level cache beside a page.
const HEADS: usize = 10;

/// Sizes as the kernels use them.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) heads: usize,
    pub(crate) nope: usize,
    pub(crate) rotary: usize,
    pub(crate) value: usize,
    pub(crate) rank: usize,
    pub(crate) layout: Layout,
}

impl Sizes {
    fn of(shape: &Mla) -> Sizes {
        let [heads, nope, rotary, value, rank] =
            [shape.heads, shape.nope, shape.rotary, shape.value, shape.rank].map(|count| count as usize);
        Sizes { heads, nope, rotary, value, rank, layout: Layout::latent(rank, rotary) }
    }

    /// Numbers of a query head.
    pub(crate) fn query(&self) -> usize {
        self.nope + self.rotary
    }

    /// The rows of the up-projection that make keys and values of a head: the keys' come first.
    pub(crate) fn up(&self) -> usize {
        self.nope + self.value
    }

    /// Whether expanding takes fewer multiplications for so many rows that end a sequence of so many places.
    fn expand(&self, rows: usize, places: usize) -> bool {
        // Absorbed, a row goes through the up-projection, and meets key and value of a latent's width at each
        // place; expanded, each place goes through it, and a row meets key and value of a head's width.
        let projection = self.up() * self.rank;
        let absorbed = rows * (projection + places * (2 * self.rank + self.rotary));
        let expanded = places * projection + rows * places * (self.query() + self.value);
        rows >= FEWEST_EXPANDED && expanded < absorbed
    }
}

/// The work space of [`attend_mla`] for up to `rows` rows.
pub(crate) fn work(rows: usize, shape: &Mla, deterministic: bool) -> Work {
    let sizes = Sizes::of(shape);
    // With few rows there may be fewer tasks, of more heads; two threads have half of them each.
    let absorbed = absorbed::scratch(&sizes, rows.min(absorbed::ROWS), HEADS.min(sizes.heads))
        .max(absorbed::scratch(&sizes, 1, sizes.heads));
    let expanded = match rows >= FEWEST_EXPANDED && !deterministic {
        true => expanded::scratch(&sizes, rows.min(expanded::ROWS)),
        false => 0,
    };
    Work { shared: 0, thread: absorbed.max(expanded) }
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
    /// Whether all sequences take the absorbed way.
    pub(crate) deterministic: bool,
}

/// Where a step works.
pub(crate) struct Room<'a> {
    /// Room for a number a row and one more.
    pub(crate) bounds: &'a mut Vec<usize>,
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
    let width = sizes.heads * sizes.query();
    let q = Rows::new(q, width, 0, width);
    let expands = |sequence: &Sequence| {
        let rows = sequence.rows.len();
        !attention.deterministic && sizes.expand(rows, sequence.cached as usize + rows)
    };
    let sequences = attention.places.step.sequences;
    cut(sequences, expands, room.bounds);
    let heads = match sequences.iter().any(expands) {
        true => 1,
        false => heads_of_a_task(&sizes, room.bounds.len() - 1, pool.threads()),
    };
    let columns = Columns::dense(sizes.heads * sizes.value, heads * sizes.value);
    let blocks = Blocks::of(out, columns, Cut::At(room.bounds));
    for_each_block(pool, blocks, room.scratch, |block, scratch| {
        let sequence = attention.places.sequences[block.rows.start];
        if expands(&sequences[sequence as usize]) {
            expanded::attend(simd, (q, attention, sizes), block, scratch);
        } else {
            absorbed::attend(simd, (q, attention, sizes), block, scratch);
        }
    });
}

/// Cuts the rows of a step into runs: of one sequence each where it is expanded, of several if not.
fn cut(sequences: &[Sequence], expands: impl Fn(&Sequence) -> bool, bounds: &mut Vec<usize>) {
    bounds.clear();
    // Where the run under way ends at the latest.
    let mut end = 0;
    for sequence in sequences {
        let rows = sequence.rows.start as usize..sequence.rows.end as usize;
        if expands(sequence) {
            bounds.extend(rows.clone().step_by(expanded::ROWS));
            end = rows.end;
        } else {
            for row in rows {
                if row >= end {
                    bounds.push(row);
                    end = row + absorbed::ROWS;
                }
            }
        }
    }
    bounds.push(sequences.last().map_or(0, |last| last.rows.end as usize));
}

/// Heads of a task: up to ten, and so many that all threads have equally much to do if there is little.
fn heads_of_a_task(sizes: &Sizes, runs: usize, threads: usize) -> usize {
    if runs == 1 {
        let tasks = sizes.heads.div_ceil(HEADS).next_multiple_of(threads).min(sizes.heads);
        return sizes.heads.div_ceil(tasks);
    }
    sizes.heads.min(HEADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GLM-4.7-Flash.
    const SHAPE: Mla = Mla { heads: 20, nope: 192, rotary: 64, value: 256, rank: 512, scale: 1.0 };

    #[test]
    fn prompts_are_expanded_and_few_rows_over_a_long_past_are_not() {
        let sizes = Sizes::of(&SHAPE);
        assert!(sizes.expand(512, 512) && sizes.expand(32, 32) && sizes.expand(512, 8192));
        assert!(!sizes.expand(31, 31) && !sizes.expand(1, 1) && !sizes.expand(64, 512));
    }

    #[test]
    fn runs_have_one_sequence_where_it_is_expanded_and_share_where_not() {
        let of = |rows: std::ops::Range<u32>| Sequence { rows, cached: 0, pages: 0..0, slot: 0 };
        let sequences = [of(0..2), of(2..20), of(20..700), of(700..701), of(701..740)];
        let mut bounds = Vec::new();
        cut(&sequences, |sequence| sequence.rows.len() > 100, &mut bounds);
        assert_eq!(bounds, [0, 20, 20 + expanded::ROWS, 700, 700 + absorbed::ROWS, 740]);
        cut(&sequences[..2], |_| false, &mut bounds);
        assert_eq!(bounds, [0, 20]);
    }

    #[test]
    fn one_run_is_divided_among_all_threads() {
        let sizes = Sizes::of(&SHAPE);
        assert_eq!([1, 2, 4, 64].map(|threads| heads_of_a_task(&sizes, 1, threads)), [10, 10, 5, 1]);
    }
}
