//! Softmax attention over pages, for queries that share keys and values.
//!
//! ```text
//! s_j = scale q . key_j      o = sum_j exp(s_j - m) value_j / sum_j exp(s_j - m)      m = max_j s_j
//! ```
//!
//! A task has some queries (heads of some rows of one sequence) and walks the sequence's pages of 64 from the
//! first one on. A page is read from the cache once for all queries and becomes panels of `f32` ([`Page`]);
//! then come the scores, the exponentials relative to the largest score so far (what was summed before is
//! scaled when that grows), and the weighted values. Both products are those of [`panels`](super::panels). A
//! query sees a prefix of the places; what it computes depends on the length of that prefix alone, not on the
//! other queries or on what lies behind.
//!
//! Traffic: the cached rows once a task; a page, the queries and their sums stay in the second-level cache
//! (450 KB for 32 queries of a latent of 512 + 64, 130 KB for 128 of 64 dims).

use std::ops::Range;

use program::{PAGE_TOKENS, PageId, Step};

use super::Rows;
use super::page::{Keys, Layout, Page, room, take};
use super::panels::{WIDTH, multiply};
use crate::simd::{LANES, Simd, math};

/// Places of a page.
pub(crate) const PAGE: usize = PAGE_TOKENS as usize;

/// Panels of the keys of a page.
const PANELS: usize = PAGE / WIDTH;

/// What some queries have summed so far.
pub(crate) struct State<'a> {
    /// `[queries, 64]`: those of the page under way.
    scores: &'a mut [f32],
    /// `[queries, value]`.
    pub(crate) results: &'a mut [f32],
    value: usize,
    best: &'a mut [f32],
    total: &'a mut [f32],
}

impl<'a> State<'a> {
    /// Numbers of the state of `queries` queries that are visited up to `at_once` at a time.
    pub(crate) fn scratch(queries: usize, at_once: usize, value: usize) -> usize {
        room(at_once * PAGE) + room(queries * value) + 2 * room(queries)
    }

    /// The state of queries that have seen nothing, in scratch memory.
    pub(crate) fn take(
        scratch: &mut &'a mut [f32],
        (queries, at_once): (usize, usize),
        value: usize,
    ) -> State<'a> {
        let state = State {
            scores: take(scratch, at_once * PAGE),
            results: take(scratch, queries * value),
            value,
            best: take(scratch, queries),
            total: take(scratch, queries),
        };
        state.results.fill(0.0);
        state.best.fill(f32::NEG_INFINITY);
        state.total.fill(0.0);
        state
    }

    /// That of some of the queries.
    pub(crate) fn of(&mut self, queries: Range<usize>) -> State<'_> {
        State {
            scores: &mut self.scores[..queries.len() * PAGE],
            results: &mut self.results[queries.start * self.value..queries.end * self.value],
            value: self.value,
            best: &mut self.best[queries.clone()],
            total: &mut self.total[queries],
        }
    }

    /// Divides what was summed by the sum of the weights: the results.
    pub(crate) fn finish(&mut self) {
        for (results, total) in self.results.chunks_exact_mut(self.value).zip(&*self.total) {
            let factor = 1.0 / total;
            results.iter_mut().for_each(|value| *value *= factor);
        }
    }
}

/// A task's memory.
pub(crate) struct Memory<'a> {
    page: Page<'a>,
    /// `[queries, key]`: filled in by the caller.
    pub(crate) queries: &'a mut [f32],
    state: State<'a>,
}

