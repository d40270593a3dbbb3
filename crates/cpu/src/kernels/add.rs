//! `out = a + b`.
//!
//! A task has some rows, about 16,384 numbers. Traffic: 12 bytes a number.

use crate::arena::{Blocks, Columns, Cut, LIGHT, for_each_block};
use crate::kernels::Rows;
use crate::pool::Pool;
use crate::simd::{Simd, math};

/// Rows of `cols` numbers that make a task of [`LIGHT`] numbers.
pub(crate) fn light_rows(cols: usize) -> Cut<'static> {
    Cut::Every((LIGHT / cols).max(1))
}

/// Adds matrices of `cols` columns.
pub(crate) fn add<S: Simd>(simd: S, pool: &mut Pool, (a, b): (&[f32], &[f32]), out: &mut [f32], cols: usize) {
    let (a, b) = (Rows::new(a, cols, 0, cols), Rows::new(b, cols, 0, cols));
    let blocks = Blocks::of(out, Columns::dense(cols, cols), light_rows(cols));
    for_each_block(pool, blocks, &mut [], |mut block, _| {
        simd.vectorize(
            #[inline(always)]
            || {
                for row in 0..block.rows.len() {
                    let at = block.rows.start + row;
                    math::zip(
                        simd,
                        (a.row(at), b.row(at)),
                        block.row(row),
                        #[inline(always)]
                        |a, b| simd.add(a, b),
                    );
                }
            },
        );
    });
}
