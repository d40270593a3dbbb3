//! The rotation of 128 numbers, in vectors.
//!
//! `y = H x` with `H[i][j] = (-1)^popcount(i & j) / sqrt(128)`: butterflies of strides 1, 2, 4 inside vectors
//! and 8 to 64 between them, then one multiplication, exactly the additions of [`exl3::hadamard`].
//! 1 KB of traffic, in the first-level cache.

use exl3::hadamard::NORMALISATION;

use crate::simd::{LANES, Simd};

/// Vectors of a block of 128.
pub(crate) const VECTORS: usize = exl3::hadamard::BLOCK / LANES;

/// Makes each pair of numbers at distance `stride` their sum and difference, for strides 1, 2, up to half of
/// `N` vectors.
#[inline(always)]
pub(crate) fn butterflies<S: Simd, const N: usize>(simd: S, vectors: &mut [S::F32; N]) {
    for vector in vectors.iter_mut() {
        for stride in [1, 2, 4] {
            *vector = simd.butterfly(stride, *vector);
        }
    }
    let mut stride = 1;
    while stride < N {
        for low in (0..N).filter(|low| low & stride == 0) {
            let (a, b) = (vectors[low], vectors[low + stride]);
            vectors[low] = simd.add(a, b);
            vectors[low + stride] = simd.sub(a, b);
        }
        stride *= 2;
    }
}

/// `H x`.
#[inline(always)]
pub(crate) fn rotate<S: Simd>(simd: S, mut vectors: [S::F32; VECTORS]) -> [S::F32; VECTORS] {
    butterflies(simd, &mut vectors);
    let normalisation = simd.splat(NORMALISATION);
    for vector in &mut vectors {
        *vector = simd.mul(*vector, normalisation);
    }
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::levels;

    #[test]
    fn the_bits_are_those_of_the_codec() {
        let x: [[f32; LANES]; VECTORS] =
            std::array::from_fn(|v| std::array::from_fn(|l| ((v * 8 + l) as f32 * 0.37).sin()));
        let mut want = x.as_flattened().to_vec();
        exl3::hadamard::hadamard_128(&mut want);
        levels!(|simd| {
            let mut got = [[0.0; LANES]; VECTORS];
            simd.vectorize(
                #[inline(always)]
                || {
                    let y = rotate(simd, x.map(|x| simd.load(&x)));
                    y.into_iter().zip(&mut got).for_each(|(y, got)| simd.store(y, got));
                },
            );
            assert_eq!(got.as_flattened(), want);
        });
    }
}
