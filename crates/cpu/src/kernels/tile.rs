//! Tiles of codes to weights.
//!
//! A tile has 16 x 16 weights. Lane c of a vector is output column c (or c + 8) and a vector is one input
//! row of it, since then all lanes look at the same place of their part of the ring: column c of the lower
//! or upper half owns the 32 K ring bits from 32 K c on (stream positions 32 c to 32 c + 31), and the state at
//! row r, half h ends `S(8 (r mod 8 / 2) + r mod 2 + 2 (r / 8) + 4 h)` bits into it (see [`exl3::trellis`]).
//!
//! So the tile is first read as *windows*, vectors of 32 ring bits a lane: window w holds the bits from
//! `32 w - lead` on of each lane's part, and a state is a shift of two neighbouring windows,
//! `(low >> s | high << (32 - s)) mod 2^16`, with the same s for all lanes. With whole K the windows are
//! words of the tile, K words apart, and the one before the first (lead 32) is the last one of the lane
//! before. With half bits every second lane begins inside a word, and windows begin half a word early (lead
//! 16).
//!
//! Traffic: 32 K bytes of codes a tile, each read once; the windows stay in registers or the first-level
//! cache.

use exl3::tile::TILE;
use exl3::trellis::ring_end;
use exl3::{Bits, Codebook, codebook};

use crate::simd::{LANES, Simd};

/// Room for windows: those of a tile of 8 bits a weight with the one before, up to a power of two, so that a
/// number of four bits is always an index.
const WINDOWS: usize = 16;

/// Vectors of a row of a tile: columns 0 to 7 and 8 to 15.
pub(crate) const HALVES: usize = TILE / LANES;

/// Where in the windows the states of one row and half end.
#[derive(Clone, Copy)]
struct Place {
    /// The window that holds the last bit.
    window: u32,
    /// The window before, or the same if that is the first: then nothing of another is needed, and what it
    /// adds is masked away.
    before: u32,
    /// How many bits of it come after that bit: it is shifted right by as many.
    right: u32,
    /// How far the window before is shifted left, so that it goes on where that one ends.
    left: u32,
}

/// How to read tiles of one width.
struct Reading {
    bits: Bits,
    places: [[Place; HALVES]; TILE],
}

/// One reading a width, by half bits.
static READINGS: [Option<Reading>; 17] = {
    let mut readings = [const { None }; 17];
    let mut index = 0;
    while index < Bits::ALL.len() {
        readings[Bits::ALL[index].half_bits() as usize] = Some(Reading::new(Bits::ALL[index]));
        index += 1;
    }
    readings
};

impl Reading {
    const fn new(bits: Bits) -> Reading {
        let mut places = [[Place { window: 0, before: 0, right: 0, left: 0 }; HALVES]; TILE];
        let mut row = 0;
        while row < TILE {
            let mut half = 0;
            while half < HALVES {
                let stream = row % 8 / 2 * 8 + row % 2 + row / 8 * 2 + half * 4;
                let last = (ring_end(bits, stream) - 1 + lead(bits)) as u32;
                let (window, right) = (last / 32, 31 - last % 32);
                places[row][half] =
                    Place { window, before: window.saturating_sub(1), right, left: 32 - right };
                half += 1;
            }
            row += 1;
        }
        Reading { bits, places }
    }
}

/// How many bits before a lane's part its first window begins.
const fn lead(bits: Bits) -> usize {
    if bits.is_whole() { 32 } else { 16 }
}

/// What states stand for: a codebook known when the kernel is compiled.
pub(crate) trait Values: Copy + Send + Sync {
    /// The values of eight states below 2^16.
    fn values<S: Simd>(simd: S, states: S::U32) -> S::F32;
}

/// [`Codebook::ThreeInst`].
#[derive(Clone, Copy)]
pub(crate) struct ThreeInst;
/// [`Codebook::Mcg`].
#[derive(Clone, Copy)]
pub(crate) struct Mcg;
/// [`Codebook::Mul1`].
#[derive(Clone, Copy)]
pub(crate) struct Mul1;

impl Values for ThreeInst {
    #[inline(always)]
    fn values<S: Simd>(simd: S, states: S::U32) -> S::F32 {
        let product = simd.wrapping_mul(states, simd.splat_u32(Codebook::ThreeInst.multiplier()));
        sum_of_halves(simd, simd.wrapping_add(product, simd.splat_u32(Codebook::ThreeInst.addend())))
    }
}