impl<'a> Memory<'a> {
    /// Divides scratch memory; queries begin as zeros, so that padding is zero.
    pub(crate) fn new(mut scratch: &'a mut [f32], layout: &Layout, queries: usize) -> Memory<'a> {
        let page = Page::take(&mut scratch, layout, true);
        let state = State::take(&mut scratch, (queries, queries), layout.value);
        let queries = take(&mut scratch, queries * layout.key);
        queries.fill(0.0);
        Memory { page, queries, state }
    }

    /// `[queries, value]`, after [`attend`].
    pub(crate) fn results(&self) -> &[f32] {
        self.state.results
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
    /// How many places a query sees.
    pub(crate) fn of(self, query: usize) -> usize {
        self.first + query / self.heads
    }

    /// How many places a query sees of the page that begins at place `start`.
    fn in_page(self, query: usize, start: usize) -> usize {
        self.of(query).saturating_sub(start).min(PAGE)
    }
}

/// Numbers that a task of so many queries works in.
pub(crate) fn scratch(layout: &Layout, queries: usize) -> usize {
    Page::scratch(layout, true) + room(queries * layout.key) + State::scratch(queries, queries, layout.value)
}

/// Computes the results of the queries in `memory`. `read(page, rows, out)` reads some rows of a page of the
/// sequence, [`Layout::stride`] apart.
pub(crate) fn attend<S: Simd>(
    simd: S,
    layout: &Layout,
    memory: &mut Memory<'_>,
    (sight, scale): (Sight, f32),
    read: impl Fn(usize, Range<usize>, &mut [f32]),
) {
    let Memory { page, queries, state } = memory;
    let count = state.best.len();
    let longest = sight.of(count - 1);
    let queries = Rows::new(queries, layout.key, 0, layout.key);
    for start in (0..longest).step_by(PAGE) {
        let rows = (longest - start).min(PAGE);
        page.read(simd, layout, rows, |rows, out| read(start / PAGE, rows, out));
        let keys = [(queries, page.all_keys(layout))];
        visit(simd, (&keys, page.values, scale), &mut state.of(0..count), sight, (start, rows));
    }
    state.finish();
}

/// Adds the first `rows` rows of the page that begins at place `start` to what the queries have summed. A
/// query is made of parts, each of which meets some numbers of the keys.
///
/// Compiled once for all operations that attend.
#[inline(never)]
pub(crate) fn visit<S: Simd>(
    simd: S,
    (keys, values, scale): (&[(Rows<'_>, Keys<'_>)], &[f32], f32),
    state: &mut State<'_>,
    sight: Sight,
    (start, rows): (usize, usize),
) {
    simd.vectorize(
        #[inline(always)]
        || {
            let count = state.best.len();
            let first = (0..count).find(|query| sight.in_page(*query, start) > 0).unwrap_or(count);
            state.scores[first * PAGE..].fill(0.0);
            for panel in 0..rows.div_ceil(WIDTH).min(PANELS) {
                for (queries, keys) in keys {
                    let panel_of_keys = &keys.panels[(panel * keys.rows + keys.first) * WIDTH..];
                    let scores = &mut state.scores[first * PAGE + panel * WIDTH..];
                    if first < count {
                        multiply(simd, queries.from(first), panel_of_keys, scores, (count - first, PAGE));
                    }
                }
            }
            for query in first..count {
                softmax(simd, state, (query, scale), sight.in_page(query, start));
            }
            for (column, panel) in values.chunks_exact(PAGE * WIDTH).enumerate() {
                weigh(simd, state, (first..count, column), panel, |query| sight.in_page(query, start));
            }
        },
    );
}

/// Queries whose weights are multiplied together.
const TOGETHER: usize = 3;

/// `results += weights . values` for 32 columns of the values; query q has `seen(q)` weights, and not fewer
/// than the one before it.
#[inline(always)]
fn weigh<S: Simd>(
    simd: S,
    state: &mut State<'_>,
    (queries, column): (Range<usize>, usize),
    panel: &[f32],
    seen: impl Fn(usize) -> usize,
) {
    let value = state.value;
    let mut query = queries.start;
    while query < queries.end {
        // What all see comes first, and together; then what single ones see beyond that.
        let common = seen(query);
        let all = seen(queries.end - 1) == common;
        let past = if all { queries.end } else { queries.end.min(query + TOGETHER) };
        let weights =
            |from: usize, to: usize, query: usize| Rows::new(state.scores, PAGE, from, to - from).from(query);
        let results = &mut state.results[query * value + column * WIDTH..];
        multiply(simd, weights(0, common, query), panel, results, (past - query, value));
        for query in query..past {
            let own = seen(query);
            if own > common {
                let results = &mut state.results[query * value + column * WIDTH..];
                multiply(simd, weights(common, own, query), &panel[common * WIDTH..], results, (1, value));
            }
        }
        query = past;
    }
}

/// Turns the first `seen` scores of a query in this page into weights, and scales what it has summed before.
#[inline(always)]
fn softmax<S: Simd>(simd: S, state: &mut State<'_>, (query, scale): (usize, f32), seen: usize) {
    let scores = &mut state.scores[query * PAGE..][..PAGE];
    scores[seen..].fill(f32::NEG_INFINITY);
    let vectors = scores.as_chunks_mut::<LANES>().0;
    let before = state.best[query];
    let mut largest = simd.splat(before);
    for vector in &mut *vectors {
        let scaled = simd.mul(simd.load(vector), simd.splat(scale));
        simd.store(scaled, vector);
        largest = simd.max(largest, scaled);
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
    let factor = if best == before { 1.0 } else { (before - best).exp() };
    state.total[query] = state.total[query] * factor + math::sum(simd, sum);
    state.best[query] = best;
    if factor != 1.0 {
        scale_all(simd, &mut state.results[query * state.value..][..state.value], factor);
    }
}

#[inline(always)]
fn scale_all<S: Simd>(simd: S, values: &mut [f32], factor: f32) {
    for vector in values.as_chunks_mut().0 {
        simd.store(simd.mul(simd.load(vector), simd.splat(factor)), vector);
    }
}
