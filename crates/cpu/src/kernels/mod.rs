//! The kernels: one file an operation, or one idea that several operations share.
//!
//! Rows are independent: what a kernel computes for a row does not depend on how many rows there are, on
//! their division among tasks, or on the number of threads. Every sum therefore has one fixed order (of two forms
//! of a product that round differently, `Options::deterministic` takes one for any number of rows):
//!
//! | sum | order |
//! |---|---|
//! | product with codes, in integers | exact in pieces of inputs, the pieces ascending in `f32` |
//! | product with codes in `f32`, latent times `K`, weights times values | ascending over the inner index, fused |
//! | product with plain numbers, query times key | eight lanes over the inner index, then [`Simd::sums`] |
//! | softmax | pages of 64 from the first one on, each in eight lanes |
//! | experts of a row | the order of its slots |
//!
//! [`Simd::sums`]: crate::simd::Simd::sums

pub(crate) mod absorbed;
pub(crate) mod act_mul;
pub(crate) mod add;
pub(crate) mod attend;
pub(crate) mod attend_mla;
pub(crate) mod attention;
pub(crate) mod cache_write;
pub(crate) mod codes;
pub(crate) mod dense;
pub(crate) mod dots;
pub(crate) mod embed;
pub(crate) mod expanded;
pub(crate) mod experts;
pub(crate) mod grouping;
pub(crate) mod inputs;
pub(crate) mod linear;
pub(crate) mod one_row;
pub(crate) mod outputs;
pub(crate) mod page;
pub(crate) mod panels;
pub(crate) mod plain;
pub(crate) mod rms_norm;
pub(crate) mod rope;
pub(crate) mod rotation;
pub(crate) mod route;
pub(crate) mod several_rows;
pub(crate) mod tile;
pub(crate) mod values;

/// Rows that a kernel reads: `cols` numbers each, `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    data: &'a [f32],
    stride: usize,
    cols: usize,
}

impl<'a> Rows<'a> {
    /// Columns `start .. start + cols` of a row-major matrix of `stride` columns.
    pub(crate) fn new(matrix: &'a [f32], stride: usize, start: usize, cols: usize) -> Rows<'a> {
        Rows { data: matrix.get(start..).unwrap_or_default(), stride, cols }
    }

    /// Numbers of a row.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Row `row`.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &'a [f32] {
        &self.data[row * self.stride..][..self.cols]
    }

    /// These rows from number `row` on.
    pub(crate) fn from(&self, row: usize) -> Rows<'a> {
        Rows { data: &self.data[row * self.stride..], ..*self }
    }

    /// Columns `start .. start + cols` of these rows.
    pub(crate) fn columns(&self, start: usize, cols: usize) -> Rows<'a> {
        Rows { data: self.data.get(start..).unwrap_or_default(), stride: self.stride, cols }
    }
}

/// Memory that an operation works in, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Shared by all threads.
    pub(crate) shared: usize,
    /// Each thread's own.
    pub(crate) thread: usize,
}

impl Work {
    /// What serves both, one after the other.
    pub(crate) fn or(self, other: Work) -> Work {
        Work { shared: self.shared.max(other.shared), thread: self.thread.max(other.thread) }
    }
}
