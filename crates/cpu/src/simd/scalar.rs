//! Plain code for any processor: arrays of eight, which the compiler turns into whatever vectors there are.

mod words;

use half::f16;

use super::{LANES, Simd};

/// Needs nothing of the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar;

#[inline(always)]
fn map<A: Copy, B, const N: usize>(a: [A; N], f: impl Fn(A) -> B) -> [B; N] {
    a.map(f)
}

#[inline(always)]
fn zip<A: Copy, B>(a: [A; LANES], b: [A; LANES], f: impl Fn(A, A) -> B) -> [B; LANES] {
    std::array::from_fn(|lane| f(a[lane], b[lane]))
}

#[inline(always)]
fn numbers<const BYTES: usize, const ALL: usize>(bytes: &[u8; ALL]) -> [[u8; BYTES]; LANES] {
    std::array::from_fn(|lane| std::array::from_fn(|byte| bytes[lane * BYTES + byte]))
}

impl Simd for Scalar {
    const PLAIN: bool = true;

    #[inline(always)]
    fn vectorize<R>(self, work: impl FnOnce() -> R) -> R {
        work()
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; LANES] {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> [f32; LANES] {
        *from
    }

    #[inline(always)]
    fn store(self, value: [f32; LANES], to: &mut [f32; LANES]) {
        *to = value;
    }

    #[inline(always)]
    fn load_twice(self, from: &[f32; LANES / 2]) -> [f32; LANES] {
        std::array::from_fn(|lane| from[lane % (LANES / 2)])
    }

    #[inline(always)]
    fn load_f32_bytes(self, from: &[u8; 4 * LANES]) -> [f32; LANES] {
        map(numbers(from), f32::from_le_bytes)
    }

    #[inline(always)]
    fn load_f16_bytes(self, from: &[u8; 2 * LANES]) -> [f32; LANES] {
        map(numbers(from), |bytes| f16::from_le_bytes(bytes).to_f32())
    }

    #[inline(always)]
    fn load_bf16_bytes(self, from: &[u8; 2 * LANES]) -> [f32; LANES] {
        map(numbers(from), |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16))
    }

    #[inline(always)]
    fn store_f16_bytes(self, value: [f32; LANES], to: &mut [u8; 2 * LANES]) {
        for (to, value) in to.as_chunks_mut().0.iter_mut().zip(value) {
            *to = f16::from_f32(value).to_le_bytes();
        }
    }

    #[inline(always)]
    fn round_to_f16(self, value: [f32; LANES]) -> [f32; LANES] {
        map(value, |value| f16::from_f32(value).to_f32())
    }

    #[inline(always)]
    fn add(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; LANES], b: [f32; LANES], c: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }

    #[inline(always)]
    fn max(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        zip(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn round(self, a: [f32; LANES]) -> [f32; LANES] {
        map(a, f32::round_ties_even)
    }

    #[inline(always)]
    fn power_of_two(self, a: [f32; LANES]) -> [f32; LANES] {
        map(a, |a| f32::from_bits(((a as i32 + 127) as u32) << 23))
    }

    #[inline(always)]
    fn sums(self, vectors: [[f32; LANES]; 4]) -> [f32; 4] {
        map(vectors, |v| ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])))
    }

    #[inline(always)]
    fn sums_of_halves(self, vectors: [[f32; LANES]; 4]) -> [f32; LANES] {
        std::array::from_fn(|lane| {
            let v = &vectors[lane / 2][lane % 2 * 4..];
            (v[0] + v[1]) + (v[2] + v[3])
        })
    }

    #[inline(always)]
    fn largest(self, a: [f32; LANES]) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }

    #[inline(always)]
    fn butterfly(self, stride: usize, a: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| {
            if lane & stride == 0 { a[lane] + a[lane + stride] } else { a[lane - stride] - a[lane] }
        })
    }

    #[inline(always)]
    fn prefetch<T>(self, _: &[T]) {}
}
