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

/// `out[i] = f(a[i])`; numbers beyond the last whole vector go through `f` in a padded one.
#[inline(always)]
pub(crate) fn map<S: Simd>(simd: S, a: &[f32], out: &mut [f32], f: impl Fn(S::F32) -> S::F32) {
    zip(
        simd,
        (a, a),
        out,
        #[inline(always)]
        |a, _| f(a),
    );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::levels;

    #[test]
    fn exp_errs_by_two_units_in_the_last_place_at_most_and_passes_nan_on() {
        levels!(|simd| {
            for step in -8_700..=8_800 {
                let x = step as f32 / 100.0;
                let mut got = [0.0; LANES];
                simd.vectorize(|| simd.store(exp(simd, simd.splat(x)), &mut got));
                let want = f64::from(x).exp();
                let error = (f64::from(got[0]) - want).abs() / want;
                assert!(error < 2.0 * f64::from(f32::EPSILON), "exp({x}) = {}, off by {error:e}", got[0]);
            }
            let mut ends = [0.0, f32::NEG_INFINITY, -1e4, 1e4, f32::INFINITY, f32::NAN, -0.0, 1e-30];
            simd.vectorize(|| simd.store(exp(simd, simd.load(&ends)), &mut ends));
            assert_eq!([ends[0], ends[6], ends[7]], [1.0; 3]);
            assert!(ends[1] == ends[2] && ends[1] > 0.0 && ends[1] < 2e-38);
            assert!(ends[3] == ends[4] && ends[3].is_finite());
            assert!(ends[5].is_nan());
        });
    }

    #[test]
    fn silu_is_that_of_f64_also_where_the_power_overflows() {
        levels!(|simd| {
            for x in [-1e30_f32, -200.0, -88.5, -20.0, -1.0, -1e-20, 0.0, 1e-3, 1.0, 30.0, 1e30] {
                let mut got = [0.0; LANES];
                simd.vectorize(|| simd.store(silu(simd, simd.splat(x)), &mut got));
                let want = f64::from(x) / (1.0 + f64::from(-x).exp());
                // Below -88 the power is held at e^88, and the result is some 1e-38 of x instead of less.
                let allowed = 5e-7 * want.abs() + 1e-38 * f64::from(x.abs());
                assert!((f64::from(got[0]) - want).abs() <= allowed, "silu({x}) = {}, needed {want}", got[0]);
            }
        });
    }

    #[test]
    fn numbers_beyond_the_last_whole_vector_go_through_the_same_function() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0], [0.5; 11]);
        levels!(|simd| {
            for len in 0..=11 {
                let mut out = [0.0; 11];
                simd.vectorize(|| {
                    zip(simd, (&a[..len], &b[..len]), &mut out[..len], |a, b| simd.mul(a, b));
                });
                for (at, out) in out.into_iter().enumerate() {
                    assert_eq!(out, if at < len { a[at] / 2.0 } else { 0.0 });
                }
            }
        });
    }
}
