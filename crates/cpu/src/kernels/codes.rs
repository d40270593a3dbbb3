//! Products with trellis codes, which are decoded on their way into the product.
//!
//! ```text
//! y = H (H (x * suh) . inner) * svh + bias                 H in blocks of 128, see `rotation`
//! ```
//!
//! [`turn`] makes `H (x * suh)` of a row, once for all columns. A task of [`columns`] owns one block of 128
//! output columns for some rows, and so the output's rotation as well. It walks down the 16 input rows of a
//! tile at a time, eight tiles abreast: for one row of x each vector of weights goes from the decoder into
//! two sums; for more, 64 input rows of 16 columns are decoded into a panel, which is then used for all rows.
//! Either way a sum is one chain over ascending input rows.
//!
//! Traffic: 32 K bytes a tile, read once a task, straight from where the file is mapped; 4 bytes times 16 a
//! tile and row of x, and 1 KB of sums for a row, in the first-level cache (for 128 rows, the second).

use exl3::Codebook;
use exl3::hadamard::BLOCK;
use exl3::tile::TILE;

use super::Rows;
use super::products::products;
use super::rotation::{VECTORS, rotate};
use super::tile::{Decoder, HALVES, Mcg, Mul1, ThreeInst, Values};
use crate::simd::{LANES, Simd, math};
use crate::weights::Codes;

/// Tiles below each other in a panel.
const PANEL_TILES: usize = 4;

/// Numbers of a panel.
pub(crate) const PANEL: usize = PANEL_TILES * TILE * TILE;

/// `turned = H (x * suh)` for the blocks of inputs from number `first` on. x may end before, where the layer's
/// true inputs end; zeros follow.
#[inline(always)]
pub(crate) fn turn<S: Simd>(simd: S, codes: &Codes, first: usize, (x, turned): (&[f32], &mut [f32])) {
    for (block, turned) in turned.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let x = x.get(block * BLOCK..).unwrap_or_default();
        let known = x.len().min(BLOCK);
        turned[..known].copy_from_slice(&x[..known]);
        turned[known..].fill(0.0);
        turn_block(simd, codes, first + block, turned);
    }
}

/// `x = H (x * suh)` for block `block` of the inputs.
#[inline(always)]
pub(crate) fn turn_block<S: Simd>(simd: S, codes: &Codes, block: usize, x: &mut [f32; BLOCK]) {
    let x = vectors(x);
    let mut values = math::load(simd, x);
    for (value, scales) in values.iter_mut().zip(scales(&codes.suh, block)) {
        *value = simd.mul(*value, simd.load_f16_bytes(scales));
    }
    math::store(simd, rotate(simd, values), x);
}

/// A block in vectors.
fn vectors(block: &mut [f32; BLOCK]) -> &mut [[f32; LANES]; VECTORS] {
    &mut block.as_chunks_mut().0.as_chunks_mut().0[0]
}

/// The scales of a block, in vectors.
fn scales(all: &[u8], block: usize) -> &[[u8; 2 * LANES]] {
    all[2 * block * BLOCK..].as_chunks().0
}

/// `y` for `rows` rows of turned inputs and the 128 columns of block `block`, padded ones included: `acc` is
/// `[rows, 128]`. `panel` is room for [`PANEL`] numbers.
#[inline(always)]
pub(crate) fn columns<S: Simd>(
    simd: S,
    codes: &Codes,
    (block, rows): (usize, usize),
    turned: Rows<'_>,
    (acc, panel): (&mut [f32], &mut [f32]),
) {
    let acc = &mut acc[..rows * BLOCK];
    acc.fill(0.0);
    match codes.codebook {
        Codebook::ThreeInst => inner::<S, ThreeInst>(simd, codes, block, turned, (acc, panel)),
        Codebook::Mcg => inner::<S, Mcg>(simd, codes, block, turned, (acc, panel)),
        Codebook::Mul1 => inner::<S, Mul1>(simd, codes, block, turned, (acc, panel)),
    }
    for row in acc.as_chunks_mut::<BLOCK>().0 {
        finish(simd, codes, block, row);
    }
}

/// `acc[r] += turned[r] . inner` in the columns of a block, for as many rows as acc has.
#[inline(always)]
fn inner<S: Simd, V: Values>(
    simd: S,
    codes: &Codes,
    block: usize,
    turned: Rows<'_>,
    (acc, panel): (&mut [f32], &mut [f32]),
) {
    let mut decoder = Decoder::new(simd, codes.bits);
    let tiles = turned.cols() / TILE;
    match acc.as_chunks_mut::<BLOCK>().0 {
        [acc] => {
            let x = turned.row(0).as_chunks::<TILE>().0;
            for (a, x) in x.iter().enumerate() {
                for (b, acc) in acc.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
                    one_row::<S, V>(simd, &mut decoder, codes.tile(a, block, b), x, acc);
                }
            }
        }
        acc => {
            let rows = acc.len();
            let acc = acc.as_flattened_mut();
            for first in (0..tiles).step_by(PANEL_TILES) {
                let last = tiles.min(first + PANEL_TILES);
                let x = turned.columns(first * TILE, (last - first) * TILE);
                for b in 0..BLOCK / TILE {
                    for (a, panel) in (first..last).zip(panel.chunks_exact_mut(TILE * TILE)) {
                        decode::<S, V>(simd, &mut decoder, codes.tile(a, block, b), panel);
                    }
                    let w = &panel.as_chunks().0[..x.cols()];
                    products(simd, x, w, &mut acc[b * TILE..], (rows, BLOCK));
                }
            }
        }
    }
}

/// `acc += x . tile`.
#[inline(always)]
fn one_row<S: Simd, V: Values>(
    simd: S,
    decoder: &mut Decoder<S>,
    tile: &[u8],
    x: &[f32; TILE],
    acc: &mut [f32; TILE],
) {
    let acc = &mut acc.as_chunks_mut::<LANES>().0.as_chunks_mut::<HALVES>().0[0];
    let mut sums = math::load(simd, acc);
    decoder.for_each_row::<V>(
        tile,
        #[inline(always)]
        |row, weights| {
            let x = simd.splat(x[row]);
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = simd.mul_add(x, weights, *sum);
            }
        },
    );
    math::store(simd, sums, acc);
}

/// The weights of a tile, row-major.
#[inline(always)]
fn decode<S: Simd, V: Values>(simd: S, decoder: &mut Decoder<S>, tile: &[u8], panel: &mut [f32]) {
    let rows = panel.as_chunks_mut::<LANES>().0.as_chunks_mut::<HALVES>().0;
    let rows = &mut rows[..TILE];
    decoder.for_each_row::<V>(
        tile,
        #[inline(always)]
        |row, weights| {
            for (vector, weights) in rows[row].iter_mut().zip(weights) {
                simd.store(weights, vector);
            }
        },
    );
}

/// `row = H row * svh + bias` in the columns of a block.
#[inline(always)]
fn finish<S: Simd>(simd: S, codes: &Codes, block: usize, row: &mut [f32; BLOCK]) {
    let numbers = vectors(row);
    let mut values = rotate(simd, math::load(simd, numbers));
    for (value, scales) in values.iter_mut().zip(scales(&codes.svh, block)) {
        *value = simd.mul(*value, simd.load_f16_bytes(scales));
    }
    math::store(simd, values, numbers);
    if let Some(bias) = &codes.bias {
        for (value, bias) in row.iter_mut().zip(&bias[block * BLOCK..]) {
            *value += bias;
        }
    }
}
