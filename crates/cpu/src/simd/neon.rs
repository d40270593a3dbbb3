//! NEON: aarch64, in pairs of registers of 128 bits.

mod words;

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use super::{LANES, Simd};

/// Proves that the processor has NEON and that its words are little-endian.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

impl Neon {
    /// The token, if this processor has the instructions.
    pub(crate) fn detect() -> Option<Neon> {
        (cfg!(target_endian = "little") && is_aarch64_feature_detected!("neon")).then_some(Neon(()))
    }
}

/// `f` of each half.
#[inline(always)]
fn each<A, B>([low, high]: [A; 2], f: impl Fn(A) -> B) -> [B; 2] {
    [f(low), f(high)]
}

/// `f` of the halves of `a` and `b`.
#[inline(always)]
fn both<A, B, C>([a_low, a_high]: [A; 2], [b_low, b_high]: [B; 2], f: impl Fn(A, B) -> C) -> [C; 2] {
    [f(a_low, b_low), f(a_high, b_high)]
}

#[inline(always)]
fn load_four(from: &[f32; LANES / 2]) -> float32x4_t {
    // SAFETY: aarch64 has NEON; the array has the 16 bytes read, which need no alignment.
    unsafe { vld1q_f32(from.as_ptr()) }
}

#[inline(always)]
fn load_16_bits(from: &[u8; 2 * LANES]) -> [uint16x4_t; 2] {
    // SAFETY: aarch64 has NEON; the array has the 16 bytes read, which need no alignment.
    unsafe {
        let all = vreinterpretq_u16_u8(vld1q_u8(from.as_ptr()));
        [vget_low_u16(all), vget_high_u16(all)]
    }
}

/// Columns of four rows of four.
#[inline(always)]
fn transpose_four([a, b, c, d]: [float32x4_t; 4]) -> [float32x4_t; 4] {
    // SAFETY: aarch64 has NEON.
    unsafe {
        let pairs = |a, b| [vtrn1q_f32(a, b), vtrn2q_f32(a, b)].map(|pair| vreinterpretq_f64_f32(pair));
        let [[ab_even, ab_odd], [cd_even, cd_odd]] = [pairs(a, b), pairs(c, d)];
        [
            vtrn1q_f64(ab_even, cd_even),
            vtrn1q_f64(ab_odd, cd_odd),
            vtrn2q_f64(ab_even, cd_even),
            vtrn2q_f64(ab_odd, cd_odd),
        ]
        .map(|column| vreinterpretq_f32_f64(column))
    }
}

impl Simd for Neon {
    #[inline(always)]
    fn vectorize<R>(self, work: impl FnOnce() -> R) -> R {
        // All code for aarch64 is compiled with NEON.
        work()
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { [vdupq_n_f32(value); 2] }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> [float32x4_t; 2] {
        let (halves, _) = from.as_chunks();
        [load_four(&halves[0]), load_four(&halves[1])]
    }

    #[inline(always)]
    fn store(self, value: [float32x4_t; 2], to: &mut [f32; LANES]) {
        // SAFETY: `self` proves NEON; the array has the 16 bytes written, which need no alignment.
        unsafe {
            for (half, to) in value.into_iter().zip(to.as_chunks_mut::<{ LANES / 2 }>().0) {
                vst1q_f32(to.as_mut_ptr(), half)
            }
        }
    }

    #[inline(always)]
    fn load_twice(self, from: &[f32; LANES / 2]) -> [float32x4_t; 2] {
        [load_four(from); 2]
    }

    #[inline(always)]
    fn load_f32_bytes(self, from: &[u8; 4 * LANES]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON; the arrays have the 16 bytes read, which need no alignment.
        unsafe {
            let (halves, _) = from.as_chunks::<{ 2 * LANES }>();
            each([&halves[0], &halves[1]], |half| vreinterpretq_f32_u8(vld1q_u8(half.as_ptr())))
        }
    }

    #[inline(always)]
    fn load_f16_bytes(self, from: &[u8; 2 * LANES]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each(load_16_bits(from), |half| vcvt_f32_f16(vreinterpret_f16_u16(half))) }
    }

