//! A page of cached keys and values in the form that products need: panels of `f32`.
//!
//! Traffic: what the format takes is read once, 4 bytes a number are written to the second-level cache.

use std::mem;
use std::ops::Range;

use super::attention::PAGE;
use super::panels::WIDTH;
use crate::simd::{LANES, Simd};

/// Where keys and values lie in the rows of a page; they may overlap.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// Numbers of a row.
    pub(crate) stride: usize,
    /// Numbers of a key, from the first one of a row on.
    pub(crate) key: usize,
    /// Where the value begins.
    pub(crate) value_start: usize,
    /// Numbers of a value, padded to whole panels.
    pub(crate) value: usize,
}

impl Layout {
    /// Keys and values of a head, one after the other.
    pub(crate) fn side_by_side(key: usize, value: usize) -> Layout {
        let (start, value) = (key.next_multiple_of(LANES), value.next_multiple_of(WIDTH));
        Layout { stride: start + value, key, value_start: start, value }
    }

    /// A latent that is the value and, with a rotary part behind it, the key.
    pub(crate) fn latent(rank: usize, rotary: usize) -> Layout {
        let value = rank.next_multiple_of(WIDTH);
        let key = value + rotary.next_multiple_of(LANES);
        Layout { stride: key, key, value_start: 0, value }
    }

    /// Rows of a panel of keys: the numbers of a key, in whole vectors.
    pub(super) fn key_rows(&self) -> usize {
        self.key.next_multiple_of(LANES)
    }
}

/// Numbers that [`take`] takes for `len`.
pub(crate) const fn room(len: usize) -> usize {
    len.next_multiple_of(16)
}

/// The first `len` numbers of scratch memory; what is left begins at a cache line if it did before.
pub(crate) fn take<'a>(scratch: &mut &'a mut [f32], len: usize) -> &'a mut [f32] {
    let (first, rest) = mem::take(scratch).split_at_mut(room(len));
    *scratch = rest;
    &mut first[..len]
}

/// The rows of a page in the form that products need.
pub(crate) struct Page<'a> {
    /// A vector's worth of rows, as they are read.
    rows: &'a mut [f32],
    /// Keys: panels of 32 places, a row of a panel being one number of all keys.
    pub(crate) keys: &'a mut [f32],
    /// Values: panels of 32 columns, a row of a panel being one place.
    pub(crate) values: &'a mut [f32],
}

impl<'a> Page<'a> {
    /// Numbers of a page, with its values or without.
    pub(crate) fn scratch(layout: &Layout, values: bool) -> usize {
        let values = if values { room(PAGE * layout.value) } else { 0 };
        room(LANES * layout.stride) + room(PAGE * layout.key_rows()) + values
    }

    /// A page in scratch memory, with its values or without.
    pub(crate) fn take(scratch: &mut &'a mut [f32], layout: &Layout, values: bool) -> Page<'a> {
        let rows = take(scratch, LANES * layout.stride);
        // Columns that nobody reads into are padding, and stay zero.
        rows.fill(0.0);
        let keys = take(scratch, PAGE * layout.key_rows());
        let values = if values { take(scratch, PAGE * layout.value) } else { Default::default() };
        Page { rows, keys, values }
    }

    /// Reads the first `count` rows: `read(rows, out)` gives some of them, [`Layout::stride`] apart. Places
    /// behind the last row hold anything.
    pub(crate) fn read<S: Simd>(
        &mut self,
        simd: S,
        layout: &Layout,
        count: usize,
        read: impl Fn(Range<usize>, &mut [f32]),
    ) {
        for first in (0..count).step_by(LANES) {
            read(first..count.min(first + LANES), self.rows);
            self.arrange(simd, layout, first);
        }
    }

    /// Puts the rows read last, of which the first has place `first`, into the panels.
    #[inline(never)]
    fn arrange<S: Simd>(&mut self, simd: S, layout: &Layout, first: usize) {
        simd.vectorize(
            #[inline(always)]
            || {
                let panel = first / WIDTH * layout.key_rows() * WIDTH + first % WIDTH;
                for dim in (0..layout.key_rows()).step_by(LANES) {
                    transpose(
                        simd,
                        (&self.rows[dim..], layout.stride),
                        (&mut self.keys[panel + dim * WIDTH..], WIDTH),
                    );
                }
                for (column, panel) in self.values.chunks_exact_mut(PAGE * WIDTH).enumerate() {
                    let places = panel[first * WIDTH..].chunks_exact_mut(WIDTH);
                    for (row, to) in self.rows.chunks_exact(layout.stride).zip(places) {
                        to.copy_from_slice(&row[layout.value_start + column * WIDTH..][..WIDTH]);
                    }
                }
            },
        );
    }

    /// The keys for queries of as many numbers.
    pub(super) fn all_keys(&self, layout: &Layout) -> Keys<'_> {
        Keys { panels: self.keys, rows: layout.key_rows(), first: 0 }
    }
}

/// `to[j][i] = from[i][j]` for eight rows of each, given with their strides.
#[inline(always)]
pub(crate) fn transpose<S: Simd>(
    simd: S,
    (from, from_stride): (&[f32], usize),
    (to, to_stride): (&mut [f32], usize),
) {
    let mut rows = [simd.splat(0.0); LANES];
    for (row, from) in rows.iter_mut().zip(from.chunks(from_stride)) {
        *row = simd.load(&from.as_chunks().0[0]);
    }
    for (column, to) in simd.transpose(rows).into_iter().zip(to.chunks_mut(to_stride)) {
        simd.store(column, &mut to.as_chunks_mut().0[0]);
    }
}

/// Some numbers of all keys of a page: panels of 32 places.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) panels: &'a [f32],
    /// Rows of a panel.
    pub(crate) rows: usize,
    /// The row with the first of the numbers.
    pub(crate) first: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::levels;

    #[test]
    fn a_transposed_block_has_rows_for_columns() {
        let from: Vec<f32> = (0..LANES * 11).map(|at| at as f32).collect();
        levels!(|simd| {
            let mut to = [-1.0; LANES * 9];
            simd.vectorize(
                #[inline(always)]
                || transpose(simd, (&from[2..], 11), (&mut to, 9)),
            );
            for (at, number) in to.into_iter().enumerate() {
                let (row, col) = (at / 9, at % 9);
                assert_eq!(number, if col < LANES { (col * 11 + row + 2) as f32 } else { -1.0 });
            }
        });
    }
}
