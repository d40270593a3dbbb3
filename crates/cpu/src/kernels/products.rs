//! Products of rows with a panel: `acc[r][n] += sum over k of x[r][k] w[k][n]`.
//!
//! Rows of w run along n, so that vectors do: each number of x is spread over a vector and meets the rows of
//! w from the first on. A sum is one chain of fused multiply-adds over ascending k that begins with what
//! `acc` holds, so that a long k can be done in pieces. A group of four rows and 16 columns has eight sums
//! in registers.
//!
//! Traffic: w is read once for every four rows, from the first-level cache if the caller keeps panels
//! small; acc is read and written once.

use super::Rows;
use crate::simd::{LANES, Simd, math};

/// Rows of x in a group.
const ROWS: usize = 4;

/// Vectors of columns in a group.
const VECTORS: usize = 2;

/// Columns are padded to a multiple of this many.
pub(crate) const COLUMNS: usize = VECTORS * LANES;

/// `acc[r][n] += x[r][k] w[k][n]` for `rows` rows and all columns of w, of which there are a multiple of
/// [`COLUMNS`]; k runs over the columns of x. Rows of acc are `stride` apart.
#[inline(always)]
pub(crate) fn products<S: Simd>(
    simd: S,
    x: Rows<'_>,
    w: Rows<'_>,
    acc: &mut [f32],
    (rows, stride): (usize, usize),
) {
    let mut row = 0;
    while row < rows {
        let group = if rows - row >= ROWS { ROWS } else { 1 };
        for column in (0..w.cols()).step_by(COLUMNS) {
            let w = w.columns(column, COLUMNS);
            let acc = &mut acc[row * stride + column..];
            match group {
                1 => group_of::<S, 1>(simd, x.from(row), w, acc, stride),
                _ => group_of::<S, ROWS>(simd, x.from(row), w, acc, stride),
            }
        }
        row += group;
    }
}

#[inline(always)]
fn group_of<S: Simd, const R: usize>(simd: S, x: Rows<'_>, w: Rows<'_>, acc: &mut [f32], stride: usize) {
    let inner = x.cols();
    let x: [&[f32]; R] = std::array::from_fn(|r| &x.row(r)[..inner]);
    let mut sums = [[simd.splat(0.0); VECTORS]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        *sums = math::load(simd, vectors(&acc[r * stride..]));
    }
    for k in 0..inner {
        let w: [S::F32; VECTORS] = math::load(simd, vectors(w.row(k)));
        for (sums, x) in sums.iter_mut().zip(x) {
            let x = simd.splat(x[k]);
            for (sum, w) in sums.iter_mut().zip(w) {
                *sum = simd.mul_add(x, w, *sum);
            }
        }
    }
    for (r, sums) in sums.into_iter().enumerate() {
        let acc = &mut acc[r * stride..][..COLUMNS];
        for (vector, sum) in acc.as_chunks_mut().0.iter_mut().zip(sums) {
            simd.store(sum, vector);
        }
    }
}

/// The first [`VECTORS`] vectors of some numbers.
#[inline(always)]
fn vectors(numbers: &[f32]) -> &[[f32; LANES]; VECTORS] {
    &numbers[..COLUMNS].as_chunks().0.as_chunks().0[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::levels;

    #[test]
    fn products_are_those_of_a_plain_chain_whatever_the_group_and_the_pieces_of_k() {
        let (inner, cols, stride) = (37, 48, 50);
        for rows in [1, 2, 3, 4, 5, 9] {
            let x: Vec<f32> = (0..rows * inner).map(|at| (at as f32 * 0.37).sin()).collect();
            let w: Vec<f32> = (0..inner * cols).map(|at| (at as f32 * 0.73).cos()).collect();
            levels!(|simd| {
                let mut acc = vec![0.5; rows * stride];
                simd.vectorize(
                    #[inline(always)]
                    || {
                        let (x, w) = (Rows::new(&x, inner, 0, inner), Rows::new(&w, cols, 0, cols));
                        products(simd, x.columns(0, 20), w, &mut acc, (rows, stride));
                        products(simd, x.columns(20, 17), w.from(20), &mut acc, (rows, stride));
                    },
                );
                for row in 0..rows {
                    for col in 0..cols {
                        let mut want = [0.5; LANES];
                        for k in 0..inner {
                            let (x, w) = (simd.splat(x[row * inner + k]), simd.splat(w[k * cols + col]));
                            simd.store(simd.mul_add(x, w, simd.load(&want.clone())), &mut want);
                        }
                        assert_eq!(acc[row * stride + col], want[0]);
                    }
                    assert_eq!(acc[row * stride + cols..(row + 1) * stride], [0.5; 2]);
                }
            });
        }
    }
}
