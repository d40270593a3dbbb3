//! Rows of turned inputs, arranged as the products with codes read them.
//!
//! A row is a list of *records* of 256 inputs, each in [`RECORD`] numbers; what follows the last input is 0.
//! There are two forms.
//!
//! **Integers.** `x = scale * integer`, one scale a record, integers of up to 16 bits, rounded to nearest.
//! Two neighbours share a word in the order of [`super::tile`]: the odd input in the lower 16 bits, the even
//! one in the upper. After the 128 words come four words with which sums begin, one for each q: the integers
//! that belong to it, added up, times minus the weights' centre ([`Scale`]); then the scale, times the unit
//! of the weights. A product is then `scale * (start + sum of weight * integer)`, and the sum is exact.
//!
//! **Floats.** For each tile the inputs `2 q + 9`, `2 q + 8`, `2 q + 1`, `2 q` for q = 0 to 3, the order in
//! which the pairs of [`super::tile`] meet them.

use exl3::Codebook;
use exl3::hadamard::BLOCK;
use exl3::tile::TILE;

use super::rotation::{VECTORS, rotate};
use super::values::Scale;
use crate::simd::{LANES, Simd, math};
use crate::weights::Codes;

/// Inputs of a record, and the numbers from one record to the next.
pub(crate) const RECORD: usize = 2 * BLOCK;

/// Tiles below each other that one record meets.
pub(crate) const TILES: usize = RECORD / TILE;

/// Lanes that the sums of a column are spread over: one for each q.
pub(crate) const SPREAD: usize = LANES / 2;

/// Where a record of integers has the words that sums begin with, after the pairs.
const START: usize = RECORD / 2;
/// Where it has its scale.
const SCALE: usize = START + SPREAD;

/// In which numbers rows are multiplied with trellis codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activations {
    /// In integers of 14 bits or more with a scale for 256 of them, or in `f32` where that is faster.
    #[default]
    Integers,
    /// In `f32`, row after row: slow for more than one row, and nearer to the reference.
    Floats,
}

/// How rows of inputs are arranged, and so in which numbers they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As `f32`.
    Floats,
    /// As integers of up to 16 bits with a scale for 256 of them.
    Integers,
}

/// Which form rows of inputs get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forms {
    pub(crate) activations: Activations,
    /// Whether the form may not depend on how many rows there are.
    pub(crate) deterministic: bool,
}

impl Forms {
    /// The form for an operation on `rows` rows.
    ///
    /// One row is faster in `f32` for the codebooks whose weights are made of halves. For mul1 integers are
    /// always faster, and the same bits for any number of rows.
    pub(crate) fn of(self, codebook: Codebook, rows: usize) -> Form {
        let one_row = rows == 1 && codebook != Codebook::Mul1 && !self.deterministic;
        match self.activations {
            Activations::Integers if !one_row => Form::Integers,
            _ => Form::Floats,
        }
    }
}

/// Inputs of an arranged row with its padding.
pub(crate) fn arranged(inputs: usize) -> usize {
    inputs.next_multiple_of(RECORD)
}

/// A record of integers.
#[derive(Clone, Copy)]
pub(crate) struct Integers<'a> {
    /// Four pairs at a time: for each tile the inputs 0 to 7, then 8 to 15.
    pub(crate) pairs: &'a [[f32; SPREAD]; 2 * TILES],
    /// What the sums of each q begin with.
    pub(crate) start: &'a [f32; SPREAD],
    /// What they are multiplied with in the end.
    pub(crate) scale: f32,
}

