//! `out = x / sqrt(mean(x^2) + eps) * weight`, over runs as long as the weight.
//!
//! A task has some rows, about 16,384 numbers. The squares are summed in eight lanes of `f32`. Traffic: 8
//! bytes a number, the weight stays in the first-level cache.

use super::Rows;
use super::add::light_rows;
use crate::arena::{Blocks, Columns, for_each_block};
use crate::pool::Pool;
use crate::simd::{Simd, math};

/// Normalises each run of rows of x.
pub(crate) fn rms_norm<S: Simd>(
    simd: S,
    pool: &mut Pool,
    x: Rows<'_>,
    (weight, eps): (&[f32], f32),
    out: &mut [f32],
) {
    let blocks = Blocks::of(out, Columns::dense(x.cols(), x.cols()), light_rows(x.cols()));
    for_each_block(pool, blocks, &mut [], |mut block, _| {
        simd.vectorize(
            #[inline(always)]
            || {
                for row in 0..block.rows.len() {
                    let x = x.row(block.rows.start + row).chunks_exact(weight.len());
                    for (x, out) in x.zip(block.row(row).chunks_exact_mut(weight.len())) {
                        run(simd, x, (weight, eps), out);
                    }
                }
            },
        );
    });
}

#[inline(always)]
fn run<S: Simd>(simd: S, x: &[f32], (weight, eps): (&[f32], f32), out: &mut [f32]) {
    let mean = square_sum(simd, x) / x.len() as f32;
    let scale = simd.splat(1.0 / (mean + eps).sqrt());
    math::zip(
        simd,
        (x, weight),
        out,
        #[inline(always)]
        |x, weight| simd.mul(simd.mul(x, scale), weight),
    );
}

#[inline(always)]
fn square_sum<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let (vectors, rest) = x.as_chunks();
    let mut sum = simd.splat(0.0);
    for x in vectors.iter().chain([&math::padded(rest)]) {
        let x = simd.load(x);
        sum = simd.mul_add(x, x, sum);
    }
    math::sum(simd, sum)
}
