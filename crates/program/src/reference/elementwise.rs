//! Norms, rotary embedding, activations and sums: what works on one row at a time.

use crate::{Activation, Heads, Pairing, Rope};

/// `x / sqrt(mean(x^2) + eps) * weight` over each run of as many columns as `weight` has.
pub(super) fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for run in x.chunks_exact(weight.len()) {
        let squares: f64 = run.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        let scale = (1.0 / (squares / run.len() as f64 + f64::from(eps)).sqrt()) as f32;
        out.extend(run.iter().zip(weight).map(|(x, weight)| x * scale * weight));
    }
    out
}

/// `a + b`.
pub(super) fn add(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// `act(gate) * up`.
pub(super) fn act_mul(gate: &[f32], up: &[f32], act: Activation) -> Vec<f32> {
    gate.iter().zip(up).map(|(gate, up)| activate(*gate, act) * up).collect()
}

fn activate(x: f32, act: Activation) -> f32 {
    match act {
        // exp overflows to infinity for x below -88, and the quotient is 0 as it should be.
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// Rotates each head of each row by the row's position. The angle is the product of position and
/// frequency rounded to `f32`, which is what models are trained with.
pub(super) fn rope(x: &[f32], positions: &[u32], heads: Heads, rope: &Rope) -> Vec<f32> {
    let (count, dims) = (heads.count as usize, heads.dims as usize);
    let (first, half) = (heads.first as usize, heads.rotary as usize / 2);
    let mut out = x.to_vec();
    for (row, position) in out.chunks_exact_mut(count * dims).zip(positions) {
        for head in row.chunks_exact_mut(dims) {
            for (pair, frequency) in rope.inverse_frequencies.iter().enumerate() {
                let (i, j) = match rope.pairing {
                    Pairing::Interleaved => (first + 2 * pair, first + 2 * pair + 1),
                    Pairing::HalfSplit => (first + pair, first + half + pair),
                };
                let (sin, cos) = (*position as f32 * frequency).sin_cos();
                let (u, v) = (head[i], head[j]);
                head[i] = rope.gain * (u * cos - v * sin);
                head[j] = rope.gain * (v * cos + u * sin);
            }
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
            assert!((got - want).abs() <= 1e-6 * want.abs().max(1e-3), "{got}, needed {want}");
        }
    }

    #[test]
    fn eps_is_added_to_the_mean_square_and_counts_in_a_row_of_tiny_variance() {
        // Mean square 1e-6: 3e-3 / sqrt(1e-6 + 1e-5) = 0.90453403, 3e-3 / sqrt(2e-6) = 2.12132034.
        let x = [1e-3, -1e-3, 1e-3, -1e-3];
        let threes = [3.0; 4];
        assert_close(&rms_norm(&x, &threes, 1e-5), &[0.904_534, -0.904_534, 0.904_534, -0.904_534]);
        assert_close(&rms_norm(&x, &threes, 1e-6), &[2.121_320_3, -2.121_320_3, 2.121_320_3, -2.121_320_3]);
    }

    #[test]
    fn a_norm_runs_over_as_many_columns_as_its_weight_has() {
        // Runs (3, 4) and (0, 2): mean squares 12.5 and 2.
        let out = rms_norm(&[3.0, 4.0, 0.0, 2.0], &[1.0, 10.0], 0.0);
        assert_close(&out, &[0.848_528_1, 11.313_708, 0.0, 14.142_136]);
    }

    #[test]
    fn residuals_of_a_thousand_stay_finite_and_right() {
        // The square of 1,000 is above what a half holds, the sum of 2,048 of them above 2^30.
        let x: Vec<f32> = (0..2048).map(|i| if i % 3 == 0 { -1000.0 } else { 1000.0 }).collect();
        let out = rms_norm(&x, &[0.5; 2048], 1e-5);
        for (x, out) in x.iter().zip(out) {
            assert_close(&[out], &[0.5 * x.signum()]);
        }
    }

    /// One frequency of 1 and one of 0.5, two pairs of (1, 0) and (0, 1) whichever way they pair.
    fn turned(pairing: Pairing, x: [f32; 4]) -> Vec<f32> {
        let settings = Rope { inverse_frequencies: [1.0, 0.5].into(), gain: 1.0, pairing };
        rope(&x, &[2], Heads { count: 1, dims: 4, first: 0, rotary: 4 }, &settings)
    }

    #[test]
    fn interleaved_pairs_are_neighbours_and_half_split_pairs_lie_half_the_rotary_part_apart() {
        // cos 2 = -0.41614684, sin 2 = 0.90929743, cos 1 = 0.54030231, sin 1 = 0.84147098.
        let x = [1.0, 0.0, 0.0, 1.0];
        assert_close(
            &turned(Pairing::Interleaved, x),
            &[-0.416_146_84, 0.909_297_4, -0.841_470_96, 0.540_302_3],
        );
        assert_close(
            &turned(Pairing::HalfSplit, x),
            &[-0.416_146_84, -0.841_470_96, 0.909_297_4, 0.540_302_3],
        );
    }

    #[test]
    fn only_the_rotary_part_of_each_head_turns_and_the_gain_acts_on_it_alone() {
        let settings = Rope { inverse_frequencies: [1.0].into(), gain: 2.0, pairing: Pairing::HalfSplit };
        let heads = Heads { count: 2, dims: 3, first: 1, rotary: 2 };
        let x = [7.0, 1.0, 0.0, 8.0, 0.0, 1.0, 7.0, 1.0, 0.0, 8.0, 0.0, 1.0];
        let out = rope(&x, &[0, 1], heads, &settings);
        assert_close(&out[..6], &[7.0, 2.0, 0.0, 8.0, 0.0, 2.0]);
        // 2 cos 1 = 1.08060461, 2 sin 1 = 1.68294197.
        assert_close(&out[6..], &[7.0, 1.080_604_6, 1.682_942, 8.0, -1.682_942, 1.080_604_6]);
    }

    #[test]
    fn silu_is_right_near_zero_and_at_large_magnitudes() {
        let gate = [0.0, 1.0, -1.0, 20.0, -20.0, 1000.0, -1000.0];
        let out = act_mul(&gate, &[1.0; 7], Activation::Silu);
        // 1 / (1 + e^-1) = 0.73105858, 20 / (1 + e^20) = 4.1223072e-8.
        assert_close(&out[..4], &[0.0, 0.731_058_6, -0.268_941_43, 20.0]);
        assert!((out[4] / -4.122_307e-8 - 1.0).abs() < 1e-6);
        assert_eq!(out[5..], [1000.0, 0.0]);
        assert_eq!(act_mul(&[1000.0], &[-0.25], Activation::Silu), [-250.0]);
    }
}
