//! AVX-512 with VNNI in vectors of 256 bits: x86-64 from Ice Lake and Zen 4 on.
//!
//! What AVX2 has is used as it is. Compiled with these features, its instructions have 32 registers instead of
//! 16, `and`, `or` and `xor` that follow each other become one instruction, and a product of numbers of 16
//! bits that is added to a sum becomes one with the addition.

use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::words::{HALF, Words};
use super::{LANES, Simd};

/// Proves that the processor has AVX2, FMA, F16C and F, BW, DQ, VL and VNNI of AVX-512.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(Avx2);

impl Avx512 {
    /// The token, if this processor has the instructions.
    pub(crate) fn detect() -> Option<Avx512> {
        let all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        Avx2::detect().filter(|_| all).map(Avx512)
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn with_features<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Methods that are those of AVX2.
macro_rules! as_avx2 {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {$(
        #[inline(always)]
        fn $name(self, $($argument: $kind),*) $(-> $result)? {
            self.0.$name($($argument),*)
        }
    )*};
}

impl Simd for Avx512 {
    #[inline(always)]
    fn vectorize<R>(self, work: impl FnOnce() -> R) -> R {
        // SAFETY: `self` proves that the processor has the features.
        unsafe { with_features(work) }
    }

    as_avx2! {
        splat(value: f32) -> __m256;
        load(from: &[f32; LANES]) -> __m256;
        store(value: __m256, to: &mut [f32; LANES]);
        load_twice(from: &[f32; LANES / 2]) -> __m256;
        load_f32_bytes(from: &[u8; 4 * LANES]) -> __m256;
        load_f16_bytes(from: &[u8; 2 * LANES]) -> __m256;
        load_bf16_bytes(from: &[u8; 2 * LANES]) -> __m256;
        store_f16_bytes(value: __m256, to: &mut [u8; 2 * LANES]);
        round_to_f16(value: __m256) -> __m256;
        add(a: __m256, b: __m256) -> __m256;
        sub(a: __m256, b: __m256) -> __m256;
        mul(a: __m256, b: __m256) -> __m256;
        div(a: __m256, b: __m256) -> __m256;
        mul_add(a: __m256, b: __m256, c: __m256) -> __m256;
        max(a: __m256, b: __m256) -> __m256;
        min(a: __m256, b: __m256) -> __m256;
        round(a: __m256) -> __m256;
        power_of_two(a: __m256) -> __m256;
        sums(vectors: [__m256; 4]) -> [f32; 4];
        sums_of_halves(vectors: [__m256; 4]) -> __m256;
        largest(a: __m256) -> f32;
        butterfly(stride: usize, a: __m256) -> __m256;
        transpose(rows: [__m256; LANES]) -> [__m256; LANES];
    }

    #[inline(always)]
    fn prefetch<T>(self, items: &[T]) {
        self.0.prefetch(items);
    }
}

impl Words for Avx512 {
    type F32 = __m256;
    type U32 = __m256i;

    as_avx2! {
        splat_u32(value: u32) -> __m256i;
        load_u32(from: &[u32; LANES]) -> __m256i;
        load_u8(from: &[u8; LANES]) -> __m256i;
        load_words(from: &[u8; 2 * HALF]) -> __m256i;
        load_halves(low: &[u8; HALF], high: &[u8; HALF]) -> __m256i;
        and(a: __m256i, b: __m256i) -> __m256i;
        or(a: __m256i, b: __m256i) -> __m256i;
        xor(a: __m256i, b: __m256i) -> __m256i;
        shl(a: __m256i, bits: __m256i) -> __m256i;
        shr(a: __m256i, bits: __m256i) -> __m256i;
        shr_3_signed(a: __m256i) -> __m256i;
        wrapping_add(a: __m256i, b: __m256i) -> __m256i;
        wrapping_mul(a: __m256i, b: __m256i) -> __m256i;
        shuffle_bytes(a: __m256i, places: &[u8; 2 * HALF]) -> __m256i;
        with_first(a: __m256i, first: u32) -> __m256i;
        lower_pairs(a: __m256i, b: __m256i) -> __m256i;
        upper_pairs(a: __m256i, b: __m256i) -> __m256i;
        add_16(a: __m256i, b: __m256i) -> __m256i;
        mul_lower_16(a: __m256i, b: __m256i) -> __m256i;
        mul_upper_16(a: __m256i, b: __m256i) -> __m256i;
        sum_bytes_16(a: __m256i) -> __m256i;
        dot_16(sum: __m256i, a: __m256i, b: __m256i) -> __m256i;
        pack_16(a: __m256, b: __m256) -> __m256i;
        to_f32(a: __m256i) -> __m256;
        bits_as_f32(a: __m256i) -> __m256;
        f32_as_bits(a: __m256) -> __m256i;
    }

    #[inline(always)]
    fn lower_and_upper(self, lower: __m256i, upper: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX-512 F and VL.
        unsafe {
            // Bits of `lower` where the mask has ones, else of `upper`. Shuffles and blends of 16 bits have one
            // port on Intel's processors, which the decoding of windows needs.
            _mm256_ternarylogic_epi32::<0b1100_1010>(_mm256_set1_epi32(0xFFFF), lower, upper)
        }
    }
}
