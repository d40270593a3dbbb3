//! `out[r] = table[token(r)]`.
//!
//! Plain tables: a task has some rows, about 16,384 numbers. Tables of codes: one thread, some 40 us a row of
//! 2,048, as the codec defines it bit by bit. Traffic: a table row and 4 bytes a number.

use half::f16;
use program::{Dtype, Result};

use super::add::light_rows;
use crate::arena::{Blocks, Columns, for_each_block};
use crate::pool::Pool;
use crate::simd::Simd;
use crate::weights::{Dense, Table};

/// Copies rows of a plain table, whose rows are as wide as those of `out`.
pub(crate) fn embed<S: Simd>(simd: S, pool: &mut Pool, table: &Dense, tokens: &[u32], out: &mut [f32]) {
    let (hidden, bytes) = (table.inputs, table.dtype.bytes());
    let blocks = Blocks::of(out, Columns::dense(hidden, hidden), light_rows(hidden));
    for_each_block(pool, blocks, &mut [], |mut block, _| {
        simd.vectorize(
            #[inline(always)]
            || {
                for row in 0..block.rows.len() {
                    let token = tokens[block.rows.start + row] as usize;
                    let numbers = table.data[token * hidden * bytes..].chunks_exact(bytes);
                    let out = block.row(row).iter_mut().zip(numbers);
                    // A loop for each format, so that none asks for the format of each number.
                    match table.dtype {
                        Dtype::F32 => out.for_each(|(out, bytes)| *out = Dtype::F32.read(bytes)),
                        Dtype::F16 => out.for_each(|(out, bytes)| *out = Dtype::F16.read(bytes)),
                        Dtype::Bf16 => out.for_each(|(out, bytes)| *out = Dtype::Bf16.read(bytes)),
                    }
                }
            },
        );
    });
}

/// Decodes rows of a table of codes; `row` is room for one.
///
/// # Errors
/// If a scale in the table is not finite.
pub(crate) fn embed_codes(table: &Table, tokens: &[u32], row: &mut [f16], out: &mut [f32]) -> Result<()> {
    let table = table.view()?;
    let row = &mut row[..table.hidden()];
    for (token, out) in tokens.iter().zip(out.chunks_exact_mut(table.hidden())) {
        table.row(*token as usize, row)?;
        for (out, value) in out.iter_mut().zip(&*row) {
            *out = value.to_f32();
        }
    }
    Ok(())
}
