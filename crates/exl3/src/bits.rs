//! The widths of the format.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::tile::WEIGHTS;

/// Bits a weight: 1 to 8, or 1.5, 2.5, 3.5, kept in half bits.
///
/// With K bits a weight the ring of a tile has 256 K bits, that is 32 K bytes or 16 K words of 16 bits. The
/// width of a tensor is read from that number of words, its last dimension, and recorded nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bits(u8);

impl Bits {
    /// Every legal width, ascending.
    pub const ALL: [Bits; 11] = [
        Bits(2),
        Bits(3),
        Bits(4),
        Bits(5),
        Bits(6),
        Bits(7),
        Bits(8),
        Bits(10),
        Bits(12),
        Bits(14),
        Bits(16),
    ];

    /// A whole number of bits, if it is 1 to 8.
    pub const fn whole(bits: u8) -> Option<Bits> {
        match bits {
            1..=8 => Some(Bits(2 * bits)),
            _ => None,
        }
    }

    /// A width given in half bits: 2 to 8, then 10, 12, 14, 16.
    pub const fn from_half_bits(half_bits: u8) -> Option<Bits> {
        match half_bits {
            2..=8 | 10 | 12 | 14 | 16 => Some(Bits(half_bits)),
            _ => None,
        }
    }

    /// The width of a trellis whose last dimension is `words` (words of 16 bits a tile).
    ///
    /// # Errors
    /// [`Error::TileWords`] if no legal width has that many.
    pub fn from_tile_words(words: usize) -> Result<Bits, Error> {
        Bits::ALL.into_iter().find(|bits| bits.tile_words() == words).ok_or(Error::TileWords { words })
    }

    /// Twice the bits a weight.
    pub const fn half_bits(self) -> u8 {
        self.0
    }

    /// Whether every weight brings the same number of bits.
    pub const fn is_whole(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Words of 16 bits in a tile: 16 K.
    pub const fn tile_words(self) -> usize {
        self.tile_bytes() / 2
    }

    /// Bytes of a tile: 32 K.
    pub const fn tile_bytes(self) -> usize {
        self.ring_bits() / 8
    }

    /// Bits of the ring of a tile: 256 K.
    pub const fn ring_bits(self) -> usize {
        WEIGHTS * self.0 as usize / 2
    }

    /// The bits a weight as a number.
    pub const fn as_f32(self) -> f32 {
        self.0 as f32 / 2.0
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f32().fmt(formatter)
    }
}

impl FromStr for Bits {
    type Err = Error;

    /// Reads `4`, `3.5` or `4.0`.
    fn from_str(text: &str) -> Result<Bits, Error> {
        let number: Option<f32> = text.parse().ok();
        Bits::ALL
            .into_iter()
            .find(|bits| Some(bits.as_f32()) == number)
            .ok_or_else(|| Error::UnknownBits { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_survives_text_half_bits_and_tile_words() {
        for bits in Bits::ALL {
            assert_eq!(bits.to_string().parse(), Ok(bits));
            assert_eq!(Bits::from_half_bits(bits.half_bits()), Some(bits));
            assert_eq!(Bits::from_tile_words(bits.tile_words()), Ok(bits));
            assert_eq!(bits.tile_bytes(), (32.0 * bits.as_f32()) as usize);
            assert_eq!(bits.is_whole(), bits.to_string().len() == 1);
        }
        assert!(Bits::ALL.is_sorted());
    }

    #[test]
    fn the_legal_widths_are_one_to_eight_and_three_half_steps() {
        let written: Vec<String> = Bits::ALL.iter().map(Bits::to_string).collect();
        assert_eq!(written, ["1", "1.5", "2", "2.5", "3", "3.5", "4", "5", "6", "7", "8"]);
        for half_bits in 0..=u8::MAX {
            let known = Bits::ALL.iter().any(|bits| bits.half_bits() == half_bits);
            assert_eq!(Bits::from_half_bits(half_bits).is_some(), known, "{half_bits} half bits");
        }
        for whole in 0..=u8::MAX {
            assert_eq!(Bits::whole(whole).is_some(), (1..=8).contains(&whole), "{whole} bits");
        }
    }

    #[test]
    fn other_widths_are_refused_by_name() {
        for text in ["", "0", "0.5", "4.5", "9", "16", "-4", "four", "nan", "inf"] {
            assert_eq!(text.parse::<Bits>(), Err(Error::UnknownBits { text: text.to_owned() }));
        }
        for words in [0, 8, 15, 17, 72, 88, 129, 256, usize::MAX] {
            assert_eq!(Bits::from_tile_words(words), Err(Error::TileWords { words }));
        }
    }
}
