//! Products with plain matrices.

use std::ops::Range;

use program::Dtype;

use super::Rows;
use super::dots::{Bf16, F16, F32, LINE, Numbers, Weights, dots};
use crate::simd::{LANES, Simd};
use crate::weights::Dense;

/// `acc[r][n] = (W x[r] + bias)[cols.start + n]` for `rows` rows; rows of `acc` are `stride` apart.
///
/// Compiled once for all operations that multiply.
#[inline(never)]
pub(crate) fn columns<S: Simd>(
    simd: S,
    dense: &Dense,
    (cols, rows): (Range<usize>, usize),
    x: Rows<'_>,
    (acc, stride): (&mut [f32], usize),
) {
    simd.vectorize(
        #[inline(always)]
        || match dense.dtype {
            Dtype::F32 => columns_of::<S, F32>(simd, dense, (cols, rows), x, (acc, stride)),
            Dtype::F16 => columns_of::<S, F16>(simd, dense, (cols, rows), x, (acc, stride)),
            Dtype::Bf16 => columns_of::<S, Bf16>(simd, dense, (cols, rows), x, (acc, stride)),
        },
    );
}

#[inline(always)]
fn columns_of<S: Simd, N: Numbers>(
    simd: S,
    dense: &Dense,
    (cols, rows): (Range<usize>, usize),
    x: Rows<'_>,
    (acc, stride): (&mut [f32], usize),
) {
    let bytes = dense.inputs * dense.dtype.bytes();
    let w = Weights { data: &dense.data[cols.start * bytes..], row: bytes };
    let count = cols.len();
    dots::<S, N>(
        simd,
        x,
        w,
        (rows, count),
        #[inline(always)]
        |r, first, sums| {
            for (to, sum) in acc[r * stride..][first..count].iter_mut().zip(sums) {
                *to = sum;
            }
        },
    );
    if let Some(bias) = &dense.bias {
        for row in acc.chunks_mut(stride).take(rows) {
            for (value, bias) in row.iter_mut().zip(&bias[cols.clone()]) {
                *value += bias;
            }
        }
    }
}

/// Rows of a plain matrix as `f32`: number `c` of row `r` goes to `place(r, c)`, for c that are multiples of
/// eight, and the seven after it behind it. A last vector is filled with zeros.
#[inline(always)]
pub(crate) fn read_rows<S: Simd>(
    simd: S,
    dense: &Dense,
    rows: Range<usize>,
    out: &mut [f32],
    place: impl Fn(usize, usize) -> usize,
) {
    match dense.dtype {
        Dtype::F32 => read_rows_of::<S, F32>(simd, dense, rows, out, place),
        Dtype::F16 => read_rows_of::<S, F16>(simd, dense, rows, out, place),
        Dtype::Bf16 => read_rows_of::<S, Bf16>(simd, dense, rows, out, place),
    }
}

#[inline(always)]
fn read_rows_of<S: Simd, N: Numbers>(
    simd: S,
    dense: &Dense,
    rows: Range<usize>,
    out: &mut [f32],
    place: impl Fn(usize, usize) -> usize,
) {
    let bytes = dense.inputs * dense.dtype.bytes();
    for (r, row) in dense.data[rows.start * bytes..].chunks_exact(bytes).take(rows.len()).enumerate() {
        let (vectors, rest) = N::vectors(row);
        for (index, vector) in vectors.iter().enumerate() {
            let to = &mut out[place(r, index * LANES)..];
            simd.store(N::load(simd, vector), &mut to.as_chunks_mut().0[0]);
        }
        if !dense.inputs.is_multiple_of(LANES) {
            out[place(r, vectors.len() * LANES)..][..LANES].copy_from_slice(&rest);
        }
    }
}

/// `acc += sum over r of x[r] W[rows.start + r]`, ascending and fused: one row of x against rows of W, which
/// are read once, from the first to the last.
#[inline(always)]
pub(crate) fn add_rows<S: Simd>(simd: S, dense: &Dense, rows: Range<usize>, x: &[f32], acc: &mut [f32]) {
    match dense.dtype {
        Dtype::F32 => add_rows_of::<S, F32>(simd, dense, rows, x, acc),
        Dtype::F16 => add_rows_of::<S, F16>(simd, dense, rows, x, acc),
        Dtype::Bf16 => add_rows_of::<S, Bf16>(simd, dense, rows, x, acc),
    }
}

/// Rows that are added in one go over acc.
const ROWS: usize = 4;

#[inline(always)]
fn add_rows_of<S: Simd, N: Numbers>(simd: S, dense: &Dense, rows: Range<usize>, x: &[f32], acc: &mut [f32]) {
    let bytes = dense.inputs * dense.dtype.bytes();
    let row = |row: usize| &dense.data[row * bytes..][..bytes];
    let mut at = 0;
    while at < rows.len() {
        let first = rows.start + at;
        if rows.len() - at >= ROWS {
            let group = [row(first), row(first + 1), row(first + 2), row(first + 3)];
            let ahead = dense.data.get((first + ROWS) * bytes..).unwrap_or_default();
            add_group::<S, N, ROWS>(simd, (group, ahead), [x[at], x[at + 1], x[at + 2], x[at + 3]], acc);
            at += ROWS;
        } else {
            add_group::<S, N, 1>(simd, ([row(first)], &[]), [x[at]], acc);
            at += 1;
        }
    }
}

/// `acc += sum over r of x[r] rows[r]`; `ahead` is what follows the rows, and is asked for meanwhile.
#[inline(always)]
fn add_group<S: Simd, N: Numbers, const R: usize>(
    simd: S,
    (rows, ahead): ([&[u8]; R], &[u8]),
    x: [f32; R],
    acc: &mut [f32],
) {
    let (first, _) = N::vectors(rows[0]);
    let whole = first.len();
    let mut vectors = [first; R];
    let mut spread = [simd.splat(0.0); R];
    for (r, row) in rows.into_iter().enumerate() {
        vectors[r] = &N::vectors(row).0[..whole];
        spread[r] = simd.splat(x[r]);
    }
    let bytes = size_of::<N::Vector>();
    let (acc, last) = acc.split_at_mut(whole * LANES);
    for (index, acc) in acc.as_chunks_mut().0.iter_mut().enumerate() {
        let at = index * bytes;
        if at.is_multiple_of(LINE) {
            for row in 0..R {
                if let Some(line) = ahead.get(row * whole * bytes + at..) {
                    simd.prefetch(line);
                }
            }
        }
        let mut sum = simd.load(acc);
        for (vectors, x) in vectors.into_iter().zip(spread) {
            sum = simd.mul_add(x, N::load(simd, &vectors[index]), sum);
        }
        simd.store(sum, acc);
    }
    if let Some(acc) = last.first_chunk_mut() {
        let mut sum = simd.load(acc);
        for (row, x) in rows.into_iter().zip(spread) {
            sum = simd.mul_add(x, simd.load(&N::vectors(row).1), sum);
        }
        simd.store(sum, acc);
    }
}
