//! Words: what is done with vectors of bits, bytes and whole numbers.
//!
//! A vector of eight `u32` also holds sixteen numbers of 16 bits (a lane's *lower* and *upper* one) and 32
//! bytes. What moves bytes does so within each half of 16 bytes, as the processors' shuffles do.

use super::LANES;

/// Bytes of a half of a vector.
pub(crate) const HALF: usize = 16;

/// The operations on words of a [`Simd`](super::Simd) level.
pub(crate) trait Words: Copy {
    /// Eight `f32`.
    type F32: Copy;
    /// Eight `u32`.
    type U32: Copy;

    /// The same number in all lanes.
    fn splat_u32(self, value: u32) -> Self::U32;
    /// Lane i is `from[i]`.
    fn load_u32(self, from: &[u32; LANES]) -> Self::U32;
    /// Lane i is `from[i]`.
    fn load_u8(self, from: &[u8; LANES]) -> Self::U32;
    /// Lane i is the little-endian word i of `from`.
    fn load_words(self, from: &[u8; 2 * HALF]) -> Self::U32;
    /// Little-endian words: four from `low`, four from `high`.
    fn load_halves(self, low: &[u8; HALF], high: &[u8; HALF]) -> Self::U32;

    /// `a & b`.
    fn and(self, a: Self::U32, b: Self::U32) -> Self::U32;
    /// `a | b`.
    fn or(self, a: Self::U32, b: Self::U32) -> Self::U32;
    /// `a ^ b`.
    fn xor(self, a: Self::U32, b: Self::U32) -> Self::U32;
    /// `a << bits`, lane by lane; 0 from 32 on.
    fn shl(self, a: Self::U32, bits: Self::U32) -> Self::U32;
    /// `a >> bits`, lane by lane; 0 from 32 on.
    fn shr(self, a: Self::U32, bits: Self::U32) -> Self::U32;
    /// `a >> 3` as signed numbers.
    fn shr_3_signed(self, a: Self::U32) -> Self::U32;
    /// `a + b` modulo 2^32.
    fn wrapping_add(self, a: Self::U32, b: Self::U32) -> Self::U32;
    /// `a * b` modulo 2^32.
    fn wrapping_mul(self, a: Self::U32, b: Self::U32) -> Self::U32;

    /// Byte i of each half becomes the half's byte `places[i]`, or 0 where that is 128 or more.
    fn shuffle_bytes(self, a: Self::U32, places: &[u8; 2 * HALF]) -> Self::U32;
    /// Lane 0 becomes `first`.
    fn with_first(self, a: Self::U32, first: u32) -> Self::U32;
    /// In each half the lower two lanes of `a`, then the lower two of `b`.
    fn lower_pairs(self, a: Self::U32, b: Self::U32) -> Self::U32;
    /// In each half the upper two lanes of `a`, then the upper two of `b`.
    fn upper_pairs(self, a: Self::U32, b: Self::U32) -> Self::U32;
    /// In each lane the lower 16 bits of `lower` and the upper 16 bits of `upper`.
    fn lower_and_upper(self, lower: Self::U32, upper: Self::U32) -> Self::U32;

    /// `a + b` modulo 2^16, sixteen times.
    fn add_16(self, a: Self::U32, b: Self::U32) -> Self::U32;
    /// The lower 16 bits of the products of sixteen numbers.
    fn mul_lower_16(self, a: Self::U32, b: Self::U32) -> Self::U32;
    /// The upper 16 bits of the products of sixteen unsigned numbers.
    fn mul_upper_16(self, a: Self::U32, b: Self::U32) -> Self::U32;
    /// The sum of the two bytes of each of sixteen numbers.
    fn sum_bytes_16(self, a: Self::U32) -> Self::U32;
    /// `sum + a.lower b.lower + a.upper b.upper` modulo 2^32, of signed numbers of 16 bits.
    fn dot_16(self, sum: Self::U32, a: Self::U32, b: Self::U32) -> Self::U32;
    /// Sixteen numbers rounded to the nearest whole one of 16 bits, ties to even: lane i has number 2 i above
    /// number 2 i + 1. `a` has the first eight. What is no number, or too large, gives some number.
    fn pack_16(self, a: Self::F32, b: Self::F32) -> Self::U32;

    /// As signed numbers.
    fn to_f32(self, a: Self::U32) -> Self::F32;
    /// The numbers that have these bits.
    fn bits_as_f32(self, a: Self::U32) -> Self::F32;
    /// The bits of numbers.
    fn f32_as_bits(self, a: Self::F32) -> Self::U32;
}

#[cfg(test)]
mod tests {
    use proptest::array::uniform32;
    use proptest::prelude::*;

    use super::*;
    use crate::simd::Simd;
    use crate::simd::twins::same;

    proptest! {
        #[test]
        fn words_are_those_of_plain_code(bytes in uniform32(any::<u8>()), words in uniform32(any::<u32>())) {
            let a: [u32; LANES] = *words.first_chunk().unwrap();
            let b: [u32; LANES] = *words[8..].first_chunk().unwrap();
            let shifts = b.map(|b| b >> (b % 32));
            let halves = [bytes.first_chunk().unwrap(), bytes.last_chunk().unwrap()];
            macro_rules! same_words {
                (|$simd:ident| $words:expr) => {
                    same!(|$simd| $simd.bits_as_f32($words))
                };
            }
            same_words!(|simd| simd.splat_u32(a[0]));
            same_words!(|simd| simd.load_words(&bytes));
            same_words!(|simd| simd.load_halves(halves[1], halves[0]));
            same_words!(|simd| simd.and(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.or(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.xor(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.shl(simd.load_u32(&a), simd.load_u32(&shifts)));
            same_words!(|simd| simd.shr(simd.load_u32(&a), simd.load_u32(&shifts)));
            same_words!(|simd| simd.shr_3_signed(simd.load_u32(&a)));
            same_words!(|simd| simd.wrapping_add(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.wrapping_mul(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.shuffle_bytes(simd.load_u32(&a), &bytes));
            same_words!(|simd| simd.with_first(simd.load_u32(&a), b[3]));
            same_words!(|simd| simd.lower_pairs(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.upper_pairs(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.lower_and_upper(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.add_16(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.mul_lower_16(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.mul_upper_16(simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| simd.sum_bytes_16(simd.load_u32(&a)));
            same_words!(|simd| simd.dot_16(simd.splat_u32(a[5]), simd.load_u32(&a), simd.load_u32(&b)));
            same_words!(|simd| {
                simd.dot_16(simd.splat_u32(a[5]), simd.splat_u32(0x8000_8000), simd.splat_u32(0x8000_8000))
            });
            same_words!(|simd| simd.f32_as_bits(simd.bits_as_f32(simd.load_u32(&a))));
            same!(|simd| simd.to_f32(simd.load_u8(bytes.first_chunk().unwrap())));
            same!(|simd| simd.to_f32(simd.load_u32(&a)));
        }

        #[test]
        fn numbers_are_packed_as_plain_code_packs_them(numbers in uniform32(-32768.0_f32..32767.0)) {
            let a: [f32; LANES] = *numbers.first_chunk().unwrap();
            let b: [f32; LANES] = *numbers[8..].first_chunk().unwrap();
            same!(|simd| simd.bits_as_f32(simd.pack_16(simd.load(&a), simd.load(&b))));
            let halves = a.map(|a| a.trunc() + 0.5);
            same!(|simd| simd.bits_as_f32(simd.pack_16(simd.load(&halves), simd.load(&b))));
        }
    }
}
