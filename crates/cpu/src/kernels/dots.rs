//! Products of rows with rows: `out[r][n] = sum over k of x[r][k] w[n][k]`.
//!
//! Both run along k, so that vectors do, and each sum is eight lanes over all of k (numbers beyond the last
//! whole vector go in as one more, filled with zeros), added at the end by [`Simd::sums`]. A group of three
//! rows and four columns has twelve sums in registers; the order of each does not depend on the group.
//!
//! Traffic: w is read once for every three rows (from the second-level cache if the caller takes few enough
//! columns at a time), x once for every four columns. One row alone waits for memory, so that it asks for its
//! next four columns of w while it multiplies four.

use half::f16;
use program::Dtype;

use super::Rows;
use crate::simd::math::padded;
use crate::simd::{LANES, Simd};

/// Rows of x in a group.
const ROWS: usize = 3;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Columns in a group: what [`Simd::sums`] adds at once.
const COLUMNS: usize = 4;

/// A number format of w.
pub(crate) trait Numbers {
    /// Eight numbers.
    type Vector;

    /// The whole vectors of a row, and the rest of its numbers as one more with zeros.
    fn vectors(row: &[u8]) -> (&[Self::Vector], [f32; LANES]);
    /// Eight numbers.
    fn load<S: Simd>(simd: S, vector: &Self::Vector) -> S::F32;
}

/// [`Dtype::F32`].
pub(crate) struct F32;
/// [`Dtype::F16`].
pub(crate) struct F16;
/// [`Dtype::Bf16`].
pub(crate) struct Bf16;

/// The numbers of `bytes`, fewer than eight, followed by zeros.
#[inline(always)]
fn rest<const BYTES: usize>(bytes: &[u8], read: impl Fn([u8; BYTES]) -> f32) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    for (number, bytes) in all.iter_mut().zip(bytes.as_chunks().0) {
        *number = read(*bytes);
    }
    all
}

impl Numbers for F32 {
    type Vector = [u8; 4 * LANES];

    #[inline(always)]
    fn vectors(row: &[u8]) -> (&[[u8; 4 * LANES]], [f32; LANES]) {
        let (vectors, bytes) = row.as_chunks();
        (vectors, rest(bytes, f32::from_le_bytes))
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, vector: &[u8; 4 * LANES]) -> S::F32 {
        simd.load_f32_bytes(vector)
    }
}

impl Numbers for F16 {
    type Vector = [u8; 2 * LANES];

    #[inline(always)]
    fn vectors(row: &[u8]) -> (&[[u8; 2 * LANES]], [f32; LANES]) {
        let (vectors, bytes) = row.as_chunks();
        (vectors, rest(bytes, |bytes| f16::from_le_bytes(bytes).to_f32()))
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, vector: &[u8; 2 * LANES]) -> S::F32 {
        simd.load_f16_bytes(vector)
    }
}

impl Numbers for Bf16 {
    type Vector = [u8; 2 * LANES];

    #[inline(always)]
    fn vectors(row: &[u8]) -> (&[[u8; 2 * LANES]], [f32; LANES]) {
        let (vectors, bytes) = row.as_chunks();
        (vectors, rest(bytes, |bytes: [u8; 2]| Dtype::Bf16.read(&bytes)))
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, vector: &[u8; 2 * LANES]) -> S::F32 {
        simd.load_bf16_bytes(vector)
    }
}

/// Rows of w, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Weights<'a> {
    /// From the first row on.
    pub(crate) data: &'a [u8],
    /// Bytes of a row.
    pub(crate) row: usize,
}

impl<'a> Weights<'a> {
    #[inline(always)]
    fn row(self, row: usize) -> &'a [u8] {
        &self.data[row * self.row..][..self.row]
    }
}

/// Gives `out(r, n, sums)` the products of `rows` rows of x with the rows n .. n + 4 of w, for all n below
/// `cols` that are multiples of four; sums beyond `cols` mean nothing.
#[inline(always)]
pub(crate) fn dots<S: Simd, N: Numbers>(
    simd: S,
    x: Rows<'_>,
    w: Weights<'_>,
    (rows, cols): (usize, usize),
    mut out: impl FnMut(usize, usize, [f32; COLUMNS]),
) {
    let mut row = 0;
    while row < rows {
        let group = (rows - row).min(ROWS);
        for col in (0..cols).step_by(COLUMNS) {
            // Columns past the end repeat the last one.
            let mut group_w: [_; COLUMNS] = [w.row(col); COLUMNS];
            for (n, w_row) in group_w.iter_mut().enumerate() {
                *w_row = w.row((col + n).min(cols - 1));
            }
            let mut sums = [[0.0; COLUMNS]; ROWS];
            let ahead = w.data.get((col + COLUMNS) * w.row..).unwrap_or_default();
            match group {
                1 => group_of::<S, N, 1>(simd, x.from(row), group_w, ahead, &mut sums),
                2 => group_of::<S, N, 2>(simd, x.from(row), group_w, ahead, &mut sums),
                _ => group_of::<S, N, ROWS>(simd, x.from(row), group_w, ahead, &mut sums),
            }
            for (r, sums) in sums.into_iter().take(group).enumerate() {
                out(row + r, col, sums);
            }
        }
        row += group;
    }
}

