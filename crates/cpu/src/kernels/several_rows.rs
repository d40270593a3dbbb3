//! Several rows times codes in whole numbers: `y[r][n] = sum over k of x[r][k] w[k][n]`.
//!
//! A *panel*, the weights of 256 inputs and 32 outputs, is decoded to numbers of 16 bits, lane for lane as
//! in [`super::one_row`], and used for all rows: a group of up to six rows and sixteen columns has its sums
//! in twelve registers, and each step adds two products a lane to each. The sums of a panel are exact, and
//! those of all panels are added up as for one row, so that the bits of a row are the same here and there.
//!
//! Traffic: each code once, the panel (16 KB, first-level cache) once for each group of rows; 512 bytes of
//! inputs a row and panel, read once for eight groups of columns; 512 bytes of sums a row and panel, which
//! for 256 rows stay in the second-level cache.

use std::ops::Range;

use super::Rows;
use super::inputs::{Integers, TILES};
use super::one_row::{Lanes, SUMS};
use super::tile::{PAIRS, QUARTERS, states};
use super::values::Values;
use crate::simd::{LANES, Simd};
use crate::weights::Codes;

/// Columns of tiles in a panel.
pub(crate) const COLUMNS: usize = 2;

/// Rows of a group.
const GROUP: usize = 6;

/// Numbers of a cache line, and the lines of a record that are asked for; the rest comes by itself.
const LINE: usize = 16;
const LINES: usize = 8;

/// The pairs of one quarter of a tile: of the two halves of its columns, the upper and the lower inputs.
pub(crate) type Quarter = [[f32; LANES]; PAIRS];

/// A column of tiles, quarter by quarter.
pub(crate) type Column = [[Quarter; TILES]; QUARTERS];

/// Numbers of a panel.
pub(crate) const PANEL: usize = COLUMNS * QUARTERS * TILES * PAIRS * LANES;

/// Decodes the columns of tiles `columns` in the tile rows `rows` into a panel.
pub(crate) fn decode<S: Simd, V: Values, const HALF_BITS: u8>(
    simd: S,
    codes: &Codes,
    (rows, columns): (Range<usize>, Range<usize>),
    panel: &mut [f32],
) {
    simd.vectorize(
        #[inline(always)]
        || {
            for (column, panel) in columns.zip(panel.as_chunks_mut::<{ PANEL / COLUMNS }>().0) {
                let [first, second, third, fourth] = column_mut(panel);
                let mut down = codes.down::<HALF_BITS>(rows.start, column);
                for at in 0..rows.len().min(TILES) {
                    // The same place of the next panel.
                    down.ask(simd, 0, TILES);
                    let tile = down.tile();
                    quarter::<S, V, HALF_BITS, 0>(simd, tile, &mut first[at]);
                    quarter::<S, V, HALF_BITS, 1>(simd, tile, &mut second[at]);
                    quarter::<S, V, HALF_BITS, 2>(simd, tile, &mut third[at]);
                    quarter::<S, V, HALF_BITS, 3>(simd, tile, &mut fourth[at]);
                }
            }
        },
    );
}

#[inline(always)]
fn quarter<S: Simd, V: Values, const HALF_BITS: u8, const QUARTER: usize>(
    simd: S,
    tile: &[u8],
    to: &mut Quarter,
) {
    let weights = V::integers(simd, states::<S, HALF_BITS, QUARTER>(simd, tile));
    for (weights, to) in weights.into_iter().zip(to) {
        simd.store(simd.bits_as_f32(weights), to);
    }
}

