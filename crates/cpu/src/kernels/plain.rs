//! Tiles in plain code, for processors without vectors that the device knows: states as the codec reads them,
//! one after the other, into the places where the vector kernels have them (see [`super::tile`]).
//!
//! Compiling those kernels for vectors of plain numbers would take minutes, and they would be slower.

use std::ops::Range;

use exl3::tile::{TILE, WEIGHTS};
use exl3::{Codebook, trellis};

use super::inputs::{RECORD, SPREAD};
use super::one_row::Lanes;
use super::several_rows::{COLUMNS, PANEL, column_mut};
use super::tile::{BEFORE, QUARTERS};
use super::values::Scale;
use crate::simd::LANES;
use crate::weights::Codes;

/// Where the state of a stream position is in the vectors of a tile.
struct Place {
    quarter: usize,
    lane: usize,
    pair: usize,
    /// Whether it is in the upper 16 bits.
    upper: bool,
}

impl Place {
    fn of(stream: usize) -> Place {
        let (lane, element) = (stream / 8, stream % 8);
        Place {
            quarter: lane / LANES,
            lane: lane % LANES,
            pair: (7 - element) / 2,
            upper: element.is_multiple_of(2),
        }
    }
}

/// The states of the tile at tile row `a`, column of tiles `column`, in stream order.
fn states(codes: &Codes, a: usize, column: usize) -> [u16; WEIGHTS] {
    let mut states = [0; WEIGHTS];
    trellis::unpack(&codes.tile(a, column)[BEFORE..], codes.bits, &mut states);
    states
}

/// `lanes += x . w` in `f32`, for the columns of tiles `columns`.
pub(crate) fn floats<S>(
    _: S,
    codes: &Codes,
    columns: Range<usize>,
    x: &[[f32; RECORD]],
    (lanes, _): (&mut [Lanes], &mut [Lanes]),
) {
    for (a, x) in (0..codes.tile_rows()).zip(x.as_flattened().as_chunks::<TILE>().0) {
        for (column, lanes) in columns.clone().zip(lanes.iter_mut()) {
            for (stream, state) in states(codes, a, column).into_iter().enumerate() {
                let place = Place::of(stream);
                let input = 2 * (place.pair % 2) + usize::from(place.upper);
                lanes[2 * place.quarter + place.pair / 2][place.lane] +=
                    codes.codebook.value(state).to_f32() * x[SPREAD * input + place.lane % SPREAD];
            }
        }
    }
}

/// Decodes the columns of tiles `columns` in the tile rows `rows` into a panel.
pub(crate) fn decode<S>(
    _: S,
    codes: &Codes,
    (rows, columns): (Range<usize>, Range<usize>),
    panel: &mut [f32],
) {
    let scale = Scale::of(codes.codebook);
    for (column, panel) in columns.zip(panel.as_chunks_mut::<{ PANEL / COLUMNS }>().0) {
        let panel = column_mut(panel);
        for (at, a) in rows.clone().enumerate() {
            let mut words = [[[0_u32; LANES]; 4]; QUARTERS];
            for (stream, state) in states(codes, a, column).into_iter().enumerate() {
                let integer = match codes.codebook {
                    Codebook::Mul1 => byte_sum(state),
                    _ => ((codes.codebook.value(state).to_f64() / scale.unit).round_ties_even() as i16)
                        .cast_unsigned(),
                };
                let place = Place::of(stream);
                words[place.quarter][place.pair][place.lane] |=
                    u32::from(integer) << if place.upper { 16 } else { 0 };
            }
            for (words, panel) in words.iter().zip(panel.iter_mut()) {
                panel[at] = words.map(|lanes| lanes.map(f32::from_bits));
            }
        }
    }
}

/// The sum of the bytes of the hash of mul1.
fn byte_sum(state: u16) -> u16 {
    let hash = u32::from(state).wrapping_mul(Codebook::Mul1.multiplier());
    hash.to_le_bytes().into_iter().map(u16::from).sum()
}
