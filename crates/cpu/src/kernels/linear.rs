//! `out_i = W_i x (+ bias_i)` for several weights with one input.
//!
//! Two phases: rows of x are turned for each weight that is stored as codes ([`codes::turn`]), then each task
//! makes some columns of one result, 128 of codes or 32 of plain numbers, for up to 128 rows.
//!
//! Traffic: every weight is read once for 128 rows; x is read once a task.

use std::mem;
use std::ops::Range;

use exl3::hadamard::{BLOCK, padded};

use super::codes::{self, PANEL};
use super::{Rows, Work, dense};
use crate::arena::{Blocks, Columns, Cut, for_each_block, spaced};
use crate::pool::Pool;
use crate::simd::Simd;
use crate::weights::Matrix;

/// Weights that one call takes.
pub(crate) const MOST_TARGETS: usize = 8;

/// Rows of a task: what is decoded is used for so many.
pub(crate) const ROWS: usize = 128;

/// Columns of a task with plain numbers.
const DENSE_WIDTH: usize = 32;

/// Rows of a task with plain numbers where there are few columns; a multiple of what is multiplied together.
const FEW_DENSE_ROWS: usize = 24;

/// Rows and columns of a task that turns inputs.
pub(crate) const TURN: (usize, usize) = (4, 2048);

/// One weight and its result `[rows, out]`.
pub(crate) struct Target<'a> {
    pub(crate) matrix: Matrix<'a>,
    pub(crate) out: &'a mut [f32],
}

/// What a matrix needs to be known of to plan memory.
#[derive(Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) inputs: usize,
    pub(crate) out: usize,
    /// Whether it, or one of its parts, is stored as codes.
    pub(crate) codes: bool,
}

/// Numbers that a thread needs for the results of one task.
pub(crate) fn task(rows: usize) -> usize {
    rows.min(ROWS) * BLOCK + PANEL
}

/// The work space of [`linear`] for up to `rows` rows.
pub(crate) fn work(rows: usize, weights: impl Iterator<Item = Stored>) -> Work {
    let turned =
        weights.filter(|weight| weight.codes).map(|weight| rows * spaced(padded(weight.inputs))).sum();
    Work { shared: turned, thread: task(rows) }
}

/// Computes up to [`MOST_TARGETS`] results of `rows` rows of x.
pub(crate) fn linear<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (x, rows): (Rows<'_>, usize),
    targets: &mut [Target<'_>],
    (shared, scratch): (&mut [f32], &mut [f32]),
) {
    turn_inputs(simd, pool, (x, rows), targets, shared);
    let mut rest = &*shared;
    let mut blocks = Blocks::default();
    let mut inputs = [None; MOST_TARGETS];
    for (target, input) in targets.iter_mut().zip(&mut inputs) {
        let (width, height, x) = match target.matrix {
            Matrix::Codes(codes) => {
                let cols = padded(codes.inputs);
                let (turned, after) = rest.split_at(rows * spaced(cols));
                rest = after;
                (BLOCK, ROWS, Rows::new(turned, spaced(cols), 0, cols))
            }
            Matrix::Dense(dense) => (DENSE_WIDTH, dense_rows(dense.out, rows, pool.threads()), x),
        };
        *input = Some((target.matrix, x));
        blocks.push(target.out, Columns::dense(target.matrix.out(), width), Cut::Every(height));
    }
    for_each_block(pool, blocks, scratch, |mut block, scratch| {
        let Some((matrix, x)) = inputs[block.matrix] else { return };
        let rows = block.rows.len();
        let (panel, acc) = scratch.split_at_mut(PANEL);
        columns(simd, matrix, (block.cols.clone(), rows), x.from(block.rows.start), (acc, panel));
        for (row, acc) in (0..rows).zip(acc.chunks_exact(BLOCK)) {
            let out = block.row(row);
            out.copy_from_slice(&acc[..out.len()]);
        }
    });
}

/// Rows of a task with plain numbers: fewer where a narrow matrix, as a router's, would leave threads idle.
fn dense_rows(out: usize, rows: usize, threads: usize) -> usize {
    let tasks = out.div_ceil(DENSE_WIDTH) * rows.div_ceil(ROWS);
    if tasks < 4 * threads { FEW_DENSE_ROWS } else { ROWS }
}

/// Turns the rows of x for each weight that is stored as codes, one after the other in `shared`.
fn turn_inputs<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (x, rows): (Rows<'_>, usize),
    targets: &[Target<'_>],
    mut shared: &mut [f32],
) {
    let mut blocks = Blocks::default();
    let mut codes_of = [None; MOST_TARGETS];
    let mut count = 0;
    for target in targets {
        if let Matrix::Codes(codes) = target.matrix {
            let cols = padded(codes.inputs);
            let (turned, after) = mem::take(&mut shared).split_at_mut(rows * spaced(cols));
            shared = after;
            blocks.push(turned, Columns::spaced(cols, TURN.1), Cut::Every(TURN.0));
            codes_of[count] = Some(codes);
            count += 1;
        }
    }
    for_each_block(pool, blocks.light(), &mut [], |mut block, _| {
        let Some(codes) = codes_of[block.matrix] else { return };
        let inputs = block.cols.start.min(x.cols())..block.cols.end.min(x.cols());
        simd.vectorize(
            #[inline(always)]
            || {
                for row in 0..block.rows.len() {
                    let x = &x.row(block.rows.start + row)[inputs.clone()];
                    codes::turn(simd, codes, block.cols.start / BLOCK, (x, block.row(row)));
                }
            },
        );
    });
}

/// `acc[r][n] = (W x[r] + bias)[cols.start + n]` for up to 128 columns and `rows` rows; `acc` is
/// `[rows, 128]`. For codes x is turned, and the columns are a block of 128 (or less at the end).
///
/// Compiled once for all operations that multiply, because it is large.
#[inline(never)]
pub(crate) fn columns<S: Simd>(
    simd: S,
    matrix: Matrix<'_>,
    (cols, rows): (Range<usize>, usize),
    x: Rows<'_>,
    (acc, panel): (&mut [f32], &mut [f32]),
) {
    match matrix {
        Matrix::Codes(codes) => simd.vectorize(
            #[inline(always)]
            || codes::columns(simd, codes, (cols.start / BLOCK, rows), x, (acc, panel)),
        ),
        Matrix::Dense(dense) => dense::columns(simd, dense, (cols, rows), x, (acc, BLOCK)),
    }
}
