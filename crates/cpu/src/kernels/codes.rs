//! Products with trellis codes, which are decoded on their way into the product.
//!
//! ```text
//! y = H (H (x * suh) . inner) * svh + bias                 H in blocks of 128, see `rotation`
//! ```
//!
//! [`turn`](super::inputs::turn) makes `H (x * suh)` of a row, once for all columns, and arranges it. A task
//! of [`columns`] owns some blocks of 128 output columns for some rows, and so the output's rotation as well.
//!
//! | rows | numbers | way |
//! |---|---|---|
//! | one, mul1 | integers | [`one_row`](super::one_row) |
//! | one, 3inst and mcg | `f32` | [`one_row`](super::one_row) |
//! | more | integers | [`several_rows`](super::several_rows) |
//!
//! Sums of integers are exact and begin anew with each record of 256 inputs; sums of `f32` run over
//! ascending inputs, each q (see [`super::tile`]) by itself. Either way the four q are added in the end.

use std::ops::Range;

use exl3::Codebook;
use exl3::hadamard::BLOCK;
use exl3::tile::TILE;

use super::Rows;
use super::inputs::{Form, RECORD, SPREAD, TILES};
use super::one_row::{self, Lanes, SUMS};
use super::plain;
use super::rotation::{VECTORS, rotate};
use super::several_rows::{self, PANEL};
use super::tile::{QUARTERS, with_width};
use super::values::{Mcg, Mul1, ThreeInst};
use crate::simd::{LANES, Simd, math};
use crate::weights::Codes;

/// Columns of tiles in a block of columns.
const COLUMNS: usize = BLOCK / TILE;

/// Numbers that a task of [`columns`] needs besides its results, for `rows` rows and `width` columns.
pub(crate) const fn scratch(rows: usize, width: usize) -> usize {
    let panel = PANEL + rows * several_rows::COLUMNS * LANES * SUMS;
    let one_row = 2 * width * SPREAD;
    if panel > one_row { panel } else { one_row }
}

/// `acc[r][n] = y[r][n]` for `rows` rows of arranged inputs and the blocks of 128 columns `blocks`, padded
/// columns included; rows of `acc` are `stride` apart. `room` has [`scratch`] numbers.
pub(crate) fn columns<S: Simd>(
    simd: S,
    (codes, form): (&Codes, Form),
    (blocks, rows): (Range<usize>, usize),
    x: Rows<'_>,
    (acc, stride, room): (&mut [f32], usize, &mut [f32]),
) {
    let task = Task { simd, codes, blocks: blocks.clone(), rows, x, stride };
    if form == Form::Floats || rows == 1 && codes.codebook == Codebook::Mul1 && !S::PLAIN {
        task.one_by_one(one_row(codes, form), acc, room);
    } else {
        task.by_panels(decoder(codes), acc, room);
    }
    simd.vectorize(
        #[inline(always)]
        || {
            for row in acc.chunks_mut(stride).take(rows) {
                for (block, row) in blocks.clone().zip(row.as_chunks_mut::<BLOCK>().0) {
                    finish(simd, codes, block, row);
                }
            }
        },
    );
}

/// The way to multiply one row with some columns of tiles, compiled for a codebook and a width.
type OneRow<S> = fn(S, &Codes, Range<usize>, &[[f32; RECORD]], (&mut [Lanes], &mut [Lanes]));

/// The way to decode a panel, compiled for a codebook and a width.
type Decode<S> = fn(S, &Codes, (Range<usize>, Range<usize>), &mut [f32]);

fn one_row<S: Simd>(codes: &Codes, form: Form) -> OneRow<S> {
    if S::PLAIN {
        return plain::floats;
    }
    match (form, codes.codebook) {
        (Form::Floats, Codebook::ThreeInst) => {
            with_width!(whole codes.bits, |W| one_row::floats::<S, ThreeInst, W>)
        }
        (Form::Floats, Codebook::Mcg) => with_width!(whole codes.bits, |W| one_row::floats::<S, Mcg, W>),
        (Form::Floats, Codebook::Mul1) => with_width!(codes.bits, |W| one_row::floats::<S, Mul1, W>),
        (Form::Integers, _) => with_width!(codes.bits, |W| one_row::integers::<S, W>),
    }
}

fn decoder<S: Simd>(codes: &Codes) -> Decode<S> {
    if S::PLAIN {
        return plain::decode;
    }
    match codes.codebook {
        Codebook::ThreeInst => with_width!(whole codes.bits, |W| several_rows::decode::<S, ThreeInst, W>),
        Codebook::Mcg => with_width!(whole codes.bits, |W| several_rows::decode::<S, Mcg, W>),
        Codebook::Mul1 => with_width!(codes.bits, |W| several_rows::decode::<S, Mul1, W>),
    }
}