/// The products of R rows of x with four rows of w; `ahead` is what follows those.
#[inline(always)]
fn group_of<S: Simd, N: Numbers, const R: usize>(
    simd: S,
    x: Rows<'_>,
    w: [&[u8]; COLUMNS],
    ahead: &[u8],
    out: &mut [[f32; COLUMNS]; ROWS],
) {
    let w = [N::vectors(w[0]), N::vectors(w[1]), N::vectors(w[2]), N::vectors(w[3])];
    let count = w[0].0.len();
    let whole_w = [&w[0].0[..count], &w[1].0[..count], &w[2].0[..count], &w[3].0[..count]];
    let mut whole_x = [(&[][..], [0.0; LANES]); R];
    for (r, row) in whole_x.iter_mut().enumerate() {
        let (vectors, rest) = x.row(r).as_chunks();
        *row = (&vectors[..count], padded(rest));
    }
    let mut sums = [[simd.splat(0.0); COLUMNS]; R];
    let bytes = size_of::<N::Vector>();
    for k in 0..count {
        // A line of each row at its first vector.
        if R == 1 && (k * bytes).is_multiple_of(LINE) {
            for row in 0..COLUMNS {
                if let Some(line) = ahead.get(row * count * bytes + k * bytes..) {
                    simd.prefetch(line);
                }
            }
        }
        let mut x = [simd.splat(0.0); R];
        for (vector, (x, _)) in x.iter_mut().zip(whole_x) {
            *vector = simd.load(&x[k]);
        }
        for (column, w) in whole_w.iter().enumerate() {
            let w = N::load(simd, &w[k]);
            for (sums, x) in sums.iter_mut().zip(x) {
                sums[column] = simd.mul_add(x, w, sums[column]);
            }
        }
    }
    for ((sums, (_, rest_x)), out) in sums.iter_mut().zip(whole_x).zip(out) {
        for (sum, (_, rest_w)) in sums.iter_mut().zip(w) {
            *sum = simd.mul_add(simd.load(&rest_x), simd.load(&rest_w), *sum);
        }
        *out = simd.sums(*sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::levels;

    fn numbers(count: usize, seed: f32) -> Vec<f32> {
        (0..count).map(|at| (at as f32 * 0.731 + seed).sin()).collect()
    }

    fn product<S: Simd, N: Numbers>(simd: S, x: &[f32], w: &[u8], shape: [usize; 3]) -> Vec<f32> {
        let [rows, cols, inputs] = shape;
        let mut out = vec![0.0; rows * cols];
        let row = w.len() / cols;
        simd.vectorize(
            #[inline(always)]
            || {
                let weights = Weights { data: w, row };
                dots::<S, N>(simd, Rows::new(x, inputs, 0, inputs), weights, (rows, cols), |r, n, sums| {
                    for (out, sum) in out[r * cols..(r + 1) * cols][n..].iter_mut().zip(sums) {
                        *out = sum;
                    }
                });
            },
        );
        out
    }

    #[test]
    fn products_of_all_formats_and_sizes_are_those_of_plain_loops_and_a_row_does_not_see_its_neighbours() {
        for rows in [1, 2, 3, 4, 7] {
            for cols in [1, 3, 4, 9] {
                for inputs in [1, 7, 8, 64, 83] {
                    let (x, w) = (numbers(rows * inputs, 0.1), numbers(cols * inputs, 0.7));
                    let f32s: Vec<u8> = w.iter().flat_map(|w| w.to_le_bytes()).collect();
                    let f16s: Vec<u8> = w.iter().flat_map(|w| f16::from_f32(*w).to_le_bytes()).collect();
                    let bf16s: Vec<u8> = w.iter().flat_map(|w| w.to_le_bytes()[2..].to_vec()).collect();
                    levels!(|simd| {
                        let shape = [rows, cols, inputs];
                        let all = [
                            (product::<_, F32>(simd, &x, &f32s, shape), 4, &f32s),
                            (product::<_, F16>(simd, &x, &f16s, shape), 16, &f16s),
                            (product::<_, Bf16>(simd, &x, &bf16s, shape), 2, &bf16s),
                        ];
                        for (got, format, bytes) in &all {
                            for (at, got) in got.iter().enumerate() {
                                let (r, n) = (at / cols, at % cols);
                                let read = |k: usize| match format {
                                    4 => Dtype::F32.read(&bytes[(n * inputs + k) * 4..]),
                                    16 => Dtype::F16.read(&bytes[(n * inputs + k) * 2..]),
                                    _ => Dtype::Bf16.read(&bytes[(n * inputs + k) * 2..]),
                                };
                                let want: f64 = (0..inputs)
                                    .map(|k| f64::from(x[r * inputs + k]) * f64::from(read(k)))
                                    .sum();
                                // At most 20 roundings of sums up to 20.
                                assert!((f64::from(*got) - want).abs() < 2e-5, "{shape:?}: {got}, {want}");
                            }
                        }
                        for row in 0..rows {
                            let alone = product::<_, F16>(
                                simd,
                                &x[row * inputs..][..inputs],
                                &f16s,
                                [1, cols, inputs],
                            );
                            assert_eq!(alone, all[1].0[row * cols..][..cols]);
                        }
                    });
                }
            }
        }
    }
}