impl Values for Mcg {
    #[inline(always)]
    fn values<S: Simd>(simd: S, states: S::U32) -> S::F32 {
        sum_of_halves(simd, simd.wrapping_mul(states, simd.splat_u32(Codebook::Mcg.multiplier())))
    }
}

impl Values for Mul1 {
    #[inline(always)]
    fn values<S: Simd>(simd: S, states: S::U32) -> S::F32 {
        let product = simd.wrapping_mul(states, simd.splat_u32(Codebook::Mul1.multiplier()));
        let byte_sum = simd.to_f32(simd.byte_sum(product));
        const SCALE: f32 = codebook::BYTE_SUM_SCALE.to_f32_const();
        // All exact before the rounding: 1024 times the scale, plus the offset, is -3.453125.
        const OFFSET: f32 = 1024.0 * SCALE + codebook::BYTE_SUM_OFFSET.to_f32_const();
        simd.round_to_f16(simd.mul_add(byte_sum, simd.splat(SCALE), simd.splat(OFFSET)))
    }
}

/// The sum, rounded to a half, of the two halves that the masked and flipped hash consists of.
#[inline(always)]
fn sum_of_halves<S: Simd>(simd: S, hash: S::U32) -> S::F32 {
    let low = upper_half(simd, simd.shl(hash, simd.splat_u32(16)));
    simd.round_to_f16(simd.add(low, upper_half(simd, hash)))
}

/// The number that the masked and flipped upper half of a hash is.
///
/// Its exponent is 12 to 15, so that no conversion is needed: shifted right by 3 it has its sign, exponent
/// and mantissa where an f32 has them, and the exponent's bias is set right by what is flipped.
#[inline(always)]
fn upper_half<S: Simd>(simd: S, hash: S::U32) -> S::F32 {
    // Sign, two exponent bits and mantissa of HALVES_MASK, moved to their places in an f32.
    const MASK: u32 = 0x81FF_E000;
    // The flipped bits moved likewise; the exponent of f32 is that of a half plus 112.
    const FLIP: u32 = ((codebook::HALVES_FLIP & 0xFFFF) << 13) + (112 << 23);
    let number = simd.and(simd.shr_3_signed(hash), simd.splat_u32(MASK));
    simd.bits_as_f32(simd.xor(number, simd.splat_u32(FLIP)))
}

/// Decodes tiles of one width.
pub(crate) struct Decoder<S: Simd> {
    simd: S,
    reading: &'static Reading,
    windows: [S::U32; WINDOWS],
}

impl<S: Simd> Decoder<S> {
    /// A decoder of tiles of `bits` bits a weight.
    #[inline(always)]
    pub(crate) fn new(simd: S, bits: Bits) -> Decoder<S> {
        let reading = READINGS[usize::from(bits.half_bits())].as_ref().expect("every width has an entry");
        Decoder { simd, reading, windows: [simd.splat_u32(0); WINDOWS] }
    }

    /// Decodes a tile and gives `each` its rows, from the first on: the 16 weights of one input row.
    ///
    /// # Panics
    /// If `tile` is not as long as the width says.
    #[inline(always)]
    pub(crate) fn for_each_row<V: Values>(
        &mut self,
        tile: &[u8],
        mut each: impl FnMut(usize, [S::F32; HALVES]),
    ) {
        self.read(tile);
        let simd = self.simd;
        let mask = simd.splat_u32(0xFFFF);
        for (row, places) in self.reading.places.iter().enumerate() {
            let mut weights = [simd.splat(0.0); HALVES];
            for (weights, place) in weights.iter_mut().zip(places) {
                let low = self.windows[place.window as usize % WINDOWS];
                let high = self.windows[place.before as usize % WINDOWS];
                let low = simd.shr(low, simd.splat_u32(place.right));
                let high = simd.shl(high, simd.splat_u32(place.left));
                *weights = V::values(simd, simd.and(simd.or(low, high), mask));
            }
            each(row, weights);
        }
    }

