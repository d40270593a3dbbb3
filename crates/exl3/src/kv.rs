//! The codec of quantised key and value caches: 2 to 8 bits a value and one scale for 32.
//!
//! 32 consecutive values of a token's row are rotated, so that no value stands out, divided by the largest
//! magnitude and put on a grid of 2^b levels that has no zero:
//!
//! ```text
//! v    = WHT32(x) / sqrt(32)              s = max |v| + 1e-10, stored as an f16
//! code = floor(v / s * 2^(b-1) + 2^(b-1)), at most 2^b - 1
//! x    = f16(WHT32((code - (2^(b-1) - 0.5)) * s / sqrt(32) / 2^(b-1)))
//! ```
//!
//! The b words of 32 bits of a group are *planes*: b is cut into powers of two, largest first, and a plane of
//! w bits takes w words, in which value i has the w bits from bit (i w mod 32) of word (i w / 32) on. The
//! first plane holds the most significant bits of the codes.

use std::fmt;
use std::str::FromStr;

use half::f16;

use crate::Error;
use crate::hadamard::walsh_hadamard;

/// Values that share one scale.
pub const GROUP: usize = 32;

/// 1 / sqrt(32) as an f32.
const NORMALISATION: f32 = 0.176_776_695_296_636_9_f64 as f32;

/// Bits a cached value: 2 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheBits(u8);

impl CacheBits {
    /// A width, if it is 2 to 8.
    pub const fn new(bits: u8) -> Option<CacheBits> {
        match bits {
            2..=8 => Some(CacheBits(bits)),
            _ => None,
        }
    }

    /// The bits a value.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Words of 32 bits that the codes of one group take: as many as a value has bits.
    pub const fn group_words(self) -> usize {
        self.0 as usize
    }

    /// Bytes that a row of `columns` values takes, codes and scales.
    ///
    /// # Panics
    /// If `columns` is no multiple of 32.
    pub const fn row_bytes(self, columns: usize) -> usize {
        assert!(columns.is_multiple_of(GROUP), "a cached row is cut into groups of 32 values");
        columns / GROUP * (self.group_words() * size_of::<u32>() + size_of::<f16>())
    }

    /// The planes: width, lowest bit of the code, first word.
    fn planes(self) -> impl Iterator<Item = (u32, u32, usize)> {
        let bits = u32::from(self.0);
        [8, 4, 2, 1].into_iter().filter(move |width| bits & width != 0).map(move |width| {
            // Wider planes hold the bits above, so below this one are those of b under its width.
            let below = bits & (width - 1);
            let first_word = bits - below - width;
            (width, below, first_word as usize)
        })
    }
}

impl fmt::Display for CacheBits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for CacheBits {
    type Err = Error;

    fn from_str(text: &str) -> Result<CacheBits, Error> {
        let bits = text.parse().ok().and_then(CacheBits::new);
        bits.ok_or_else(|| Error::UnknownCacheBits { text: text.to_owned() })
    }
}

/// Encodes a group of values into [`CacheBits::group_words`] words, and gives its scale.
///
/// A value that is NaN or infinite, or a group whose norm is above 65,504, makes the scale so, and with it all
/// values that are decoded: a broken cache shows itself.
///
/// # Panics
/// If `words` has another length.
pub fn encode(values: &[f32; GROUP], bits: CacheBits, words: &mut [u32]) -> f16 {
    assert_eq!(words.len(), bits.group_words(), "words of a group of {bits} bits");
    let mut rotated = *values;
    walsh_hadamard(&mut rotated);
    let rotated = rotated.map(|value| value * NORMALISATION);
    // f32::max would pass over a NaN.
    let largest = rotated.iter().fold(0.0, |largest: f32, value| match value.abs() {
        magnitude if magnitude.is_nan() || magnitude > largest => magnitude,
        _ => largest,
    });
    let scale = largest + 1e-10;
    let inverse = 1.0 / scale;
    let middle = f32::from(1_u16 << (bits.get() - 1));
    let most = (1_u32 << bits.get()) - 1;
    // The product with a power of two is exact, so this rounds once, as a fused multiply-add does.
    let codes = rotated.map(|value| ((value * inverse * middle + middle).floor() as u32).min(most));
    write_planes(&codes, bits, words);
    f16::from_f32(scale)
}

/// Decodes a group of values, each rounded to f16.
///
/// # Panics
/// If `words` is not [`CacheBits::group_words`] long.
pub fn decode(words: &[u32], scale: f16, bits: CacheBits, values: &mut [f32; GROUP]) {
    assert_eq!(words.len(), bits.group_words(), "words of a group of {bits} bits");
    let middle = f32::from(1_u16 << (bits.get() - 1));
    let step = scale.to_f32() * NORMALISATION * (1.0 / middle);
    *values = read_planes(words, bits).map(|code| (code as f32 - (middle - 0.5)) * step);
    walsh_hadamard(values);
    *values = values.map(|value| f16::from_f32(value).to_f32());
}

fn write_planes(codes: &[u32; GROUP], bits: CacheBits, words: &mut [u32]) {
    words.fill(0);
    for (width, below, first_word) in bits.planes() {
        for (i, code) in (0..).zip(codes) {
            let field = code >> below & ((1 << width) - 1);
            words[first_word + (i * width / 32) as usize] |= field << (i * width % 32);
        }
    }
}

fn read_planes(words: &[u32], bits: CacheBits) -> [u32; GROUP] {
    let mut codes = [0; GROUP];
    for (width, below, first_word) in bits.planes() {
        for (i, code) in (0..).zip(&mut codes) {
            let field = words[first_word + (i * width / 32) as usize] >> (i * width % 32);
            *code |= (field & ((1 << width) - 1)) << below;
        }
    }
    codes
}

#[cfg(test)]
mod tests {
    use proptest::array::uniform32;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn codes_survive_their_planes(codes in uniform32(any::<u32>())) {
            for bits in (2..=8).filter_map(CacheBits::new) {
                let codes = codes.map(|code| code & ((1 << bits.get()) - 1));
                let mut words = vec![u32::MAX; bits.group_words()];
                write_planes(&codes, bits, &mut words);
                prop_assert_eq!(read_planes(&words, bits), codes);
            }
        }
    }

    #[test]
    fn planes_are_powers_of_two_with_the_most_significant_bits_first() {
        let planes = |bits| CacheBits::new(bits).unwrap().planes().collect::<Vec<_>>();
        assert_eq!(planes(8), [(8, 0, 0)]);
        assert_eq!(planes(7), [(4, 3, 0), (2, 1, 4), (1, 0, 6)]);
        assert_eq!(planes(5), [(4, 1, 0), (1, 0, 4)]);
        assert_eq!(planes(3), [(2, 1, 0), (1, 0, 2)]);
        assert_eq!(planes(2), [(2, 0, 0)]);
    }

    #[test]
    fn a_row_takes_its_codes_and_one_half_for_32_values() {
        let bytes = |bits| CacheBits::new(bits).unwrap().row_bytes(512);
        assert_eq!([8, 6, 4].map(bytes), [544, 416, 288]);
    }

    #[test]
    fn widths_are_two_to_eight() {
        for bits in 0..=u8::MAX {
            assert_eq!(CacheBits::new(bits).is_some(), (2..=8).contains(&bits));
        }
        assert_eq!("6".parse(), Ok(CacheBits(6)));
        for text in ["", "1", "9", "six", "2.5"] {
            assert_eq!(text.parse::<CacheBits>(), Err(Error::UnknownCacheBits { text: text.to_owned() }));
        }
    }
}
