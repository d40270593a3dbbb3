//! Tile bytes to states and back.
//!
//! The bits of a tile form a ring: 256 K bits, the most significant bit first inside little-endian words of
//! 32 bits. Weight t (in stream order, see [`crate::tile`]) brings D(t) *fresh* bits, and its state is the
//! 16 ring bits that end with them:
//!
//! ```text
//! D(t) = K                                      whole K
//!      = floor(K) for even t, ceil(K) for odd   K = 1.5, 2.5, 3.5
//! S(t) = D(0) + ... + D(t)                      the ring bit just past the fresh bits of t
//! state(t) = ring bits S(t) - 16 .. S(t) - 1    modulo 256 K, the first is the most significant
//!          = (state(t - 1) << D(t) | fresh(t)) mod 2^16, also around the ring: t - 1 of 0 is 255
//! ```
//!
//! So neighbours share 16 - D bits, only the fresh bits are stored, and every string of bytes is a valid
//! tile.

use crate::Bits;
use crate::tile::WEIGHTS;

/// Words of 32 bits in the largest tile, that of 8 bits a weight.
const MOST_WORDS: usize = 64;

/// D(t): how many bits of the ring weight `t` brings.
pub const fn fresh_bits(bits: Bits, t: usize) -> usize {
    (bits.half_bits() as usize + t % 2) / 2
}

/// S(t): the ring bit just past the fresh bits of weight `t`, from 1 to 256 K.
pub const fn ring_end(bits: Bits, t: usize) -> usize {
    let half_bits = bits.half_bits() as usize;
    (t + 1) * (half_bits / 2) + (half_bits % 2) * t.div_ceil(2)
}

/// Reads the 256 states of a tile, in stream order.
///
/// # Panics
/// If `tile` is not [`Bits::tile_bytes`] long.
pub fn unpack(tile: &[u8], bits: Bits, states: &mut [u16; WEIGHTS]) {
    assert_eq!(tile.len(), bits.tile_bytes(), "bytes of a tile of {bits} bits");
    let mut words = [0_u32; MOST_WORDS];
    let words = &mut words[..tile.len() / 4];
    for (word, bytes) in words.iter_mut().zip(tile.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    for (t, state) in states.iter_mut().enumerate() {
        let last = ring_end(bits, t) - 1;
        let (word, below) = (last / 32, 31 - last % 32);
        let before = words[(word + words.len() - 1) % words.len()];
        let window = u64::from(before) << 32 | u64::from(words[word]);
        *state = (window >> below) as u16;
    }
}

/// Writes the fresh bits of 256 states, given in stream order, as a tile.
///
/// The other bits of the states are not looked at: they are those of the states before, if the states are a
/// ring at all.
///
/// # Panics
/// If `tile` is not [`Bits::tile_bytes`] long.
pub fn pack(states: &[u16; WEIGHTS], bits: Bits, tile: &mut [u8]) {
    assert_eq!(tile.len(), bits.tile_bytes(), "bytes of a tile of {bits} bits");
    let mut words = tile.as_chunks_mut().0.iter_mut();
    let (mut waiting, mut count) = (0_u64, 0);
    for (t, &state) in states.iter().enumerate() {
        let fresh = fresh_bits(bits, t);
        waiting = waiting << fresh | u64::from(state) & ((1 << fresh) - 1);
        count += fresh;
        if count >= 32 {
            count -= 32;
            if let Some(word) = words.next() {
                *word = ((waiting >> count) as u32).to_le_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_ends_are_the_sums_of_the_fresh_bits() {
        for bits in Bits::ALL {
            let mut sum = 0;
            for t in 0..WEIGHTS {
                sum += fresh_bits(bits, t);
                assert_eq!(ring_end(bits, t), sum, "weight {t} at {bits} bits");
            }
            assert_eq!(sum, bits.ring_bits());
        }
    }

    #[test]
    fn at_half_bits_odd_stream_positions_bring_the_extra_bit() {
        let bits = Bits::from_half_bits(5).unwrap();
        assert_eq!([0, 1, 2, 3, 255].map(|t| fresh_bits(bits, t)), [2, 3, 2, 3, 3]);
    }
}