/// `lanes[c][r] += x[r] . w` for the columns of tiles of a panel with `tiles` tile rows, for as many rows as
/// `lanes` has; `x` is one record of each.
///
/// Compiled once for all codebooks and widths.
#[inline(never)]
pub(crate) fn products<S: Simd>(
    simd: S,
    (panel, tiles): (&[f32], usize),
    x: Rows<'_>,
    [first, second]: [&mut [Lanes]; COLUMNS],
) {
    simd.vectorize(
        #[inline(always)]
        || {
            for row in (0..first.len()).step_by(GROUP) {
                let x = x.from(row);
                for (lanes, panel) in [&mut *first, &mut *second].into_iter().zip(panel.as_chunks().0) {
                    let (quarters, lanes) = (column(panel), &mut lanes[row..]);
                    match lanes.len() {
                        1 => rows_of::<S, 1>(simd, quarters, (x, tiles), lanes),
                        2 => rows_of::<S, 2>(simd, quarters, (x, tiles), lanes),
                        3 => rows_of::<S, 3>(simd, quarters, (x, tiles), lanes),
                        4 => rows_of::<S, 4>(simd, quarters, (x, tiles), lanes),
                        5 => rows_of::<S, 5>(simd, quarters, (x, tiles), lanes),
                        _ => rows_of::<S, GROUP>(simd, quarters, (x, tiles), lanes),
                    }
                }
            }
        },
    );
}

/// The first `R` rows; those after them are asked for from memory meanwhile.
#[inline(always)]
fn rows_of<S: Simd, const R: usize>(
    simd: S,
    quarters: &Column,
    (x, tiles): (Rows<'_>, usize),
    lanes: &mut [Lanes],
) {
    let (lanes, later) = lanes.split_at_mut(R);
    let later = &later[..later.len().min(R)];
    let record = |r: usize| Integers::of(x.row(r).first_chunk().expect("a row of x is a record"));
    let mut records = [record(0); R];
    for (r, to) in records.iter_mut().enumerate() {
        *to = record(r);
    }
    for (index, quarter) in quarters.iter().enumerate() {
        let mut sums = [[simd.splat_u32(0); 2]; R];
        for (sums, x) in sums.iter_mut().zip(&records) {
            *sums = [simd.f32_as_bits(simd.load_twice(x.start)); 2];
        }
        for (r, lanes) in later.iter().enumerate() {
            simd.prefetch(&lanes[2 * index]);
            let x = x.row(R + r);
            for line in 0..LINES / QUARTERS {
                simd.prefetch(&x[(LINES / QUARTERS * index + line) * LINE..]);
            }
        }
        for (at, weights) in quarter.iter().enumerate().take(tiles) {
            for part in 0..2 {
                let upper = simd.f32_as_bits(simd.load(&weights[part]));
                let lower = simd.f32_as_bits(simd.load(&weights[2 + part]));
                for (sums, x) in sums.iter_mut().zip(&records) {
                    let x = simd.f32_as_bits(simd.load_twice(&x.pairs[2 * at + 1 - part]));
                    sums[0] = simd.dot_16(sums[0], upper, x);
                    sums[1] = simd.dot_16(sums[1], lower, x);
                }
            }
        }
        for ((lanes, sums), x) in lanes.iter_mut().zip(sums).zip(&records) {
            for (lanes, sum) in lanes[2 * index..].iter_mut().zip(sums) {
                let sum = simd.mul_add(simd.to_f32(sum), simd.splat(x.scale), simd.load(lanes));
                simd.store(sum, lanes);
            }
        }
    }
}

fn column(numbers: &[f32; PANEL / COLUMNS]) -> &Column {
    let quarters = numbers.as_chunks::<LANES>().0.as_chunks::<PAIRS>().0.as_chunks::<TILES>().0;
    &quarters.as_chunks().0[0]
}

/// A column of tiles of a panel.
pub(crate) fn column_mut(numbers: &mut [f32; PANEL / COLUMNS]) -> &mut Column {
    let vectors = numbers.as_chunks_mut::<LANES>().0.as_chunks_mut::<PAIRS>().0;
    &mut vectors.as_chunks_mut::<TILES>().0.as_chunks_mut().0[0]
}

const _: () = assert!(SUMS == 2 * QUARTERS);
