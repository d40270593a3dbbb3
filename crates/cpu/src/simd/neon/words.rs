//! Words in NEON.

use std::arch::aarch64::*;

use super::{Neon, both, each};
use crate::simd::LANES;
use crate::simd::words::{HALF, Words};

#[inline(always)]
fn load_half(from: &[u8; HALF]) -> uint8x16_t {
    // SAFETY: aarch64 has NEON; the array has the 16 bytes read, which need no alignment.
    unsafe { vld1q_u8(from.as_ptr()) }
}

/// As numbers of 16 bits.
#[inline(always)]
fn unsigned_16(a: [uint32x4_t; 2]) -> [uint16x8_t; 2] {
    // SAFETY: aarch64 has NEON.
    unsafe { each(a, |a| vreinterpretq_u16_u32(a)) }
}

/// `f` of the halves of `a` and `b` as numbers of 16 bits.
#[inline(always)]
fn both_16(
    a: [uint32x4_t; 2],
    b: [uint32x4_t; 2],
    f: impl Fn(uint16x8_t, uint16x8_t) -> uint16x8_t,
) -> [uint32x4_t; 2] {
    // SAFETY: aarch64 has NEON.
    unsafe { both(unsigned_16(a), unsigned_16(b), |a, b| vreinterpretq_u32_u16(f(a, b))) }
}

/// `f` of the halves of `a` and `b` as pairs of lanes.
#[inline(always)]
fn both_pairs(
    a: [uint32x4_t; 2],
    b: [uint32x4_t; 2],
    f: impl Fn(uint64x2_t, uint64x2_t) -> uint64x2_t,
) -> [uint32x4_t; 2] {
    // SAFETY: aarch64 has NEON.
    unsafe {
        let pairs = |a| each(a, |a| vreinterpretq_u64_u32(a));
        both(pairs(a), pairs(b), |a, b| vreinterpretq_u32_u64(f(a, b)))
    }
}

/// Shifts as the instruction takes them, which looks at their last byte as a signed number: 32 is enough.
#[inline(always)]
fn places(bits: uint32x4_t) -> int32x4_t {
    // SAFETY: aarch64 has NEON.
    unsafe { vreinterpretq_s32_u32(vminq_u32(bits, vdupq_n_u32(32))) }
}

impl Words for Neon {
    type F32 = [float32x4_t; 2];
    type U32 = [uint32x4_t; 2];

