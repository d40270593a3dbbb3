//! Softmax attention over pages, for queries that share keys and values.
//!
//! ```text
//! s_j = q . key_j        o = sum_j exp(s_j - m) value_j / sum_j exp(s_j - m)        m = max_j s_j
//! ```
//!
//! A task has some queries (heads of some rows of one sequence) and walks the sequence's pages of 64 from the
//! first one on. A page is read from the cache once for all queries and becomes `f32`; then come the scores
//! ([`dots`]), the exponentials relative to the largest score so far (what was summed before is scaled when
//! that grows), and the weighted values ([`products`]). A query sees a prefix of the places; what it computes
//! depends on the length of that prefix alone, not on the other queries or on what lies behind.
//!
//! Traffic: the cached rows once a task; a page, the queries and their sums stay in the second-level cache
//! (300 KB for 32 queries of a latent of 512 + 64).

use program::{PAGE_TOKENS, PageId, Step};

use super::Rows;
use super::dots::{Own, Weights, dots};
use super::products::{COLUMNS, pack, products};
use crate::simd::{LANES, Simd, math};

/// Places of a page.
pub(crate) const PAGE: usize = PAGE_TOKENS as usize;

/// Queries of a task, unless one key head has more.
pub(crate) const QUERIES: usize = 32;

/// Where keys and values lie in the rows of a page; they may overlap.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// Numbers of a row.
    pub(crate) stride: usize,
    /// Numbers of a key, from the first one of a row on.
    pub(crate) key: usize,
    /// Where the value begins.
    pub(crate) value_start: usize,
    /// Numbers of a value, padded to a multiple of [`COLUMNS`].
    pub(crate) value: usize,
}

impl Layout {
    /// Keys and values of a head, one after the other.
    pub(crate) fn side_by_side(key: usize, value: usize) -> Layout {
        let (start, value) = (key.next_multiple_of(LANES), value.next_multiple_of(COLUMNS));
        Layout { stride: start + value, key: start, value_start: start, value }
    }

    /// A latent that is the value and, with a rotary part behind it, the key.
    pub(crate) fn latent(rank: usize, rotary: usize) -> Layout {
        let value = rank.next_multiple_of(COLUMNS);
        let key = value + rotary.next_multiple_of(LANES);
        Layout { stride: key, key, value_start: 0, value }
    }

    /// Numbers that a task of so many queries works in.
    pub(crate) fn scratch(&self, queries: usize) -> usize {
        PAGE * (self.stride + COLUMNS) + queries * (self.key + PAGE + self.value + 2)
    }
}

/// A task's memory.
pub(crate) struct Memory<'a> {
    page: &'a mut [f32],
    /// Some columns of the page's values.
    panel: &'a mut [f32],
    /// `[queries, key]`: the queries, already scaled, filled in by the caller.
    pub(crate) queries: &'a mut [f32],
    scores: &'a mut [f32],
    /// `[queries, value]`: the results.
    pub(crate) results: &'a mut [f32],
    best: &'a mut [f32],
    total: &'a mut [f32],
}

impl<'a> Memory<'a> {
    /// Divides scratch memory; queries and pages begin as zeros, so that padding is zero.
    pub(crate) fn new(scratch: &'a mut [f32], layout: &Layout, queries: usize) -> Memory<'a> {
        let (page, rest) = scratch.split_at_mut(PAGE * layout.stride);
        let (panel, rest) = rest.split_at_mut(PAGE * COLUMNS);
        let (query, rest) = rest.split_at_mut(queries * layout.key);
        let (scores, rest) = rest.split_at_mut(queries * PAGE);
        let (results, rest) = rest.split_at_mut(queries * layout.value);
        let (best, rest) = rest.split_at_mut(queries);
        let total = &mut rest[..queries];
        page.fill(0.0);
        query.fill(0.0);
        results.fill(0.0);
        best.fill(f32::NEG_INFINITY);
        total.fill(0.0);
        Memory { page, panel, queries: query, scores, results, best, total }
    }
}

/// The rows of a step as attention sees them.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) step: &'a Step<'a>,
    /// The place of each row in its sequence.
    pub(crate) places: &'a [u32],
    /// The sequence of each row.
    pub(crate) sequences: &'a [u32],
}

impl<'a> Places<'a> {
    /// How many places row `row` sees.
    pub(crate) fn visible(&self, row: usize) -> usize {
        self.places[row] as usize + 1
    }

    /// The page table of row `row`.
    pub(crate) fn pages(&self, row: usize) -> &'a [PageId] {
        let sequence = &self.step.sequences[self.sequences[row] as usize];
        &self.step.pages[sequence.pages.start as usize..sequence.pages.end as usize]
    }
}

/// Cuts the rows of each sequence into runs of up to `len`: the first row of each, and the number of rows.
pub(crate) fn cut(step: &Step<'_>, len: usize, bounds: &mut Vec<usize>) {
    bounds.clear();
    for sequence in step.sequences {
        bounds.extend((sequence.rows.start as usize..sequence.rows.end as usize).step_by(len));
    }
    bounds.push(step.tokens.len());
}

