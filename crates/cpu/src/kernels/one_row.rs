//! One row times codes: `y[n] = sum over k of x[k] w[k][n]`.
//!
//! Down eight tiles, one column of tiles after the other: sums stay in eight vectors (two output columns times
//! four q each, see [`super::tile`]), and are put aside from one eight tiles to the next. Sums of integers are
//! added to `f32` ones once a record. No lane of a sum meets another before the end, so that the inputs are
//! loaded in the order in which they are arranged and nothing is shuffled.
//!
//! Traffic: each code once; 512 bytes of sums and 256 bytes (integers) or 512 bytes of inputs for eight tiles,
//! in the first-level cache. Tiles are asked for from memory four columns ahead. More than eight tiles below
//! each other would often lie in the same set of that cache, which has eight ways.

use std::ops::Range;

use exl3::tile::TILE;

use super::inputs::{Integers, RECORD, SPREAD, TILES};
use super::tile::{QUARTERS, states};
use super::values::{Mul1, Values};
use crate::simd::{LANES, Simd, math};
use crate::weights::{Codes, Down};

/// Sums of a column of tiles: of each quarter for the columns n + 8, then for the columns n.
pub(crate) const SUMS: usize = 2 * QUARTERS;

/// The lanes of the sums of one column of tiles.
pub(crate) type Lanes = [[f32; LANES]; SUMS];

/// Tiles below each other in a pass over the columns.
const PASS: usize = TILES / 2;

/// Columns of tiles from a tile to the one that is asked for.
const AHEAD: usize = 4;

/// `lanes += x . w` in whole numbers, for the columns of tiles `columns` of a map with mul1; `aside` is room
/// for as many sums.
pub(crate) fn integers<S: Simd, const HALF_BITS: u8>(
    simd: S,
    codes: &Codes,
    columns: Range<usize>,
    x: &[[f32; RECORD]],
    (lanes, aside): (&mut [Lanes], &mut [Lanes]),
) {
    simd.vectorize(
        #[inline(always)]
        || {
            for (record, x) in x.iter().enumerate() {
                let x = Integers::of(x);
                let start = simd.f32_as_bits(simd.load_twice(x.start));
                let tiles = TILES.min(codes.tile_rows() - record * TILES);
                let passes = x.pairs[..2 * tiles].chunks(2 * PASS);
                for (pass, pairs) in passes.enumerate() {
                    let first = record * TILES + pass * PASS;
                    for (column, aside) in columns.clone().zip(aside.iter_mut()) {
                        let mut sums = [start; SUMS];
                        if pass > 0 {
                            for (sum, aside) in sums.iter_mut().zip(&*aside) {
                                *sum = simd.f32_as_bits(simd.load(aside));
                            }
                        }
                        let down = codes.down(first, column);
                        column_of_integers::<S, HALF_BITS>(simd, down, pairs, &mut sums);
                        for (sum, aside) in sums.iter().zip(aside) {
                            simd.store(simd.bits_as_f32(*sum), aside);
                        }
                    }
                }
                let scale = simd.splat(x.scale);
                for (sum, lanes) in aside.as_flattened().iter().zip(lanes.as_flattened_mut()) {
                    let sum = simd.to_f32(simd.f32_as_bits(simd.load(sum)));
                    simd.store(simd.mul_add(sum, scale, simd.load(lanes)), lanes);
                }
            }
        },
    );
}

/// `sums += x . w` for a column of tiles, two groups of pairs a tile.
#[inline(always)]
fn column_of_integers<S: Simd, const HALF_BITS: u8>(
    simd: S,
    mut down: Down<'_, HALF_BITS>,
    pairs: &[[f32; SPREAD]],
    sums: &mut [S::U32; SUMS],
) {
    for x in pairs.as_chunks::<2>().0 {
        down.ask(simd, AHEAD, 0);
        let tile = down.tile();
        let x = [simd.f32_as_bits(simd.load_twice(&x[1])), simd.f32_as_bits(simd.load_twice(&x[0]))];
        quarter_of_integers::<S, HALF_BITS, 0>(simd, tile, x, sums);
        quarter_of_integers::<S, HALF_BITS, 1>(simd, tile, x, sums);
        quarter_of_integers::<S, HALF_BITS, 2>(simd, tile, x, sums);
        quarter_of_integers::<S, HALF_BITS, 3>(simd, tile, x, sums);
    }
}

#[inline(always)]
fn quarter_of_integers<S: Simd, const HALF_BITS: u8, const QUARTER: usize>(
    simd: S,
    tile: &[u8],
    x: [S::U32; 2],
    sums: &mut [S::U32; SUMS],
) {
    let weights = Mul1::integers(simd, states::<S, HALF_BITS, QUARTER>(simd, tile));
    for (pair, weights) in weights.into_iter().enumerate() {
        let sum = &mut sums[2 * QUARTER + pair / 2];
        *sum = simd.dot_16(*sum, weights, x[pair % 2]);
    }
}

/// `lanes += x . w` in `f32`, for the columns of tiles `columns`.
pub(crate) fn floats<S: Simd, V: Values, const HALF_BITS: u8>(
    simd: S,
    codes: &Codes,
    columns: Range<usize>,
    x: &[[f32; RECORD]],
    (lanes, _): (&mut [Lanes], &mut [Lanes]),
) {
    simd.vectorize(
        #[inline(always)]
        || {
            let tiles = &x.as_flattened()[..codes.tile_rows() * TILE];
            for (pass, x) in tiles.chunks(PASS * TILE).enumerate() {
                for (column, lanes) in columns.clone().zip(lanes.iter_mut()) {
                    let down = codes.down(pass * PASS, column);
                    column_of_floats::<S, V, HALF_BITS>(simd, down, x, lanes);
                }
            }
        },
    );
}

/// `lanes += x . w` for a column of tiles, sixteen inputs a tile.
#[inline(always)]
fn column_of_floats<S: Simd, V: Values, const HALF_BITS: u8>(
    simd: S,
    mut down: Down<'_, HALF_BITS>,
    x: &[f32],
    lanes: &mut Lanes,
) {
    let mut sums = math::load(simd, lanes);
    for x in x.as_chunks::<SPREAD>().0.as_chunks::<4>().0 {
        down.ask(simd, AHEAD, 0);
        let tile = down.tile();
        quarter_of_floats::<S, V, HALF_BITS, 0>(simd, tile, x, &mut sums);
        quarter_of_floats::<S, V, HALF_BITS, 1>(simd, tile, x, &mut sums);
        quarter_of_floats::<S, V, HALF_BITS, 2>(simd, tile, x, &mut sums);
        quarter_of_floats::<S, V, HALF_BITS, 3>(simd, tile, x, &mut sums);
    }
    math::store(simd, sums, lanes);
}

#[inline(always)]
fn quarter_of_floats<S: Simd, V: Values, const HALF_BITS: u8, const QUARTER: usize>(
    simd: S,
    tile: &[u8],
    x: &[[f32; SPREAD]; 4],
    sums: &mut [S::F32; SUMS],
) {
    let states = states::<S, HALF_BITS, QUARTER>(simd, tile);
    // Two vectors at a time keep the units busy and fit into the registers.
    for (half, states) in states.as_chunks::<2>().0.iter().enumerate() {
        let [odd, even] = V::floats(simd, *states);
        let sum = &mut sums[2 * QUARTER + half];
        for (pair, x) in x.as_chunks::<2>().0.iter().enumerate() {
            *sum = simd.mul_add(odd[pair], simd.load_twice(&x[0]), *sum);
            *sum = simd.mul_add(even[pair], simd.load_twice(&x[1]), *sum);
        }
    }
}