    #[inline(always)]
    fn load_bf16_bytes(self, from: &[u8; 2 * LANES]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each(load_16_bits(from), |half| vreinterpretq_f32_u32(vshll_n_u16::<16>(half))) }
    }

    #[inline(always)]
    fn store_f16_bytes(self, value: [float32x4_t; 2], to: &mut [u8; 2 * LANES]) {
        // SAFETY: `self` proves NEON; the array has the 16 bytes written, which need no alignment.
        unsafe {
            let [low, high] = each(value, |half| vreinterpret_u8_f16(vcvt_f16_f32(half)));
            vst1q_u8(to.as_mut_ptr(), vcombine_u8(low, high))
        }
    }

    #[inline(always)]
    fn round_to_f16(self, value: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each(value, |half| vcvt_f32_f16(vcvt_f16_f32(half))) }
    }

    #[inline(always)]
    fn add(self, a: [float32x4_t; 2], b: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| vaddq_f32(a, b)) }
    }

    #[inline(always)]
    fn sub(self, a: [float32x4_t; 2], b: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| vsubq_f32(a, b)) }
    }

    #[inline(always)]
    fn mul(self, a: [float32x4_t; 2], b: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| vmulq_f32(a, b)) }
    }

    #[inline(always)]
    fn div(self, a: [float32x4_t; 2], b: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| vdivq_f32(a, b)) }
    }

    #[inline(always)]
    fn mul_add(self, a: [float32x4_t; 2], b: [float32x4_t; 2], c: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])] }
    }

    #[inline(always)]
    fn max(self, a: [float32x4_t; 2], b: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            // The instruction for the maximum would give NaN.
            both(a, b, |a, b| vbslq_f32(vcgtq_f32(a, b), a, b))
        }
    }

    #[inline(always)]
    fn min(self, a: [float32x4_t; 2], b: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| vbslq_f32(vcltq_f32(a, b), a, b)) }
    }

    #[inline(always)]
    fn round(self, a: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each(a, |a| vrndnq_f32(a)) }
    }

    #[inline(always)]
    fn power_of_two(self, a: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            each(a, |a| {
                let exponent = vaddq_s32(vcvtnq_s32_f32(a), vdupq_n_s32(127));
                vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent))
            })
        }
    }

    #[inline(always)]
    fn sums(self, [a, b, c, d]: [[float32x4_t; 2]; 4]) -> [f32; 4] {
        // SAFETY: `self` proves NEON; the array has the 16 bytes written, which need no alignment.
        unsafe {
            let half = |half: usize| vpaddq_f32(vpaddq_f32(a[half], b[half]), vpaddq_f32(c[half], d[half]));
            let mut sums = [0.0; 4];
            vst1q_f32(sums.as_mut_ptr(), vaddq_f32(half(0), half(1)));
            sums
        }
    }

    #[inline(always)]
    fn sums_of_halves(self, [a, b, c, d]: [[float32x4_t; 2]; 4]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            let pair = |a: [float32x4_t; 2], b: [float32x4_t; 2]| {
                vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(b[0], b[1]))
            };
            [pair(a, b), pair(c, d)]
        }
    }

    #[inline(always)]
    fn largest(self, [low, high]: [float32x4_t; 2]) -> f32 {
        // SAFETY: `self` proves NEON.
        unsafe { vmaxnmvq_f32(vmaxnmq_f32(low, high)) }
    }

    #[inline(always)]
    fn butterfly(self, stride: usize, [low, high]: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            match stride {
                1 => each([low, high], |a| add_signed(vrev64q_f32(a), a, &[0.0, -0.0, 0.0, -0.0])),
                2 => each([low, high], |a| add_signed(vextq_f32::<2>(a, a), a, &[0.0, 0.0, -0.0, -0.0])),
                _ => [vaddq_f32(low, high), vsubq_f32(low, high)],
            }
        }
    }

    #[inline(always)]
    fn prefetch<T>(self, items: &[T]) {
        // SAFETY: a hint, which reads nothing.
        unsafe {
            asm!("prfm pldl1keep, [{}]", in(reg) items.as_ptr(), options(nostack, preserves_flags, readonly));
        }
    }

    #[inline(always)]
    fn transpose(self, rows: [[float32x4_t; 2]; LANES]) -> [[float32x4_t; 2]; LANES] {
        let [a, b, c, d, e, f, g, h] = rows;
        let quarter = |half: usize| {
            let upper = transpose_four([a[half], b[half], c[half], d[half]]);
            let lower = transpose_four([e[half], f[half], g[half], h[half]]);
            std::array::from_fn::<_, { LANES / 2 }, _>(|column| [upper[column], lower[column]])
        };
        let ([a, b, c, d], [e, f, g, h]) = (quarter(0), quarter(1));
        [a, b, c, d, e, f, g, h]
    }
}

/// `partner + a`, with the signs of `a` changed where `signs` has a minus.
#[inline(always)]
fn add_signed(partner: float32x4_t, a: float32x4_t, signs: &[f32; LANES / 2]) -> float32x4_t {
    // SAFETY: aarch64 has NEON.
    unsafe {
        let signs = vreinterpretq_u32_f32(load_four(signs));
        vaddq_f32(partner, vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(a), signs)))
    }
}