/// How far the queries of a task see: those of its first row some places, those of each row after it one more.
#[derive(Clone, Copy)]
pub(crate) struct Sight {
    /// Places that the first row sees.
    pub(crate) first: usize,
    /// Queries of a row.
    pub(crate) heads: usize,
}

impl Sight {
    fn of(self, query: usize) -> usize {
        self.first + query / self.heads
    }

    /// How many places a query sees of the page that begins at place `start`.
    fn in_page(self, query: usize, start: usize) -> usize {
        self.of(query).saturating_sub(start).min(PAGE)
    }
}

/// Computes the results of the queries in `memory`. `read(page, rows, out)` reads the first rows of a page of
/// the sequence, [`Layout::stride`] apart.
pub(crate) fn attend<S: Simd>(
    simd: S,
    layout: &Layout,
    memory: &mut Memory<'_>,
    sight: Sight,
    read: impl Fn(usize, usize, &mut [f32]),
) {
    let longest = sight.of(memory.best.len() - 1);
    for start in (0..longest).step_by(PAGE) {
        let rows = (longest - start).min(PAGE);
        read(start / PAGE, rows, memory.page);
        visit(simd, layout, memory, sight, (start, rows));
    }
    for (results, total) in memory.results.chunks_exact_mut(layout.value).zip(&*memory.total) {
        let factor = 1.0 / total;
        results.iter_mut().for_each(|value| *value *= factor);
    }
}

/// Adds the first `rows` rows of the page that begins at place `start` to what the queries have summed.
///
/// Compiled once for all operations that attend.
#[inline(never)]
fn visit<S: Simd>(
    simd: S,
    layout: &Layout,
    memory: &mut Memory<'_>,
    sight: Sight,
    (start, rows): (usize, usize),
) {
    simd.vectorize(
        #[inline(always)]
        || {
            let count = memory.best.len();
            let first = (0..count).find(|query| sight.in_page(*query, start) > 0).unwrap_or(count);
            score(simd, layout, memory, (first, rows));
            for query in first..count {
                softmax(simd, layout, memory, query, sight.in_page(query, start));
            }
            let values = Rows::new(memory.page, layout.stride, layout.value_start, layout.value);
            for column in (0..layout.value).step_by(COLUMNS) {
                let panel = &mut memory.panel.as_chunks_mut().0[..rows];
                pack(values, column, panel);
                // Queries that see equally much of the page, together.
                let mut query = first;
                while query < count {
                    let seen = sight.in_page(query, start);
                    let differs = |other: &usize| sight.in_page(*other, start) != seen;
                    let past = (query..count).find(differs).unwrap_or(count);
                    let weights = Rows::new(memory.scores, PAGE, 0, seen).from(query);
                    let results = &mut memory.results[query * layout.value + column..];
                    products(simd, weights, &panel[..seen], results, (past - query, layout.value));
                    query = past;
                }
            }
        },
    );
}

/// The products of the queries from number `first` on with the first `rows` keys of the page.
#[inline(always)]
fn score<S: Simd>(simd: S, layout: &Layout, memory: &mut Memory<'_>, (first, rows): (usize, usize)) {
    let count = memory.best.len() - first;
    let keys = Weights::<Own> { data: memory.page, stride: layout.stride, units: layout.key };
    let queries = Rows::new(memory.queries, layout.key, 0, layout.key).from(first);
    let scores = &mut memory.scores[first * PAGE..];
    dots(
        simd,
        queries,
        &keys,
        (count, rows),
        #[inline(always)]
        |query, place, sums| {
            scores[query * PAGE + place..][..sums.len()].copy_from_slice(&sums);
        },
    );
}

/// Turns the `seen` scores of a query in this page into weights, and scales what it has summed before.
#[inline(always)]
fn softmax<S: Simd>(simd: S, layout: &Layout, memory: &mut Memory<'_>, query: usize, seen: usize) {
    let scores = &mut memory.scores[query * PAGE..][..PAGE];
    scores[seen..].fill(f32::NEG_INFINITY);
    let vectors = scores.as_chunks_mut::<LANES>().0;
    let mut largest = simd.splat(memory.best[query]);
    for vector in &*vectors {
        largest = simd.max(largest, simd.load(vector));
    }
    let best = simd.largest(largest);
    let mut sum = simd.splat(0.0);
    for (index, vector) in vectors.iter_mut().enumerate() {
        let weights = math::exp(simd, simd.sub(simd.load(vector), simd.splat(best)));
        simd.store(weights, vector);
        if let Some(hidden) = vector.get_mut(seen.saturating_sub(index * LANES)..) {
            hidden.fill(0.0);
        }
        sum = simd.add(sum, simd.load(vector));
    }
    let factor = (memory.best[query] - best).exp();
    memory.total[query] = memory.total[query] * factor + math::sum(simd, sum);
    memory.best[query] = best;
    if factor != 1.0 {
        scale(simd, &mut memory.results[query * layout.value..][..layout.value], factor);
    }
}

#[inline(always)]
fn scale<S: Simd>(simd: S, values: &mut [f32], factor: f32) {
    for vector in values.as_chunks_mut().0 {
        simd.store(simd.mul(simd.load(vector), simd.splat(factor)), vector);
    }
}
