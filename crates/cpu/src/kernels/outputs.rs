//! `out[i] = x[row of output i]`.
//!
//! One thread: a few rows at most. Traffic: 8 bytes a number.

use program::Output;

use super::Rows;

/// Copies the rows that are asked for.
pub(crate) fn outputs(x: Rows<'_>, outputs: &[Output], out: &mut [f32]) {
    for (output, out) in outputs.iter().zip(out.chunks_exact_mut(x.cols())) {
        out.copy_from_slice(x.row(output.row as usize));
    }
}
