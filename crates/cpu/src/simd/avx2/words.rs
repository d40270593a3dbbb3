//! Words in AVX2.

use std::arch::x86_64::*;

use super::Avx2;
use crate::simd::LANES;
use crate::simd::words::{HALF, Words};

impl Words for Avx2 {
    type F32 = __m256;
    type U32 = __m256i;

    #[inline(always)]
    fn splat_u32(self, value: u32) -> __m256i {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_set1_epi32(value.cast_signed()) }
    }

    #[inline(always)]
    fn load_u32(self, from: &[u32; LANES]) -> __m256i {
        // SAFETY: `self` proves AVX; the array has the 32 bytes read, which need no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> __m256i {
        // SAFETY: `self` proves AVX2; the array has the 8 bytes read, which need no alignment.
        unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn shl(self, a: __m256i, bits: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_sllv_epi32(a, bits) }
    }

    #[inline(always)]
    fn shr(self, a: __m256i, bits: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srlv_epi32(a, bits) }
    }

    #[inline(always)]
    fn shr_3_signed(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srai_epi32::<3>(a) }
    }

    #[inline(always)]
    fn wrapping_add(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn wrapping_mul(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mullo_epi32(a, b) }
    }

    #[inline(always)]
    fn to_f32(self, a: __m256i) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_cvtepi32_ps(a) }
    }

    #[inline(always)]
    fn bits_as_f32(self, a: __m256i) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_castsi256_ps(a) }
    }

    #[inline(always)]
    fn load_words(self, from: &[u8; 2 * HALF]) -> __m256i {
        // SAFETY: `self` proves AVX; the array has the 32 bytes read, which need no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load_halves(self, low: &[u8; HALF], high: &[u8; HALF]) -> __m256i {
        // SAFETY: `self` proves AVX2; the arrays have the 16 bytes read, which need no alignment.
        unsafe {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(low.as_ptr().cast()));
            _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high.as_ptr().cast()))
        }
    }

    #[inline(always)]
    fn shuffle_bytes(self, a: __m256i, places: &[u8; 2 * HALF]) -> __m256i {
        // SAFETY: `self` proves AVX2; the array has the 32 bytes read, which need no alignment.
        unsafe { _mm256_shuffle_epi8(a, _mm256_loadu_si256(places.as_ptr().cast())) }
    }

    #[inline(always)]
    fn with_first(self, a: __m256i, first: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_blend_epi32::<1>(a, _mm256_set1_epi32(first.cast_signed())) }
    }

    #[inline(always)]
    fn lower_pairs(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_unpacklo_epi64(a, b) }
    }

    #[inline(always)]
    fn upper_pairs(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_unpackhi_epi64(a, b) }
    }

    #[inline(always)]
    fn lower_and_upper(self, lower: __m256i, upper: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_blend_epi16::<0b1010_1010>(lower, upper) }
    }

    #[inline(always)]
    fn add_16(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi16(a, b) }
    }

    #[inline(always)]
    fn mul_lower_16(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mullo_epi16(a, b) }
    }

    #[inline(always)]
    fn mul_upper_16(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mulhi_epu16(a, b) }
    }

    #[inline(always)]
    fn sum_bytes_16(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_maddubs_epi16(a, _mm256_set1_epi8(1)) }
    }

    #[inline(always)]
    fn dot_16(self, sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)) }
    }

    #[inline(always)]
    fn pack_16(self, a: __m256, b: __m256) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let packed = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
            // The pack takes turns between a and b every 64 bits.
            let pairs = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
            _mm256_or_si256(_mm256_slli_epi32::<16>(pairs), _mm256_srli_epi32::<16>(pairs))
        }
    }

    #[inline(always)]
    fn f32_as_bits(self, a: __m256) -> __m256i {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_castps_si256(a) }
    }
}
