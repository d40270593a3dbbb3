//! Mixtures of experts: the router's choice, and the experts themselves.

use super::elementwise::{act_mul, add};
use super::linear::Matrix;
use crate::routing::hashed_experts;
use crate::{Activation, Gates, Groups, Routing, Score};

/// The matrices of one gated feed-forward unit.
#[derive(Clone, Copy)]
pub(super) struct Unit<'a> {
    pub(super) gate: &'a Matrix,
    pub(super) up: &'a Matrix,
    pub(super) down: &'a Matrix,
}

impl Unit<'_> {
    /// `down(act(gate x) * (up x))` for each row of `x`.
    pub(super) fn apply(&self, x: &[f32], act: Activation) -> Vec<f32> {
        self.down.apply(&act_mul(&self.gate.apply(x), &self.up.apply(x), act))
    }
}

/// What a row is, apart from its numbers.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) token: u32,
    pub(super) position: u32,
}

/// The experts chosen for one row, best first, and their gates.
pub(super) fn route(logits: &[f32], bias: Option<&[f32]>, how: &Routing, row: Row) -> (Vec<u32>, Vec<f32>) {
    let mut chosen = vec![0; how.top_k as usize];
    let scores = scores(logits, how.score);
    match how.score {
        Score::Hash { layer } => {
            hashed_experts(row.token, row.position, layer, how.experts, &mut chosen);
        }
        Score::Softmax | Score::Sigmoid => {
            let mut keys = keys(logits, bias, how);
            if let Some(groups) = how.groups {
                rule_out(&mut keys, groups);
            }
            chosen.copy_from_slice(&descending(&keys)[..how.top_k as usize]);
        }
    }
    let mut gates: Vec<f32> = chosen.iter().map(|expert| scores[*expert as usize]).collect();
    if let Gates::Normalised { epsilon } = how.gates {
        let sum = gates.iter().sum::<f32>() + epsilon;
        gates.iter_mut().for_each(|gate| *gate /= sum);
    }
    gates.iter_mut().for_each(|gate| *gate *= how.scale);
    (chosen, gates)
}

/// What the experts of one row are chosen by: their scores and the bias.
pub(crate) fn keys(logits: &[f32], bias: Option<&[f32]>, how: &Routing) -> Vec<f32> {
    let scores = scores(logits, how.score);
    match bias {
        Some(bias) => add(&scores, bias),
        None => scores,
    }
}

/// Makes the keys of the groups that do not stay smaller than any other.
fn rule_out(keys: &mut [f32], groups: Groups) {
    let stay = stay(&worths(keys, groups), groups);
    for (keys, stays) in keys.chunks_exact_mut(keys.len() / groups.count as usize).zip(stay) {
        if !stays {
            keys.fill(f32::NEG_INFINITY);
        }
    }
}

/// What each group of experts is worth: the sum of its two largest keys.
pub(crate) fn worths(keys: &[f32], groups: Groups) -> Vec<f32> {
    let worth = |keys: &[f32]| {
        let mut keys = keys.to_vec();
        keys.sort_by(|a, b| b.total_cmp(a));
        keys[0] + keys[1]
    };
    keys.chunks_exact(keys.len() / groups.count as usize).map(worth).collect()
}

/// Whether each group stays.
pub(crate) fn stay(worths: &[f32], groups: Groups) -> Vec<bool> {
    let best = descending(worths);
    let mut stay = vec![false; worths.len()];
    best[..groups.chosen as usize].iter().for_each(|group| stay[*group as usize] = true);
    stay
}

/// The indices of numbers in descending order; equal ones stay in the order of their indices.
fn descending(numbers: &[f32]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
    order.sort_by(|a, b| numbers[*b as usize].total_cmp(&numbers[*a as usize]));
    order
}

fn scores(logits: &[f32], score: Score) -> Vec<f32> {
    match score {
        Score::Softmax => {
            let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let powers: Vec<f32> = logits.iter().map(|logit| (logit - best).exp()).collect();
            let sum = powers.iter().map(|power| f64::from(*power)).sum::<f64>() as f32;
            powers.into_iter().map(|power| power / sum).collect()
        }
        Score::Sigmoid => logits.iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect(),
        Score::Hash { .. } => vec![1.0; logits.len()],
    }
}

/// The chosen experts of each row and their gates: `[rows, top_k]` both.
pub(super) struct Choice<'a> {
    pub(super) ids: &'a [u32],
    pub(super) gates: &'a [f32],
    pub(super) top_k: usize,
}