impl<'a> Integers<'a> {
    #[inline(always)]
    pub(crate) fn of(record: &'a [f32; RECORD]) -> Integers<'a> {
        let (pairs, rest) = record.split_at(START);
        Integers {
            pairs: &pairs.as_chunks().0.as_chunks().0[0],
            start: &rest.as_chunks().0[0],
            scale: rest[SCALE - START],
        }
    }
}

/// The records of `x` from input `256 first` on: each `H (x * suh)`, arranged. `x` may end before, where the
/// layer's true inputs end.
#[inline(always)]
pub(crate) fn turn<S: Simd>(
    simd: S,
    (codes, form): (&Codes, Form),
    first: usize,
    (x, out): (&[f32], &mut [f32]),
) {
    for (record, out) in (first..).zip(out.as_chunks_mut::<RECORD>().0) {
        let x = x.get((record - first) * RECORD..).unwrap_or_default();
        let known = x.len().min(RECORD);
        out[..known].copy_from_slice(&x[..known]);
        out[known..].fill(0.0);
        turn_record(simd, (codes, form), record, out);
    }
}

/// As [`turn`], for record `index`, in place.
#[inline(always)]
pub(crate) fn turn_record<S: Simd>(
    simd: S,
    (codes, form): (&Codes, Form),
    index: usize,
    record: &mut [f32; RECORD],
) {
    for (half, x) in record.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let block = 2 * index + half;
        let Some(scales) = codes.suh.get(2 * block * BLOCK..2 * (block + 1) * BLOCK) else { continue };
        let x: &mut [[f32; LANES]; VECTORS] = &mut x.as_chunks_mut().0.as_chunks_mut().0[0];
        let mut values = math::load(simd, x);
        for (value, scales) in values.iter_mut().zip(scales.as_chunks().0) {
            *value = simd.mul(*value, simd.load_f16_bytes(scales));
        }
        math::store(simd, rotate(simd, values), x);
    }
    match form {
        Form::Floats => arrange(record),
        Form::Integers => quantise(simd, Scale::of(codes.codebook), record),
    }
}

/// Brings the inputs of each tile into the order of [`Form::Floats`].
#[inline(always)]
fn arrange(record: &mut [f32; RECORD]) {
    for tile in record.as_chunks_mut::<TILE>().0 {
        let inputs = *tile;
        for (group, first) in tile.as_chunks_mut::<SPREAD>().0.iter_mut().zip([9, 8, 1, 0]) {
            *group = std::array::from_fn(|q| inputs[first + 2 * q]);
        }
    }
}

/// Turns a record into [`Form::Integers`].
#[inline(always)]
fn quantise<S: Simd>(simd: S, scale: Scale, record: &mut [f32; RECORD]) {
    let (mut largest, mut poison) = (simd.splat(0.0), simd.splat(0.0));
    for x in record.as_chunks().0 {
        let x = simd.load(x);
        largest = simd.max(largest, simd.max(x, simd.sub(simd.splat(0.0), x)));
        poison = simd.mul_add(x, simd.splat(0.0), poison);
    }
    let largest = simd.largest(largest);
    // 0 unless an input is no finite number: then the record is worth NaN.
    let poison = simd.sums([poison; 4])[0];
    // Inputs too small to be divided by are 0 beside anything else.
    let (factor, step) =
        if largest < 1e-30 { (0.0, 0.0) } else { (scale.largest / largest, largest / scale.largest) };
    let factor = simd.splat(factor);
    let mut sums = simd.splat_u32(0);
    for tile in 0..TILES {
        let inputs = &record[tile * TILE..][..TILE].as_chunks().0;
        let inputs = [simd.mul(simd.load(&inputs[0]), factor), simd.mul(simd.load(&inputs[1]), factor)];
        let pairs = simd.pack_16(inputs[0], inputs[1]);
        sums = simd.dot_16(sums, pairs, simd.splat_u32(0x0001_0001));
        // Pairs take half the room of what they are made of, so that nothing is written before it was read.
        simd.store(simd.bits_as_f32(pairs), &mut record.as_chunks_mut().0[tile]);
    }
    let mut by_lane = [0.0; LANES];
    simd.store(simd.to_f32(sums), &mut by_lane);
    for q in 0..SPREAD {
        // Whole numbers below 2^24, exact; the rounding of the product is below the last bit of any sum.
        let sum = f64::from(by_lane[q]) + f64::from(by_lane[q + SPREAD]);
        record[START + q] = f32::from_bits(((-scale.centre * sum).round() as i32).cast_unsigned());
    }
    record[SCALE] = (f64::from(step) * scale.unit) as f32 + poison;
}
