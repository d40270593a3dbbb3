//! Grouped-query and latent attention, written out.

use super::linear::{Matrix, dot};
use crate::{Gqa, Mla};

/// A run of columns of row-major rows: the keys or values of one head.
#[derive(Clone, Copy)]
struct Strided<'a> {
    numbers: &'a [f32],
    cols: usize,
    start: usize,
    len: usize,
}

impl<'a> Strided<'a> {
    fn row(&self, row: usize) -> &'a [f32] {
        let start = row * self.cols + self.start;
        &self.numbers[start..start + self.len]
    }
}

/// What one sequence has cached, this step's rows included: part 0 and part 1 of its rows.
pub(super) struct Cached<'a> {
    /// Keys of all heads, or latents.
    pub(super) first: &'a [f32],
    /// Values of all heads, or rotary keys.
    pub(super) second: &'a [f32],
    /// How many of them were cached before this step.
    pub(super) before: usize,
}

/// One key and value head.
struct Head<'a> {
    keys: Strided<'a>,
    values: Strided<'a>,
    scale: f32,
}

impl Head<'_> {
    /// `sum_j softmax_j(scale * q . key_j) value_j` over the first `places` places.
    fn attend(&self, q: &[f32], places: usize) -> Vec<f32> {
        let scores: Vec<f32> = (0..places).map(|place| dot(q, self.keys.row(place)) * self.scale).collect();
        let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        let mut sums = vec![0.0_f64; self.values.len];
        for (place, score) in scores.into_iter().enumerate() {
            let weight = f64::from((score - best).exp());
            total += weight;
            for (sum, value) in sums.iter_mut().zip(self.values.row(place)) {
                *sum += weight * f64::from(*value);
            }
        }
        sums.into_iter().map(|sum| (sum / total) as f32).collect()
    }
}

/// Grouped-query attention of the rows `q` of one sequence.
pub(super) fn gqa(q: &[f32], cached: &Cached<'_>, shape: Gqa) -> Vec<f32> {
    let (heads, kv_heads) = (shape.heads as usize, shape.kv_heads as usize);
    let (key_dims, value_dims) = (shape.key_dims as usize, shape.value_dims as usize);
    let mut out = Vec::new();
    for (row, q) in q.chunks_exact(heads * key_dims).enumerate() {
        for (head, q) in q.chunks_exact(key_dims).enumerate() {
            let group = head / (heads / kv_heads);
            let part =
                |numbers, dims| Strided { numbers, cols: kv_heads * dims, start: group * dims, len: dims };
            let head = Head {
                keys: part(cached.first, key_dims),
                values: part(cached.second, value_dims),
                scale: shape.scale,
            };
            out.extend(head.attend(q, cached.before + row + 1));
        }
    }
    out
}

