//! Grouped-query attention over a paged cache.
//!
//! `out = sum_j softmax_j(scale * q . key_j) value_j`. A task has the query heads of one key head, for some
//! rows of one sequence: 128 queries, if there are as many. See [`attention`](super::attention).

use program::Gqa;

use super::attention::{self, Memory, Places, Sight};
use super::page::Layout;
use super::{Rows, Work};
use crate::arena::{Blocks, Columns, Cut, for_each_block};
use crate::cache::CachePart;
use crate::pool::Pool;
use crate::simd::Simd;

/// Queries of a task, unless one key head has more.
const QUERIES: usize = 128;

/// How the queries of a step are divided: query heads and rows of a task.
#[derive(Clone, Copy)]
struct Division {
    heads: usize,
    rows: usize,
}

impl Division {
    fn of(shape: &Gqa) -> Division {
        let group = (shape.heads / shape.kv_heads) as usize;
        // All heads of a task have the same key head, so that their number divides the group.
        let heads = (1..=group.min(QUERIES)).rev().find(|heads| group.is_multiple_of(*heads)).unwrap_or(1);
        Division { heads, rows: QUERIES / heads }
    }
}

fn layout(shape: &Gqa) -> Layout {
    Layout::side_by_side(shape.key_dims as usize, shape.value_dims as usize)
}

/// The work space of [`attend`] for up to `rows` rows.
pub(crate) fn work(rows: usize, shape: &Gqa) -> Work {
    let division = Division::of(shape);
    Work { shared: 0, thread: attention::scratch(&layout(shape), division.rows.min(rows) * division.heads) }
}

/// Attends from each row of q to the places that it sees. `bounds` is room for a number a row and one more.
pub(crate) fn attend<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (q, shape, places): (&[f32], &Gqa, Places<'_>),
    (keys, values): (&CachePart, &CachePart),
    (out, bounds, scratch): (&mut [f32], &mut Vec<usize>, &mut [f32]),
) {
    let (layout, division) = (layout(shape), Division::of(shape));
    let [heads, kv_heads, key_dims, value_dims] =
        [shape.heads, shape.kv_heads, shape.key_dims, shape.value_dims].map(|count| count as usize);
    attention::cut(places.step, division.rows, bounds);
    let q = Rows::new(q, heads * key_dims, 0, heads * key_dims);
    let blocks =
        Blocks::of(out, Columns::dense(heads * value_dims, division.heads * value_dims), Cut::At(bounds));
    for_each_block(pool, blocks, scratch, |mut block, scratch| {
        let first_head = block.cols.start / value_dims;
        let kv_head = first_head / (heads / kv_heads);
        let count = block.rows.len() * division.heads;
        let mut memory = Memory::new(scratch, &layout, count);
        for (query, to) in memory.queries.chunks_exact_mut(layout.key).enumerate() {
            let head = first_head + query % division.heads;
            let from = &q.row(block.rows.start + query / division.heads)[head * key_dims..][..key_dims];
            to.copy_from_slice(from);
        }
        let pages = places.pages(block.rows.start);
        let sight = Sight { first: places.visible(block.rows.start), heads: division.heads };
        attention::attend(simd, &layout, &mut memory, (sight, shape.scale), |page, rows, out| {
            let page = pages[page];
            keys.read(simd, (page, rows.clone()), (kv_head * key_dims, key_dims), (out, layout.stride));
            let out = &mut out[layout.value_start..];
            values.read(simd, (page, rows), (kv_head * value_dims, value_dims), (out, layout.stride));
        });
        for row in 0..block.rows.len() {
            let out = block.row(row).chunks_exact_mut(value_dims);
            let results = memory.results()[row * division.heads * layout.value..].chunks_exact(layout.value);
            for (out, results) in out.zip(results) {
                out.copy_from_slice(&results[..value_dims]);
            }
        }
    });
}