    /// Reads the windows of a tile.
    #[inline(always)]
    fn read(&mut self, tile: &[u8]) {
        let bits = self.reading.bits;
        assert_eq!(tile.len(), bits.tile_bytes(), "bytes of a tile of {bits} bits");
        let half_bits = usize::from(bits.half_bits());
        if bits.is_whole() {
            let words = half_bits / 2;
            for word in 0..words {
                self.windows[(word + 1) % WINDOWS] = self.simd.gather(tile, 4 * word, 4 * words);
            }
            self.windows[0] = self.simd.rotate_lanes(self.windows[words % WINDOWS]);
        } else {
            for (window, lanes) in self.windows.iter_mut().take(half_bits / 2 + 1).enumerate() {
                *lanes = self.simd.load_u32(&split_window(tile, half_bits, window));
            }
        }
    }
}

/// A window of a tile of half bits. In pieces of 16 bits, and in the order of the ring, in which the upper
/// half of a word comes first, a lane's part has `half_bits` of them and its first window begins one before.
fn split_window(tile: &[u8], half_bits: usize, window: usize) -> [u32; LANES] {
    let pieces = tile.as_chunks().0;
    let piece = |at: usize| u32::from(u16::from_le_bytes(pieces[at ^ 1]));
    let mut lanes = [0; LANES];
    for (lane, bits) in lanes.iter_mut().enumerate() {
        let second = lane * half_bits + 2 * window;
        let first = second.checked_sub(1).unwrap_or(pieces.len() - 1);
        *bits = piece(first) << 16 | piece(second);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use exl3::tile::{PERMUTATION, WEIGHTS};
    use exl3::trellis;
    use proptest::prelude::*;

    use super::*;
    use crate::simd::levels;

    fn decode<S: Simd, V: Values>(simd: S, bits: Bits, tile: &[u8]) -> [f32; WEIGHTS] {
        let mut weights = [0.0; WEIGHTS];
        simd.vectorize(
            #[inline(always)]
            || {
                Decoder::new(simd, bits).for_each_row::<V>(tile, |row, halves| {
                    for (half, values) in halves.into_iter().enumerate() {
                        let at = row * TILE + half * LANES;
                        simd.store(values, weights[at..].first_chunk_mut().unwrap());
                    }
                });
            },
        );
        weights
    }

    proptest! {
        #[test]
        fn tiles_of_every_width_and_codebook_are_those_of_the_codec(bytes in prop::collection::vec(any::<u8>(), 256)) {
            for bits in Bits::ALL {
                let tile = &bytes[..bits.tile_bytes()];
                let mut states = [0; WEIGHTS];
                trellis::unpack(tile, bits, &mut states);
                for codebook in Codebook::ALL {
                    let mut want = [0.0; WEIGHTS];
                    for (state, index) in states.into_iter().zip(PERMUTATION) {
                        want[usize::from(index)] = codebook.value(state).to_f32();
                    }
                    levels!(|simd| {
                        let got = match codebook {
                            Codebook::ThreeInst => decode::<_, ThreeInst>(simd, bits, tile),
                            Codebook::Mcg => decode::<_, Mcg>(simd, bits, tile),
                            Codebook::Mul1 => decode::<_, Mul1>(simd, bits, tile),
                        };
                        prop_assert_eq!(got, want, "{} {}", bits, codebook);
                    });
                }
            }
        }
    }

    #[test]
    fn all_states_have_the_values_of_the_codec() {
        fn check<S: Simd, V: Values>(simd: S, codebook: Codebook) {
            for first in (0..=u16::MAX).step_by(LANES) {
                let mut got = [0.0; LANES];
                simd.vectorize(
                    #[inline(always)]
                    || {
                        let states =
                            simd.load_u32(&std::array::from_fn(|lane| u32::from(first) + lane as u32));
                        simd.store(V::values(simd, states), &mut got);
                    },
                );
                for (lane, got) in got.into_iter().enumerate() {
                    let state = first + lane as u16;
                    assert_eq!(got.to_bits(), codebook.value(state).to_f32().to_bits(), "{codebook} {state}");
                }
            }
        }
        levels!(|simd| {
            check::<_, ThreeInst>(simd, Codebook::ThreeInst);
            check::<_, Mcg>(simd, Codebook::Mcg);
            check::<_, Mul1>(simd, Codebook::Mul1);
        });
    }
}