/// `sum_s gates[s] * unit_{ids[s]}(x)` for each row of `x`, summed in the order of `s`.
pub(super) fn mixture(x: &[f32], choice: &Choice<'_>, experts: &[Unit<'_>], act: Activation) -> Vec<f32> {
    let rows = choice.ids.len() / choice.top_k;
    let hidden = x.len() / rows;
    let mut results = vec![0.0; choice.ids.len() * hidden];
    for (expert, unit) in experts.iter().enumerate() {
        let slots: Vec<usize> =
            (0..choice.ids.len()).filter(|slot| choice.ids[*slot] as usize == expert).collect();
        let inputs: Vec<f32> =
            slots.iter().flat_map(|slot| &x[slot / choice.top_k * hidden..][..hidden]).copied().collect();
        for (slot, result) in slots.iter().zip(unit.apply(&inputs, act).chunks_exact(hidden)) {
            results[slot * hidden..][..hidden].copy_from_slice(result);
        }
    }
    let mut out = vec![0.0; x.len()];
    for (slot, (gate, result)) in choice.gates.iter().zip(results.chunks_exact(hidden)).enumerate() {
        let out = &mut out[slot / choice.top_k * hidden..][..hidden];
        for (out, result) in out.iter_mut().zip(result) {
            *out += gate * result;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Row = Row { token: 0, position: 0 };

    fn routing(experts: u32, top_k: u32, score: Score) -> Routing {
        Routing { experts, top_k, groups: None, score, gates: Gates::Raw, scale: 1.0 }
    }

    fn assert_close(got: &[f32], want: &[f32]) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            // A few roundings of 2^-24 each.
            assert!((got - want).abs() <= 1e-6 * want.abs().max(1e-3), "{got}, needed {want}");
        }
    }

    #[test]
    fn sigmoid_scores_do_not_depend_on_other_experts_and_softmax_scores_sum_to_one() {
        let logits = [0.0, 1.0, -1.0, 2.0];
        // 1 / (1 + e^-2), 1 / (1 + e^-1).
        let (ids, gates) = route(&logits, None, &routing(4, 2, Score::Sigmoid), NOWHERE);
        assert_eq!(ids, [3, 1]);
        assert_close(&gates, &[0.880_797_1, 0.731_058_6]);
        // e^2, e^1 over 1 + e + 1/e + e^2 = 11.47521737.
        let (ids, gates) = route(&logits, None, &routing(4, 2, Score::Softmax), NOWHERE);
        assert_eq!(ids, [3, 1]);
        assert_close(&gates, &[0.643_914_2, 0.236_882_82]);
    }

    #[test]
    fn the_bias_decides_who_is_chosen_and_not_with_what_gate() {
        let logits = [2.0, 1.0, 0.0];
        let bias = [-1.0, 0.0, 0.5];
        // Scores 0.88079708, 0.73105858, 0.5; keys -0.119, 0.731, 1.0.
        let (ids, gates) = route(&logits, Some(&bias), &routing(3, 2, Score::Sigmoid), NOWHERE);
        assert_eq!(ids, [2, 1]);
        assert_close(&gates, &[0.5, 0.731_058_6]);
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        for score in [Score::Sigmoid, Score::Softmax] {
            let (ids, _) = route(&[0.5, 1.0, 1.0, 0.5, 1.0], None, &routing(5, 4, score), NOWHERE);
            assert_eq!(ids, [1, 2, 4, 0]);
        }
        // The key counts, not the score: 0.5 + 0.25 twice.
        let (ids, _) =
            route(&[0.0, 0.0, 0.0], Some(&[0.0, 0.25, 0.25]), &routing(3, 1, Score::Sigmoid), NOWHERE);
        assert_eq!(ids, [1]);
    }

    /// Logits of experts whose sigmoid scores are these.
    fn logits_of(scores: &[f32]) -> Vec<f32> {
        scores.iter().map(|score| (score / (1.0 - score)).ln()).collect()
    }

    fn chosen_within(groups: Groups, top_k: u32, scores: &[f32], bias: Option<&[f32]>) -> Vec<u32> {
        let how = Routing { groups: Some(groups), ..routing(scores.len() as u32, top_k, Score::Sigmoid) };
        route(&logits_of(scores), bias, &how, NOWHERE).0
    }

    #[test]
    fn a_group_is_worth_the_sum_of_its_two_best_experts() {
        // The best expert is alone in its group of three, 0.9 + 0.1; the others have 0.6 + 0.5 and the largest
        // sum of three, 0.4 + 0.4 + 0.4.
        let scores = [0.9, 0.1, 0.1, 0.6, 0.5, 0.01, 0.4, 0.4, 0.4];
        assert_eq!(chosen_within(Groups { count: 3, chosen: 1 }, 2, &scores, None), [3, 4]);
        assert_eq!(chosen_within(Groups { count: 3, chosen: 2 }, 3, &scores, None), [0, 3, 4]);
        assert_eq!(chosen_within(Groups { count: 3, chosen: 3 }, 3, &scores, None), [0, 3, 4]);
    }

    #[test]
    fn groups_are_chosen_by_score_and_bias_and_ties_go_to_the_lower_group() {
        let scores = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5];
        let groups = Groups { count: 3, chosen: 1 };
        assert_eq!(chosen_within(groups, 2, &scores, None), [0, 1]);
        assert_eq!(chosen_within(groups, 2, &scores, Some(&[0.0, 0.0, 0.0, 0.25, 0.25, 0.0])), [3, 2]);
    }

    #[test]
    fn experts_of_other_groups_are_out_even_where_all_keys_are_negative() {
        // Keys -0.5, -0.25 | -0.75, -0.875: were those of the second group 0, they would be the best.
        let scores = [0.5, 0.75, 0.25, 0.125];
        let groups = Groups { count: 2, chosen: 1 };
        assert_eq!(chosen_within(groups, 2, &scores, Some(&[-1.0; 4])), [1, 0]);
    }

    #[test]
    fn gates_are_made_to_sum_to_the_scale_only_where_the_model_says_so() {
        let logits = [0.0, 0.0, -20.0];
        let raw = Routing { scale: 1.8, ..routing(3, 2, Score::Sigmoid) };
        assert_close(&route(&logits, None, &raw, NOWHERE).1, &[0.9, 0.9]);
        let normalised = |epsilon| Routing { gates: Gates::Normalised { epsilon }, scale: 1.5, ..raw };
        assert_close(&route(&logits, None, &normalised(1e-20), NOWHERE).1, &[0.75, 0.75]);
        // 0.5 / (1 + 0.25) * 1.5.
        assert_close(&route(&logits, None, &normalised(0.25), NOWHERE).1, &[0.6, 0.6]);
        // All scores are zero in f32: epsilon keeps the division finite.
        let (_, gates) = route(&[-200.0; 3], None, &normalised(1e-20), NOWHERE);
        assert_eq!(gates, [0.0, 0.0]);
    }

    #[test]
    fn hashed_routing_looks_at_token_position_and_layer_and_gives_equal_gates() {
        let how = Routing {
            gates: Gates::Normalised { epsilon: 0.0 },
            scale: 2.0,
            ..routing(16, 4, Score::Hash { layer: 3 })
        };
        let row = Row { token: 11, position: 5 };
        let (ids, gates) = route(&[f32::NAN; 16], None, &how, row);
        let mut want = [0; 4];
        hashed_experts(11, 5, 3, 16, &mut want);
        assert_eq!(ids, want);
        assert_eq!(gates, [0.5; 4]);
        assert_ne!(ids, route(&[0.0; 16], None, &how, Row { position: 6, ..row }).0);
    }

    /// An expert of one hidden number and width one: `down * silu(gate x) * up x`.
    fn matrices(gate: f32, up: f32, down: f32) -> [Matrix; 3] {
        [gate, up, down].map(|weight| Matrix { out: 1, inputs: 1, values: vec![weight], bias: None })
    }

    fn unit([gate, up, down]: &[Matrix; 3]) -> Unit<'_> {
        Unit { gate, up, down }
    }

    #[test]
    fn experts_are_weighed_by_their_gates_and_one_that_nobody_chose_is_not_asked() {
        // The expert nobody chose would give NaN.
        let experts = [matrices(1.0, 2.0, 1.0), matrices(f32::NAN, 1.0, 1.0), matrices(1.0, 1.0, -4.0)];
        let units: Vec<Unit<'_>> = experts.iter().map(unit).collect();
        let choice = Choice { ids: &[0, 2, 2, 0], gates: &[0.5, 1.0, 0.25, 0.0], top_k: 2 };
        let out = mixture(&[1.0, 2.0], &choice, &units, Activation::Silu);
        // silu(1) = 0.73105858: 0.5 * 2 * 0.73105858 - 4 * 0.73105858; silu(2) = 1.76159416: -0.25 * 4 * 2 * it.
        assert_close(&out, &[-2.193_175_7, -3.523_188_4]);
    }
}