/// Some columns for some rows.
struct Task<'a, S> {
    simd: S,
    codes: &'a Codes,
    blocks: Range<usize>,
    rows: usize,
    x: Rows<'a>,
    stride: usize,
}

impl<S: Simd> Task<'_, S> {
    /// `acc[r] = x[r] . inner`, row by row.
    fn one_by_one(&self, product: OneRow<S>, acc: &mut [f32], room: &mut [f32]) {
        let columns = self.blocks.start * COLUMNS..self.blocks.end * COLUMNS;
        let (lanes, aside) = lanes_mut(room)[..2 * columns.len()].split_at_mut(columns.len());
        for (row, acc) in acc.chunks_mut(self.stride).take(self.rows).enumerate() {
            lanes.fill([[0.0; LANES]; SUMS]);
            let x = self.x.row(row).as_chunks().0;
            product(self.simd, self.codes, columns.clone(), x, (&mut *lanes, &mut *aside));
            self.simd.vectorize(
                #[inline(always)]
                || {
                    for (lanes, acc) in lanes.iter().zip(acc.as_chunks_mut().0) {
                        self.add_lanes(lanes, acc);
                    }
                },
            );
        }
    }

    /// `acc[r] = x[r] . inner`, panel by panel for all rows.
    fn by_panels(&self, decode: Decode<S>, acc: &mut [f32], room: &mut [f32]) {
        let (simd, codes) = (self.simd, self.codes);
        let (panel, lanes) = room.split_at_mut(PANEL);
        let (first, second) = lanes_mut(lanes)[..2 * self.rows].split_at_mut(self.rows);
        for column in (self.blocks.start * COLUMNS..self.blocks.end * COLUMNS).step_by(several_rows::COLUMNS)
        {
            first.fill([[0.0; LANES]; SUMS]);
            second.fill([[0.0; LANES]; SUMS]);
            for record in 0..self.x.cols() / RECORD {
                let top = record * TILES;
                let tiles = top..codes.tile_rows().min(top + TILES);
                decode(simd, codes, (tiles.clone(), column..column + several_rows::COLUMNS), panel);
                let x = self.x.columns(record * RECORD, RECORD);
                several_rows::products(simd, (panel, tiles.len()), x, [&mut *first, &mut *second]);
            }
            let start = (column - self.blocks.start * COLUMNS) * TILE;
            simd.vectorize(
                #[inline(always)]
                || {
                    for ((first, second), acc) in first.iter().zip(&*second).zip(acc.chunks_mut(self.stride))
                    {
                        let acc = acc[start..].as_chunks_mut().0;
                        self.add_lanes(first, &mut acc[0]);
                        self.add_lanes(second, &mut acc[1]);
                    }
                },
            );
        }
    }

    /// The sixteen sums of a column of tiles.
    #[inline(always)]
    fn add_lanes(&self, lanes: &Lanes, to: &mut [f32; TILE]) {
        let simd = self.simd;
        for (half, to) in to.as_chunks_mut().0.iter_mut().enumerate() {
            // Sums of the columns from 8 on come first.
            let quarters =
                std::array::from_fn::<_, QUARTERS, _>(|quarter| simd.load(&lanes[2 * quarter + 1 - half]));
            simd.store(simd.sums_of_halves(quarters), to);
        }
    }
}

/// Room for the sums of columns of tiles.
fn lanes_mut(room: &mut [f32]) -> &mut [Lanes] {
    room.as_chunks_mut().0.as_chunks_mut().0
}

/// `row = H row * svh + bias` in the columns of a block.
#[inline(always)]
fn finish<S: Simd>(simd: S, codes: &Codes, block: usize, row: &mut [f32; BLOCK]) {
    let scales = &codes.svh[2 * block * BLOCK..];
    let numbers: &mut [[f32; LANES]; VECTORS] = &mut row.as_chunks_mut().0.as_chunks_mut().0[0];
    let mut values = rotate(simd, math::load(simd, numbers));
    for (value, scales) in values.iter_mut().zip(scales.as_chunks().0) {
        *value = simd.mul(*value, simd.load_f16_bytes(scales));
    }
    math::store(simd, values, numbers);
    if let Some(bias) = &codes.bias {
        for (value, bias) in row.iter_mut().zip(&bias[block * BLOCK..]) {
            *value += bias;
        }
    }
}
