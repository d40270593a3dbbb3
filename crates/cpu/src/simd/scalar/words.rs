//! Words in plain code.

use super::{Scalar, map, numbers, zip};
use crate::simd::LANES;
use crate::simd::words::{HALF, Words};

/// The lower and upper number of 16 bits of a lane.
fn halves(a: u32) -> [u16; 2] {
    [a as u16, (a >> 16) as u16]
}

/// Something done to the lower numbers and to the upper numbers of lanes.
#[inline(always)]
fn zip_16(a: [u32; LANES], b: [u32; LANES], f: impl Fn(u16, u16) -> u16) -> [u32; LANES] {
    zip(a, b, |a, b| {
        let ([a_lower, a_upper], [b_lower, b_upper]) = (halves(a), halves(b));
        u32::from(f(a_lower, b_lower)) | u32::from(f(a_upper, b_upper)) << 16
    })
}

impl Words for Scalar {
    type F32 = [f32; LANES];
    type U32 = [u32; LANES];

    #[inline(always)]
    fn splat_u32(self, value: u32) -> [u32; LANES] {
        [value; LANES]
    }

    #[inline(always)]
    fn load_u32(self, from: &[u32; LANES]) -> [u32; LANES] {
        *from
    }

    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> [u32; LANES] {
        map(*from, u32::from)
    }

    #[inline(always)]
    fn and(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        zip(a, b, |a, b| a & b)
    }

    #[inline(always)]
    fn or(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        zip(a, b, |a, b| a | b)
    }

    #[inline(always)]
    fn xor(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        zip(a, b, |a, b| a ^ b)
    }

    #[inline(always)]
    fn shl(self, a: [u32; LANES], bits: [u32; LANES]) -> [u32; LANES] {
        zip(a, bits, |a, bits| a.checked_shl(bits).unwrap_or(0))
    }

    #[inline(always)]
    fn shr(self, a: [u32; LANES], bits: [u32; LANES]) -> [u32; LANES] {
        zip(a, bits, |a, bits| a.checked_shr(bits).unwrap_or(0))
    }

    #[inline(always)]
    fn shr_3_signed(self, a: [u32; LANES]) -> [u32; LANES] {
        map(a, |a| (a.cast_signed() >> 3).cast_unsigned())
    }

    #[inline(always)]
    fn wrapping_add(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        zip(a, b, u32::wrapping_add)
    }

    #[inline(always)]
    fn wrapping_mul(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        zip(a, b, u32::wrapping_mul)
    }

    #[inline(always)]
    fn to_f32(self, a: [u32; LANES]) -> [f32; LANES] {
        map(a, |a| a.cast_signed() as f32)
    }

    #[inline(always)]
    fn bits_as_f32(self, a: [u32; LANES]) -> [f32; LANES] {
        map(a, f32::from_bits)
    }

    #[inline(always)]
    fn load_words(self, from: &[u8; 2 * HALF]) -> [u32; LANES] {
        map(numbers(from), u32::from_le_bytes)
    }

    #[inline(always)]
    fn load_halves(self, low: &[u8; HALF], high: &[u8; HALF]) -> [u32; LANES] {
        let mut bytes = [0; 2 * HALF];
        bytes[..HALF].copy_from_slice(low);
        bytes[HALF..].copy_from_slice(high);
        self.load_words(&bytes)
    }

    #[inline(always)]
    fn shuffle_bytes(self, a: [u32; LANES], places: &[u8; 2 * HALF]) -> [u32; LANES] {
        let mut bytes = [0; 2 * HALF];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(a) {
            *to = word.to_le_bytes();
        }
        let shuffled = std::array::from_fn(|byte| match places[byte] {
            0x80.. => 0,
            place => bytes[byte / HALF * HALF + usize::from(place) % HALF],
        });
        self.load_words(&shuffled)
    }

    #[inline(always)]
    fn with_first(self, a: [u32; LANES], first: u32) -> [u32; LANES] {
        std::array::from_fn(|lane| if lane == 0 { first } else { a[lane] })
    }

    #[inline(always)]
    fn lower_pairs(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        [a[0], a[1], b[0], b[1], a[4], a[5], b[4], b[5]]
    }

    #[inline(always)]
    fn upper_pairs(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        [a[2], a[3], b[2], b[3], a[6], a[7], b[6], b[7]]
    }

    #[inline(always)]
    fn lower_and_upper(self, lower: [u32; LANES], upper: [u32; LANES]) -> [u32; LANES] {
        zip(lower, upper, |lower, upper| lower & 0xFFFF | upper & 0xFFFF_0000)
    }

    #[inline(always)]
    fn add_16(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        zip_16(a, b, u16::wrapping_add)
    }

    #[inline(always)]
    fn mul_lower_16(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        zip_16(a, b, u16::wrapping_mul)
    }

    #[inline(always)]
    fn mul_upper_16(self, a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        zip_16(a, b, |a, b| ((u32::from(a) * u32::from(b)) >> 16) as u16)
    }

    #[inline(always)]
    fn sum_bytes_16(self, a: [u32; LANES]) -> [u32; LANES] {
        map(a, |a| (a & 0x00FF_00FF) + (a >> 8 & 0x00FF_00FF))
    }

    #[inline(always)]
    fn dot_16(self, sum: [u32; LANES], a: [u32; LANES], b: [u32; LANES]) -> [u32; LANES] {
        std::array::from_fn(|lane| {
            let pairs = halves(a[lane]).into_iter().zip(halves(b[lane]));
            let products = pairs.map(|(a, b)| i32::from(a.cast_signed()) * i32::from(b.cast_signed()));
            products.fold(sum[lane], |sum, product| sum.wrapping_add(product.cast_unsigned()))
        })
    }

    #[inline(always)]
    fn pack_16(self, a: [f32; LANES], b: [f32; LANES]) -> [u32; LANES] {
        std::array::from_fn(|lane| {
            let from = if lane < LANES / 2 { a } else { b };
            let whole = |at: usize| from[at % LANES].round_ties_even() as i16;
            let [first, second] = [whole(2 * lane), whole(2 * lane + 1)].map(i16::cast_unsigned);
            u32::from(first) << 16 | u32::from(second)
        })
    }

    #[inline(always)]
    fn f32_as_bits(self, a: [f32; LANES]) -> [u32; LANES] {
        map(a, f32::to_bits)
    }
}
