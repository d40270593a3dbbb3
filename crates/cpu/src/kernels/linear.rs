//! `out_i = W_i x (+ bias_i)` for several weights with one input.
//!
//! Two phases: rows of x are turned for each weight that is stored as codes ([`inputs::turn`]), then each task
//! makes some columns of one result, 128 to 512 of codes or 32 of plain numbers, for up to 256 rows.
//!
//! Traffic: every weight is read once for 256 rows; x is read once a task.

use std::mem;
use std::ops::Range;

use exl3::hadamard::{BLOCK, padded};

use super::codes;
use super::inputs::{self, Form, Forms, RECORD, arranged};
use super::{Rows, Work, dense};
use crate::arena::{Blocks, Columns, Cut, for_each_block, spaced};
use crate::pool::Pool;
use crate::simd::Simd;
use crate::weights::Matrix;

/// Weights that one call takes.
pub(crate) const MOST_TARGETS: usize = 8;

/// Rows of a task: what is decoded is used for so many.
pub(crate) const ROWS: usize = 256;

/// Columns of a task with plain numbers.
const DENSE_WIDTH: usize = 32;

/// Rows of a task with plain numbers where there are few columns; a multiple of what is multiplied together.
const FEW_DENSE_ROWS: usize = 24;

/// Columns of a task with codes and several rows.
const WIDTH: usize = BLOCK;

/// Blocks of columns of a task with codes and one row, at most: long runs of codes, if all threads still get
/// several.
const MOST_BLOCKS: usize = 4;

/// Tasks a thread that a row should be divided among.
const TASKS: usize = 4;

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

/// Numbers that a thread needs for one task.
pub(crate) fn task(rows: usize) -> usize {
    let rows = rows.min(ROWS);
    let one_row = MOST_BLOCKS * BLOCK + codes::scratch(1, MOST_BLOCKS * BLOCK);
    one_row.max(rows * WIDTH + codes::scratch(rows, WIDTH))
}

/// The work space of [`linear`] for up to `rows` rows.
pub(crate) fn work(rows: usize, weights: impl Iterator<Item = Stored>) -> Work {
    let turned =
        weights.filter(|weight| weight.codes).map(|weight| rows * spaced(arranged(weight.inputs))).sum();
    Work { shared: turned, thread: task(rows) }
}

/// Computes up to [`MOST_TARGETS`] results of `rows` rows of x.
pub(crate) fn linear<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (x, rows, forms): (Rows<'_>, usize, Forms),
    targets: &mut [Target<'_>],
    (shared, scratch): (&mut [f32], &mut [f32]),
) {
    turn_inputs(simd, pool, (x, rows, forms), targets, shared);
    let codes_width = codes_width(targets, rows, pool.threads());
    let mut rest = &*shared;
    let mut blocks = Blocks::default();
    let mut inputs = [None; MOST_TARGETS];
    for (target, input) in targets.iter_mut().zip(&mut inputs) {
        let (width, height, form, x) = match target.matrix {
            Matrix::Codes(codes) => {
                let cols = arranged(codes.inputs);
                let (turned, after) = rest.split_at(rows * spaced(cols));
                rest = after;
                let x = Rows::new(turned, spaced(cols), 0, cols);
                (codes_width, ROWS, forms.of(codes.codebook, rows), x)
            }
            Matrix::Dense(dense) => {
                (DENSE_WIDTH, dense_rows(dense.out, rows, pool.threads()), Form::Floats, x)
            }
        };
        *input = Some(((target.matrix, form), x));
        blocks.push(target.out, Columns::dense(target.matrix.out(), width), Cut::Every(height));
    }
    for_each_block(pool, blocks, scratch, |mut block, scratch| {
        let Some((matrix, x)) = inputs[block.matrix] else { return };
        let (rows, stride) = (block.rows.len(), padded(block.cols.len()));
        let (acc, room) = scratch.split_at_mut(rows * stride);
        let of_rows = x.from(block.rows.start);
        columns(simd, matrix, (block.cols.clone(), rows), of_rows, (&mut *acc, stride, room));
        for (row, acc) in acc.chunks_exact(stride).enumerate() {
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

/// Columns of a task with codes.
fn codes_width(targets: &[Target<'_>], rows: usize, threads: usize) -> usize {
    if rows > 1 {
        return WIDTH;
    }
    let of_codes = targets.iter().filter(|target| matches!(target.matrix, Matrix::Codes(_)));
    let blocks: usize = of_codes.map(|target| target.matrix.out().div_ceil(BLOCK)).sum();
    (blocks / (TASKS * threads)).clamp(1, MOST_BLOCKS) * BLOCK
}

/// Turns the rows of x for each weight that is stored as codes, one after the other in `shared`.
fn turn_inputs<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (x, rows, forms): (Rows<'_>, usize, Forms),
    targets: &[Target<'_>],
    mut shared: &mut [f32],
) {
    let mut blocks = Blocks::default();
    let mut codes_of = [None; MOST_TARGETS];
    let mut count = 0;
    for target in targets {
        if let Matrix::Codes(codes) = target.matrix {
            let cols = arranged(codes.inputs);
            let (turned, after) = mem::take(&mut shared).split_at_mut(rows * spaced(cols));
            shared = after;
            blocks.push(turned, Columns::spaced(cols, TURN.1), Cut::Every(TURN.0));
            codes_of[count] = Some((codes, forms.of(codes.codebook, rows)));
            count += 1;
        }
    }
    for_each_block(pool, blocks.light(), &mut [], |mut block, _| {
        let Some((codes, form)) = codes_of[block.matrix] else { return };
        let known = block.cols.start.min(x.cols())..block.cols.end.min(x.cols());
        simd.vectorize(
            #[inline(always)]
            || {
                for row in 0..block.rows.len() {
                    let x = &x.row(block.rows.start + row)[known.clone()];
                    let first = block.cols.start / RECORD;
                    inputs::turn(simd, (codes, form), first, (x, block.row(row)));
                }
            },
        );
    });
}

/// `acc[r][n] = (W x[r] + bias)[cols.start + n]` for `rows` rows; rows of `acc` are `stride` apart, which is
/// whole blocks of 128 columns. For codes x is turned and arranged, columns begin at a block, and `room` has
/// [`codes::scratch`] numbers.
///
/// Compiled once for all operations that multiply, because it is large.
#[inline(never)]
pub(crate) fn columns<S: Simd>(
    simd: S,
    (matrix, form): (Matrix<'_>, Form),
    (cols, rows): (Range<usize>, usize),
    x: Rows<'_>,
    (acc, stride, room): (&mut [f32], usize, &mut [f32]),
) {
    match matrix {
        Matrix::Codes(codes) => {
            let blocks = cols.start / BLOCK..cols.end.div_ceil(BLOCK);
            codes::columns(simd, (codes, form), (blocks, rows), x, (acc, stride, room));
        }
        Matrix::Dense(dense) => dense::columns(simd, dense, (cols, rows), x, (acc, stride)),
    }
}
