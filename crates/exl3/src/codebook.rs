//! State to value.
//!
//! A codebook is a hash from 16 bits to a number that is distributed almost like a Gaussian: the state is
//! multiplied by an odd constant modulo 2^32, and the product is read as numbers whose sum is the value.
//! All values are halves (f16), exactly defined.

use std::fmt;
use std::str::FromStr;

use half::f16;

use crate::{Bits, Error};

/// What is kept of the product with 3inst and mcg: of each half the sign, the two lowest bits of the
/// exponent, and the mantissa.
pub const HALVES_MASK: u32 = 0x8FFF_8FFF;

/// What is flipped after [`HALVES_MASK`], so that the exponent of each half is 12 to 15: a number of
/// magnitude 0.125 to 2.
pub const HALVES_FLIP: u32 = 0x3B60_3B60;

/// The factor of the byte sum with mul1: 0.00676727294921875.
pub const BYTE_SUM_SCALE: f16 = f16::from_bits(0x1EEE);

/// The offset of mul1, added to 1024 + byte sum times [`BYTE_SUM_SCALE`]: -10.3828125.
pub const BYTE_SUM_OFFSET: f16 = f16::from_bits(0xC931);

/// Which hash turns states into values.
///
/// ```text
/// z = (state * multiplier + addend) mod 2^32
/// 3inst, mcg: z' = (z & 0x8FFF8FFF) ^ 0x3B603B60;  value = f16(low half of z' + high half of z'), as halves
/// mul1:       value = f16((1024 + sum of the four bytes of z) * 0.00676727294921875 - 10.3828125)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codebook {
    /// `3inst`: the first one, of files without a marker tensor.
    ThreeInst,
    /// `mcg`: like 3inst with another multiplier and no addend.
    Mcg,
    /// `mul1`: the sum of four bytes; the only one with half bits, and that of embedding tables.
    Mul1,
}

impl Codebook {
    /// All codebooks.
    pub const ALL: [Codebook; 3] = [Codebook::ThreeInst, Codebook::Mcg, Codebook::Mul1];

    /// The value of a state.
    pub fn value(self, state: u16) -> f16 {
        let product = u32::from(state).wrapping_mul(self.multiplier()).wrapping_add(self.addend());
        // Both sums are exact in f32, so that the rounding to f16 is the only one. Two halves of magnitude
        // 0.125 to 2 have no bit below 2^-13. 1024 + byte sum and the scale have 11 bits each, the scale none
        // below 2^-18 and the offset none below 2^-7, so that 22 bits are enough.
        let exact = match self {
            Codebook::ThreeInst | Codebook::Mcg => {
                let halves = (product & HALVES_MASK) ^ HALVES_FLIP;
                f16::from_bits(halves as u16).to_f32() + f16::from_bits((halves >> 16) as u16).to_f32()
            }
            Codebook::Mul1 => {
                let byte_sum: u16 = product.to_le_bytes().into_iter().map(u16::from).sum();
                f32::from(1024 + byte_sum) * BYTE_SUM_SCALE.to_f32() + BYTE_SUM_OFFSET.to_f32()
            }
        };
        f16::from_f32(exact)
    }

    /// The values of all 65,536 states.
    pub fn table(self) -> Vec<f16> {
        (0..=u16::MAX).map(|state| self.value(state)).collect()
    }

    /// The factor of the hash.
    pub const fn multiplier(self) -> u32 {
        match self {
            Codebook::ThreeInst => 89_226_354,
            Codebook::Mcg => 0xCBAC_1FED,
            Codebook::Mul1 => 0x83DC_D12D,
        }
    }

    /// What the hash adds to the product.
    pub const fn addend(self) -> u32 {
        match self {
            Codebook::ThreeInst => 64_248_484,
            Codebook::Mcg | Codebook::Mul1 => 0,
        }
    }

    /// The name in configurations: `3inst`, `mcg` or `mul1`.
    pub const fn name(self) -> &'static str {
        match self {
            Codebook::ThreeInst => "3inst",
            Codebook::Mcg => "mcg",
            Codebook::Mul1 => "mul1",
        }
    }

    /// The scalar I32 tensor beside a trellis that says it has this codebook: its suffix and its value.
    ///
    /// 3inst is said by the absence of both.
    pub const fn marker(self) -> Option<(&'static str, u32)> {
        match self {
            Codebook::ThreeInst => None,
            Codebook::Mcg | Codebook::Mul1 => Some((self.name(), self.multiplier())),
        }
    }

    /// Whether the format has this width with this codebook.
    pub const fn allows(self, bits: Bits) -> bool {
        bits.is_whole() || matches!(self, Codebook::Mul1)
    }
}

impl fmt::Display for Codebook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Codebook {
    type Err = Error;

    fn from_str(text: &str) -> Result<Codebook, Error> {
        Codebook::ALL
            .into_iter()
            .find(|codebook| codebook.name() == text)
            .ok_or_else(|| Error::UnknownCodebook { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for codebook in Codebook::ALL {
            assert_eq!(codebook.to_string().parse(), Ok(codebook));
        }
        assert_eq!("lut".parse::<Codebook>(), Err(Error::UnknownCodebook { text: "lut".to_owned() }));
    }

    #[test]
    fn only_mul1_allows_half_bits() {
        for bits in Bits::ALL {
            assert!(Codebook::Mul1.allows(bits));
            assert_eq!(Codebook::Mcg.allows(bits), bits.is_whole());
            assert_eq!(Codebook::ThreeInst.allows(bits), bits.is_whole());
        }
    }
}
