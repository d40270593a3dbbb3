//! Functions of vectors, written once over the instructions.

use super::{LANES, Simd};

/// Up to eight numbers, followed by zeros.
#[inline(always)]
pub(crate) fn padded(numbers: &[f32]) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    all[..numbers.len()].copy_from_slice(numbers);
    all
}

/// Vectors of numbers.
#[inline(always)]
pub(crate) fn load<S: Simd, const N: usize>(simd: S, numbers: &[[f32; LANES]; N]) -> [S::F32; N] {
    let mut vectors = [simd.splat(0.0); N];
    for (vector, numbers) in vectors.iter_mut().zip(numbers) {
        *vector = simd.load(numbers);
    }
    vectors
}

/// Numbers of vectors.
#[inline(always)]
pub(crate) fn store<S: Simd, const N: usize>(simd: S, vectors: [S::F32; N], numbers: &mut [[f32; LANES]; N]) {
    for (vector, numbers) in vectors.into_iter().zip(numbers) {
        simd.store(vector, numbers);
    }
}

/// `out[i] = f(a[i], b[i])`; numbers beyond the last whole vector go through `f` in a padded one.
#[inline(always)]
pub(crate) fn zip<S: Simd>(
    simd: S,
    (a, b): (&[f32], &[f32]),
    out: &mut [f32],
    f: impl Fn(S::F32, S::F32) -> S::F32,
) {
    let (a, a_rest) = a.as_chunks();
    let (b, b_rest) = b.as_chunks();
    let (out, out_rest) = out.as_chunks_mut();
    for ((a, b), out) in a.iter().zip(b).zip(out) {
        simd.store(f(simd.load(a), simd.load(b)), out);
    }
    if !out_rest.is_empty() {
        let mut last = [0.0; LANES];
        simd.store(f(simd.load(&padded(a_rest)), simd.load(&padded(b_rest))), &mut last);
        out_rest.copy_from_slice(&last[..out_rest.len()]);
    }
}

/// All lanes added up, in the order of [`Simd::sums`].
#[inline(always)]
pub(crate) fn sum<S: Simd>(simd: S, a: S::F32) -> f32 {
    let zero = simd.splat(0.0);
    simd.sums([a, zero, zero, zero])[0]
}

/// `e^x`, within 2 units in the last place; x is clamped to -87.3 .. 88, whose powers are normal numbers.
///
/// `x = n ln 2 + r` with whole n and `|r| <= ln 2 / 2`, and `e^r` is its Taylor series up to `r^7 / 7!`,
/// whose rest is below 6e-9.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    // ln 2 in two parts: the first has zeros at its end, so that its products with n are exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // The bound comes first: where x is NaN, the second operand is what is given back.
    let x = simd.min(simd.splat(88.0), simd.max(simd.splat(-87.3), x));
    let n = simd.round(simd.mul(x, simd.splat(std::f32::consts::LOG2_E)));
    let r = simd.mul_add(n, simd.splat(-LN_2_HIGH), x);
    let r = simd.mul_add(n, simd.splat(-LN_2_LOW), r);
    let mut power = simd.splat(1.0 / 5040.0);
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        power = simd.mul_add(power, r, simd.splat(coefficient));
    }
    simd.mul(power, simd.power_of_two(n))
}

/// `x / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn silu<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    let power = exp(simd, simd.sub(simd.splat(0.0), x));
    simd.div(x, simd.add(simd.splat(1.0), power))
}
