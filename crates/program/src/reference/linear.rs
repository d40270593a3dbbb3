//! Products with matrices.

/// A linear map `y = W x (+ bias)`, dense.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    /// Rows of `values`.
    pub(super) out: usize,
    /// Columns of `values`.
    pub(super) inputs: usize,
    /// Row-major `[out, inputs]`.
    pub(super) values: Vec<f32>,
    /// `out` numbers, or none.
    pub(super) bias: Option<Vec<f32>>,
}

/// Rows that are multiplied with one row of a matrix while it is near: for speed alone, since each
/// product is a sum of its own.
const ROWS_AT_ONCE: usize = 16;

/// The sum of `a[i] * b[i]`: 16 running sums in `f32`, which are added in `f64`.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<16>();
    let (b_chunks, b_rest) = b.as_chunks::<16>();
    let mut sums = [0.0_f32; 16];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..16 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| f64::from(a * b)).sum();
    (sums.into_iter().map(f64::from).sum::<f64>() + rest) as f32
}

impl Matrix {
    /// `W x (+ bias)` for each row of `x`: `[rows, inputs]` to `[rows, out]`.
    pub(super) fn apply(&self, x: &[f32]) -> Vec<f32> {
        let mut y = vec![0.0; x.len() / self.inputs * self.out];
        let blocks = x.chunks(ROWS_AT_ONCE * self.inputs).zip(y.chunks_mut(ROWS_AT_ONCE * self.out));
        for (x, y) in blocks {
            for (feature, weights) in self.values.chunks_exact(self.inputs).enumerate() {
                let bias = self.bias.as_ref().map_or(0.0, |bias| bias[feature]);
                for (x, y) in x.chunks_exact(self.inputs).zip(y.chunks_exact_mut(self.out)) {
                    y[feature] = dot(x, weights) + bias;
                }
            }
        }
        y
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_is_the_sum_over_its_row_and_its_bias() {
        let matrix = Matrix {
            out: 2,
            inputs: 3,
            values: vec![1.0, 2.0, 3.0, -1.0, 0.5, 0.25],
            bias: Some(vec![10.0, -1.0]),
        };
        // 1 + 4 + 9 + 10, -1 + 1 + 0.75 - 1; then zeros, which leave the bias.
        assert_eq!(matrix.apply(&[1.0, 2.0, 3.0, 0.0, 0.0, 0.0]), [24.0, -0.25, 10.0, -1.0]);
    }

    #[test]
    fn a_product_of_any_length_counts_every_element_once() {
        for len in [1, 15, 16, 17, 33, 160] {
            let ones = vec![1.0; len];
            let numbers: Vec<f32> = (1..=len).map(|i| i as f32).collect();
            assert_eq!(dot(&ones, &numbers), (len * (len + 1) / 2) as f32);
        }
    }
}
