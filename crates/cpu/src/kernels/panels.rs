//! Products of rows with panels: `acc[r][n] += sum over k of x[r][k] w[k][n]`.
//!
//! A panel has [`WIDTH`] columns of w, one row of it after the other, and vectors run along n: each number of
//! x is spread over a vector and meets the rows of the panel from the first on. A sum is one chain of fused
//! multiply-adds over ascending k that begins with what `acc` holds, so that a long k can be done in pieces,
//! and a row's bits do not depend on the group it is in. A group of three rows has twelve sums in registers,
//! which is what hides the time of a multiply-add.
//!
//! Traffic: w once for every three rows, from the first-level cache if the caller keeps pieces of k small;
//! acc is read and written once.

use super::Rows;
use crate::simd::{LANES, Simd, math};

/// Rows of x in a group.
const ROWS: usize = 3;

/// Vectors of a panel's row.
const VECTORS: usize = 4;

/// Columns of a panel.
pub(crate) const WIDTH: usize = VECTORS * LANES;

/// `acc[r][n] += x[r][k] w[k][n]` for `rows` rows and the columns of one panel, with as many k as x has
/// columns. Rows of acc are `stride` apart.
#[inline(always)]
pub(crate) fn multiply<S: Simd>(
    simd: S,
    x: Rows<'_>,
    w: &[f32],
    acc: &mut [f32],
    (rows, stride): (usize, usize),
) {
    let w = &w.as_chunks::<WIDTH>().0[..x.cols()];
    let mut row = 0;
    while row < rows {
        let (x, acc) = (x.from(row), &mut acc[row * stride..]);
        row += match rows - row {
            1 => group_of::<S, 1>(simd, x, w, acc, stride),
            // Two and two are quicker than three and one.
            2 | 4 => group_of::<S, 2>(simd, x, w, acc, stride),
            _ => group_of::<S, ROWS>(simd, x, w, acc, stride),
        };
    }
}

/// The products of R rows; gives R.
#[inline(always)]
fn group_of<S: Simd, const R: usize>(
    simd: S,
    x: Rows<'_>,
    w: &[[f32; WIDTH]],
    acc: &mut [f32],
    stride: usize,
) -> usize {
    // Loops over known numbers of rows, which are unrolled, so that sums stay in registers.
    let mut sums = [[simd.splat(0.0); VECTORS]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        *sums = math::load(simd, vectors(&acc[r * stride..]));
    }
    // As long as w, so that no index is checked in the loop.
    let mut x_rows = [&x.row(0)[..w.len()]; R];
    for (r, x_row) in x_rows.iter_mut().enumerate() {
        *x_row = &x.row(r)[..w.len()];
    }
    for (k, w) in w.iter().enumerate() {
        let mut spread = [simd.splat(0.0); R];
        for (spread, x) in spread.iter_mut().zip(x_rows) {
            *spread = simd.splat(x[k]);
        }
        for (column, w) in vectors(w).iter().enumerate() {
            let w = simd.load(w);
            for (sums, x) in sums.iter_mut().zip(spread) {
                sums[column] = simd.mul_add(x, w, sums[column]);
            }
        }
    }
    for (r, sums) in sums.into_iter().enumerate() {
        math::store(simd, sums, &mut acc[r * stride..][..WIDTH].as_chunks_mut().0.as_chunks_mut().0[0]);
    }
    R
}

/// The vectors of a panel's row.
#[inline(always)]
fn vectors(numbers: &[f32]) -> &[[f32; LANES]; VECTORS] {
    &numbers[..WIDTH].as_chunks().0.as_chunks().0[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::levels;

    #[test]
    fn products_are_those_of_a_plain_chain_whatever_the_group_and_the_pieces_of_k() {
        let (inner, stride) = (37, 40);
        for rows in [1, 2, 3, 4, 5, 7, 9] {
            let x: Vec<f32> = (0..rows * inner).map(|at| (at as f32 * 0.37).sin()).collect();
            let w: Vec<f32> = (0..inner * WIDTH).map(|at| (at as f32 * 0.73).cos()).collect();
            levels!(|simd| {
                let mut acc = vec![0.5; rows * stride];
                simd.vectorize(|| {
                    let x = Rows::new(&x, inner, 0, inner);
                    multiply(simd, x.columns(0, 20), &w[..20 * WIDTH], &mut acc, (rows, stride));
                    multiply(simd, x.columns(20, 17), &w[20 * WIDTH..], &mut acc, (rows, stride));
                });
                for row in 0..rows {
                    for col in 0..WIDTH {
                        let mut want = [0.5; LANES];
                        for k in 0..inner {
                            let (x, w) = (simd.splat(x[row * inner + k]), simd.splat(w[k * WIDTH + col]));
                            simd.store(simd.mul_add(x, w, simd.load(&want.clone())), &mut want);
                        }
                        assert_eq!(acc[row * stride + col], want[0]);
                    }
                    assert_eq!(acc[row * stride + WIDTH..(row + 1) * stride], [0.5; 8]);
                }
            });
        }
    }
}
