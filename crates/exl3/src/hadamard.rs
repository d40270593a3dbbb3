//! The rotation: Walsh-Hadamard transforms in blocks of 128.
//!
//! `H[i][j] = (-1)^popcount(i & j) / sqrt(128)`: symmetric, and its own inverse. Both sides of a layer are
//! cut into blocks of 128 features, and each block is transformed by itself. The order of the additions is
//! part of the format, since embedding rows are rounded to f16 behind it and have to come out bit by bit.

/// Features of a block; both sides of a layer are padded to a multiple of it.
pub const BLOCK: usize = 128;

/// 1 / sqrt(128) as an f32, applied once after the butterflies.
pub const NORMALISATION: f32 = 0.088_388_347_648_f64 as f32;

/// `features` rounded up to a multiple of [`BLOCK`].
pub const fn padded(features: usize) -> usize {
    features.next_multiple_of(BLOCK)
}

/// Transforms the values in place without normalisation: butterflies (a, b) -> (a + b, a - b) in f32, of
/// strides 1, 2, 4, up to half the length.
///
/// # Panics
/// If the length is no power of two.
pub fn walsh_hadamard(values: &mut [f32]) {
    assert!(values.len().is_power_of_two(), "a Walsh-Hadamard transform of {} values", values.len());
    let mut stride = 1;
    while stride < values.len() {
        for pair in values.chunks_exact_mut(2 * stride) {
            let (low, high) = pair.split_at_mut(stride);
            butterflies(low, high);
        }
        stride *= 2;
    }
}

/// Multiplies each block of 128 values by H, in place.
///
/// # Panics
/// If the length is no multiple of 128.
pub fn hadamard_128(values: &mut [f32]) {
    assert!(values.len().is_multiple_of(BLOCK), "blocks of 128 in {} values", values.len());
    for block in values.chunks_exact_mut(BLOCK) {
        walsh_hadamard(block);
    }
    normalise(values);
}

/// Multiplies a row-major matrix by block-diagonal H from the left: each column, in blocks of 128 rows.
///
/// The additions are those of [`hadamard_128`] on each column, done for whole rows at a time.
pub(crate) fn hadamard_128_columns(matrix: &mut [f32], columns: usize) {
    for block in matrix.chunks_exact_mut(BLOCK * columns) {
        let mut stride = 1;
        while stride < BLOCK {
            for pair in block.chunks_exact_mut(2 * stride * columns) {
                let (low, high) = pair.split_at_mut(stride * columns);
                butterflies(low, high);
            }
            stride *= 2;
        }
    }
    normalise(matrix);
}

fn butterflies(low: &mut [f32], high: &mut [f32]) {
    for (a, b) in low.iter_mut().zip(high) {
        (*a, *b) = (*a + *b, *a - *b);
    }
}

fn normalise(values: &mut [f32]) {
    for value in values {
        *value *= NORMALISATION;
    }
}