    #[inline(always)]
    fn splat_u32(self, value: u32) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { [vdupq_n_u32(value); 2] }
    }

    #[inline(always)]
    fn load_u32(self, from: &[u32; LANES]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON; the arrays have the 16 bytes read, which need no alignment.
        unsafe {
            let (halves, _) = from.as_chunks::<{ LANES / 2 }>();
            each([&halves[0], &halves[1]], |half| vld1q_u32(half.as_ptr()))
        }
    }

    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON; the array has the 8 bytes read, which need no alignment.
        unsafe {
            let all = vmovl_u8(vld1_u8(from.as_ptr()));
            [vmovl_u16(vget_low_u16(all)), vmovl_high_u16(all)]
        }
    }

    #[inline(always)]
    fn load_words(self, from: &[u8; 2 * HALF]) -> [uint32x4_t; 2] {
        let (halves, _) = from.as_chunks();
        self.load_halves(&halves[0], &halves[1])
    }

    #[inline(always)]
    fn load_halves(self, low: &[u8; HALF], high: &[u8; HALF]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each([low, high], |half| vreinterpretq_u32_u8(load_half(half))) }
    }

    #[inline(always)]
    fn and(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| vandq_u32(a, b)) }
    }

    #[inline(always)]
    fn or(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| vorrq_u32(a, b)) }
    }

    #[inline(always)]
    fn xor(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| veorq_u32(a, b)) }
    }

    #[inline(always)]
    fn shl(self, a: [uint32x4_t; 2], bits: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, bits, |a, bits| vshlq_u32(a, places(bits))) }
    }

    #[inline(always)]
    fn shr(self, a: [uint32x4_t; 2], bits: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, bits, |a, bits| vshlq_u32(a, vnegq_s32(places(bits)))) }
    }

    #[inline(always)]
    fn shr_3_signed(self, a: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each(a, |a| vreinterpretq_u32_s32(vshrq_n_s32::<3>(vreinterpretq_s32_u32(a)))) }
    }

    #[inline(always)]
    fn wrapping_add(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| vaddq_u32(a, b)) }
    }

    #[inline(always)]
    fn wrapping_mul(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(a, b, |a, b| vmulq_u32(a, b)) }
    }

    #[inline(always)]
    fn shuffle_bytes(self, a: [uint32x4_t; 2], places: &[u8; 2 * HALF]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            let (halves, _) = places.as_chunks();
            both(a, [&halves[0], &halves[1]], |a, places| {
                // The instruction gives 0 from 16 on.
                let places = vandq_u8(load_half(places), vdupq_n_u8(0x8F));
                vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(a), places))
            })
        }
    }

    #[inline(always)]
    fn with_first(self, [low, high]: [uint32x4_t; 2], first: u32) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { [vsetq_lane_u32::<0>(first, low), high] }
    }

    #[inline(always)]
    fn lower_pairs(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both_pairs(a, b, |a, b| vtrn1q_u64(a, b)) }
    }

    #[inline(always)]
    fn upper_pairs(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both_pairs(a, b, |a, b| vtrn2q_u64(a, b)) }
    }

    #[inline(always)]
    fn lower_and_upper(self, lower: [uint32x4_t; 2], upper: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both(lower, upper, |lower, upper| vbslq_u32(vdupq_n_u32(0xFFFF), lower, upper)) }
    }

    #[inline(always)]
    fn add_16(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both_16(a, b, |a, b| vaddq_u16(a, b)) }
    }

    #[inline(always)]
    fn mul_lower_16(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { both_16(a, b, |a, b| vmulq_u16(a, b)) }
    }

    #[inline(always)]
    fn mul_upper_16(self, a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            both_16(a, b, |a, b| {
                let low = vmull_u16(vget_low_u16(a), vget_low_u16(b));
                let high = vmull_high_u16(a, b);
                vuzp2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high))
            })
        }
    }

    #[inline(always)]
    fn sum_bytes_16(self, a: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each(a, |a| vreinterpretq_u32_u16(vpaddlq_u8(vreinterpretq_u8_u32(a)))) }
    }

    #[inline(always)]
    fn dot_16(self, sum: [uint32x4_t; 2], a: [uint32x4_t; 2], b: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            let signed = |a: [uint32x4_t; 2]| each(a, |a| vreinterpretq_s16_u32(a));
            let products = both(signed(a), signed(b), |a, b| {
                let low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
                vreinterpretq_u32_s32(vpaddq_s32(low, vmull_high_s16(a, b)))
            });
            self.wrapping_add(sum, products)
        }
    }

    #[inline(always)]
    fn pack_16(self, a: [float32x4_t; 2], b: [float32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            each([a, b], |numbers| {
                let [low, high] = each(numbers, |half| vqmovn_s32(vcvtnq_s32_f32(half)));
                vreinterpretq_u32_s16(vrev32q_s16(vcombine_s16(low, high)))
            })
        }
    }

    #[inline(always)]
    fn to_f32(self, a: [uint32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each(a, |a| vcvtq_f32_s32(vreinterpretq_s32_u32(a))) }
    }

    #[inline(always)]
    fn bits_as_f32(self, a: [uint32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each(a, |a| vreinterpretq_f32_u32(a)) }
    }

    #[inline(always)]
    fn f32_as_bits(self, a: [float32x4_t; 2]) -> [uint32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { each(a, |a| vreinterpretq_u32_f32(a)) }
    }
}
