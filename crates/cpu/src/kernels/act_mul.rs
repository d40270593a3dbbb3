//! `out = act(gate) * up`.
//!
//! A task has some rows, about 16,384 numbers. Traffic: 12 bytes a number.

use program::Activation;

use super::Rows;
use super::add::light_rows;
use crate::arena::{Blocks, Columns, for_each_block};
use crate::pool::Pool;
use crate::simd::{Simd, math};

/// Combines matrices of `cols` columns.
pub(crate) fn act_mul<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (gate, up, act): (&[f32], &[f32], Activation),
    out: &mut [f32],
    cols: usize,
) {
    let (gate, up) = (Rows::new(gate, cols, 0, cols), Rows::new(up, cols, 0, cols));
    let blocks = Blocks::of(out, Columns::dense(cols, cols), light_rows(cols));
    for_each_block(pool, blocks, &mut [], |mut block, _| {
        simd.vectorize(
            #[inline(always)]
            || {
                for row in 0..block.rows.len() {
                    let at = block.rows.start + row;
                    act_mul_row(simd, (gate.row(at), up.row(at), act), block.row(row));
                }
            },
        );
    });
}

/// Combines one row.
#[inline(always)]
pub(crate) fn act_mul_row<S: Simd>(simd: S, (gate, up, act): (&[f32], &[f32], Activation), out: &mut [f32]) {
    match act {
        Activation::Silu => {
            math::zip(
                simd,
                (gate, up),
                out,
                #[inline(always)]
                |gate, up| simd.mul(math::silu(simd, gate), up),
            );
        }
    }
}
