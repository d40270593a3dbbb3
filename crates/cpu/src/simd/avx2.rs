//! AVX2 with FMA and F16C: x86-64 from Haswell and Zen on.

mod words;

use std::arch::x86_64::*;

use super::{LANES, Simd};

/// Proves that the processor has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The token, if this processor has the instructions.
    pub(crate) fn detect() -> Option<Avx2> {
        let all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        all.then_some(Avx2(()))
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn with_features<R>(work: impl FnOnce() -> R) -> R {
    work()
}

impl Simd for Avx2 {
    #[inline(always)]
    fn vectorize<R>(self, work: impl FnOnce() -> R) -> R {
        // SAFETY: `self` proves that the processor has the features.
        unsafe { with_features(work) }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> __m256 {
        // SAFETY: `self` proves AVX; the array has the 32 bytes read, which need no alignment.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, value: __m256, to: &mut [f32; LANES]) {
        // SAFETY: `self` proves AVX; the array has the 32 bytes written, which need no alignment.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), value) }
    }

    #[inline(always)]
    fn load_twice(self, from: &[f32; LANES / 2]) -> __m256 {
        // SAFETY: `self` proves AVX; the array has the 16 bytes read, which need no alignment.
        unsafe { _mm256_broadcast_ps(&_mm_loadu_ps(from.as_ptr())) }
    }

    #[inline(always)]
    fn load_f32_bytes(self, from: &[u8; 4 * LANES]) -> __m256 {
        // SAFETY: `self` proves AVX; the array has the 32 bytes read, which need no alignment.
        unsafe { _mm256_loadu_ps(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load_f16_bytes(self, from: &[u8; 2 * LANES]) -> __m256 {
        // SAFETY: `self` proves F16C; the array has the 16 bytes read, which need no alignment.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_bf16_bytes(self, from: &[u8; 2 * LANES]) -> __m256 {
        // SAFETY: `self` proves AVX2; the array has the 16 bytes read, which need no alignment.
        unsafe {
            let halves = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(halves))
        }
    }

    #[inline(always)]
    fn store_f16_bytes(self, value: __m256, to: &mut [u8; 2 * LANES]) {
        // SAFETY: `self` proves F16C; the array has the 16 bytes written, which need no alignment.
        unsafe {
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value);
            _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
        }
    }

    #[inline(always)]
    fn round_to_f16(self, value: __m256) -> __m256 {
        // SAFETY: `self` proves F16C.
        unsafe { _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value)) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: `self` proves FMA.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_min_ps(a, b) }
    }

    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }

    #[inline(always)]
    fn power_of_two(self, a: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
        }
    }

    #[inline(always)]
    fn sums(self, [a, b, c, d]: [__m256; 4]) -> [f32; 4] {
        let mut sums = [0.0; 4];
        // SAFETY: `self` proves AVX; the array has the 16 bytes written, which need no alignment.
        unsafe {
            let halves = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            let whole = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
            _mm_storeu_ps(sums.as_mut_ptr(), whole);
        }
        sums
    }

    #[inline(always)]
    fn sums_of_halves(self, [a, b, c, d]: [__m256; 4]) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            _mm256_permutevar8x32_ps(sums, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
        }
    }

    #[inline(always)]
    fn largest(self, a: __m256) -> f32 {
        // SAFETY: `self` proves AVX.
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    fn butterfly(self, stride: usize, a: __m256) -> __m256 {
        // SAFETY: `self` proves AVX.
        unsafe {
            let (partner, upper) = match stride {
                1 => (_mm256_permute_ps::<0b10_11_00_01>(a), [0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0]),
                2 => (_mm256_permute_ps::<0b01_00_11_10>(a), [0.0, 0.0, -0.0, -0.0, 0.0, 0.0, -0.0, -0.0]),
                _ => (_mm256_permute2f128_ps::<1>(a, a), [0.0, 0.0, 0.0, 0.0, -0.0, -0.0, -0.0, -0.0]),
            };
            _mm256_add_ps(partner, _mm256_xor_ps(a, _mm256_loadu_ps(upper.as_ptr())))
        }
    }

    #[inline(always)]
    fn prefetch<T>(self, items: &[T]) {
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().cast()) }
    }

    #[inline(always)]
    fn transpose(self, [a, b, c, d, e, f, g, h]: [__m256; LANES]) -> [__m256; LANES] {
        // SAFETY: `self` proves AVX.
        unsafe {
            // Columns 0, 1, 4, 5 and 2, 3, 6, 7 of two rows; then single columns of four; then of all.
            let [ab, cd] = [_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d)];
            let [ef, gh] = [_mm256_unpacklo_ps(e, f), _mm256_unpacklo_ps(g, h)];
            let [ab_high, cd_high] = [_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d)];
            let [ef_high, gh_high] = [_mm256_unpackhi_ps(e, f), _mm256_unpackhi_ps(g, h)];
            let upper = [
                _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
                _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
                _mm256_shuffle_ps::<0b01_00_01_00>(ab_high, cd_high),
                _mm256_shuffle_ps::<0b11_10_11_10>(ab_high, cd_high),
            ];
            let lower = [
                _mm256_shuffle_ps::<0b01_00_01_00>(ef, gh),
                _mm256_shuffle_ps::<0b11_10_11_10>(ef, gh),
                _mm256_shuffle_ps::<0b01_00_01_00>(ef_high, gh_high),
                _mm256_shuffle_ps::<0b11_10_11_10>(ef_high, gh_high),
            ];
            [
                _mm256_permute2f128_ps::<0x20>(upper[0], lower[0]),
                _mm256_permute2f128_ps::<0x20>(upper[1], lower[1]),
                _mm256_permute2f128_ps::<0x20>(upper[2], lower[2]),
                _mm256_permute2f128_ps::<0x20>(upper[3], lower[3]),
                _mm256_permute2f128_ps::<0x31>(upper[0], lower[0]),
                _mm256_permute2f128_ps::<0x31>(upper[1], lower[1]),
                _mm256_permute2f128_ps::<0x31>(upper[2], lower[2]),
                _mm256_permute2f128_ps::<0x31>(upper[3], lower[3]),
            ]
        }
    }
}