/// Latent attention of the rows `q` of one sequence, in the expanded form.
pub(super) fn mla(q: &[f32], cached: &Cached<'_>, up: &Matrix, shape: Mla) -> Vec<f32> {
    let (nope, rotary, value) = (shape.nope as usize, shape.rotary as usize, shape.value as usize);
    let (heads, q_dims, rank) = (shape.heads as usize, nope + rotary, shape.rank as usize);
    let rows = q.len() / (heads * q_dims);
    let mut out = vec![0.0; rows * heads * value];
    for head in 0..heads {
        let of_head = head * (nope + value) * rank..(head + 1) * (nope + value) * rank;
        let up = Matrix { out: nope + value, inputs: rank, values: up.values[of_head].to_vec(), bias: None };
        let expanded = up.apply(cached.first);
        let mut keys = Vec::new();
        for (expanded, rotary) in expanded.chunks_exact(nope + value).zip(cached.second.chunks_exact(rotary))
        {
            keys.extend_from_slice(&expanded[..nope]);
            keys.extend_from_slice(rotary);
        }
        let expanded_head = Head {
            keys: Strided { numbers: &keys, cols: q_dims, start: 0, len: q_dims },
            values: Strided { numbers: &expanded, cols: nope + value, start: nope, len: value },
            scale: shape.scale,
        };
        for row in 0..rows {
            let q = &q[(row * heads + head) * q_dims..][..q_dims];
            let result = expanded_head.attend(q, cached.before + row + 1);
            out[(row * heads + head) * value..][..value].copy_from_slice(&result);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(got: &[f32], want: &[f32]) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            // A few roundings of 2^-24 each.
            assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "{got}, needed {want}");
        }
    }

    #[test]
    fn a_row_sees_its_own_place_and_those_before_and_none_after() {
        let shape = Gqa { heads: 1, kv_heads: 1, key_dims: 1, value_dims: 1, scale: 1.0 };
        let ln3 = 3f32.ln();
        // Weights of keys (0, ln 3, 0): the first row sees one, the second 1 : 3, the third 1 : 3 : 1.
        let cached = Cached { first: &[0.0, ln3, 0.0], second: &[4.0, 8.0, 100.0], before: 0 };
        assert_close(&gqa(&[1.0, 1.0, 1.0], &cached, shape), &[4.0, 7.0, 25.6]);
        // The same, the first two places being cached before.
        let cached = Cached { before: 2, ..cached };
        assert_close(&gqa(&[1.0], &cached, shape), &[25.6]);
    }

    #[test]
    fn neighbouring_query_heads_share_a_key_head() {
        let shape = Gqa { heads: 4, kv_heads: 2, key_dims: 1, value_dims: 2, scale: 1.0 };
        let cached = Cached { first: &[1.0, 1.0], second: &[1.0, 2.0, 3.0, 4.0], before: 0 };
        // One place only, so that each head gives its value: heads 0, 1 the first, heads 2, 3 the second.
        assert_close(&gqa(&[0.5; 4], &cached, shape), &[1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    }

    #[test]
    fn scores_are_scaled_before_the_softmax_and_large_ones_stay_finite() {
        let shape = Gqa { heads: 1, kv_heads: 1, key_dims: 2, value_dims: 1, scale: 0.5 };
        // Scores 0.5 * (2 * 0.693147 + 0) = ln 2 and 0: weights 2 : 1.
        let ln2 = 2f32.ln();
        let cached = Cached { first: &[ln2, 5.0, 0.0, 5.0], second: &[3.0, 6.0], before: 1 };
        assert_close(&gqa(&[2.0, 0.0], &cached, shape), &[4.0]);
        let cached = Cached { first: &[1000.0, 0.0, 999.0, 0.0], ..cached };
        assert_close(&gqa(&[1000.0, 0.0], &cached, shape), &[3.0]);
    }

    #[test]
    fn latent_attention_projects_keys_and_values_up_and_adds_the_shared_rotary_key() {
        // Two heads of one dim that meets the key from the latent, one rotary dim and one value dim, over a
        // latent of two numbers. Rows of `up`: K and V of head 0, K and V of head 1.
        let up = vec![1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 2.0, 0.0];
        let up = Matrix { out: 4, inputs: 2, values: up, bias: None };
        let shape = Mla { heads: 2, nope: 1, rotary: 1, value: 1, rank: 2, scale: 1.0 };
        let (ln2, ln3) = (2f32.ln(), 3f32.ln());
        // Latents (ln 2, 4) and (0, 8), rotary keys 0 and ln 3.
        let cached = Cached { first: &[ln2, 4.0, 0.0, 8.0], second: &[0.0, ln3], before: 1 };
        // Head 0, q = (1, 1): scores ln 2 + 0 and 0 + ln 3, values 4 and 8: (2 * 4 + 3 * 8) / 5 = 6.4.
        // Head 1, q = (0, 1): scores 0 and ln 3, values 2 ln 2 and 0: 2 ln 2 / 4.
        assert_close(&mla(&[1.0, 1.0, 0.0, 1.0], &cached, &up, shape), &[6.4, ln2 / 2.0]);
    }
}
