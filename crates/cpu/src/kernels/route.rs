//! Chooses experts for each row, as [`Routing`] says.
//!
//! One thread: scores in vectors, and for each chosen expert a run of comparisons of whole numbers, some 0.1 us
//! a row of 32 experts. Traffic: 4 bytes an expert and row.

use program::routing::hashed_experts;
use program::{Gates, Groups, Routing, Score};

use super::{Rows, Work};
use crate::simd::{LANES, Simd, math};

/// The work space of [`route`]: scores and keys of experts, and what groups are worth.
pub(crate) fn work(how: &Routing) -> Work {
    let groups = how.groups.map_or(0, |groups| groups.count as usize);
    Work { shared: 2 * how.experts as usize + groups, thread: 0 }
}

/// The first number of all in the total order: the negative NaN with all bits set.
const LEAST: f32 = f32::from_bits(u32::MAX);

/// What is known of the rows apart from their logits.
pub(crate) struct Identity<'a> {
    pub(crate) tokens: &'a [u32],
    pub(crate) positions: &'a [u32],
    /// Room for the experts of one row.
    pub(crate) chosen: &'a mut [u32],
}

/// Writes the chosen experts of each row, best first, and their gates.
pub(crate) fn route<S: Simd>(
    simd: S,
    (logits, rows): (Rows<'_>, Identity<'_>),
    (how, bias): (&Routing, Option<&[f32]>),
    (ids, gates): (&mut [f32], &mut [f32]),
    shared: &mut [f32],
) {
    let top_k = how.top_k as usize;
    let chosen = &mut rows.chosen[..top_k];
    let (scores, rest) = shared.split_at_mut(logits.cols());
    let (keys, worths) = rest.split_at_mut(logits.cols());
    let results = ids.chunks_exact_mut(top_k).zip(gates.chunks_exact_mut(top_k));
    for (row, (ids, gates)) in results.enumerate() {
        if let Score::Hash { layer } = how.score {
            hashed_experts(rows.tokens[row], rows.positions[row], layer, how.experts, chosen);
            gates.fill(1.0);
        } else {
            let logits = logits.row(row);
            simd.vectorize(
                #[inline(always)]
                || {
                    score(simd, logits, how.score, scores);
                    keys.copy_from_slice(scores);
                    for (key, bias) in keys.iter_mut().zip(bias.unwrap_or_default()) {
                        *key += bias;
                    }
                    if let Some(groups) = how.groups {
                        rule_out(keys, groups, &mut worths[..groups.count as usize]);
                    }
                    for (expert, gate) in chosen.iter_mut().zip(&mut *gates) {
                        let best = take_best(keys);
                        (*expert, *gate) = (best as u32, scores[best]);
                    }
                },
            );
        }
        for (id, expert) in ids.iter_mut().zip(&*chosen) {
            *id = *expert as f32;
        }
        if let Gates::Normalised { epsilon } = how.gates {
            let sum = gates.iter().sum::<f32>() + epsilon;
            gates.iter_mut().for_each(|gate| *gate /= sum);
        }
        gates.iter_mut().for_each(|gate| *gate *= how.scale);
    }
}

#[inline(always)]
fn score<S: Simd>(simd: S, logits: &[f32], score: Score, scores: &mut [f32]) {
    let one = simd.splat(1.0);
    match score {
        Score::Softmax => {
            let best = simd.splat(largest(simd, logits));
            math::map(
                simd,
                logits,
                scores,
                #[inline(always)]
                |logit| math::exp(simd, simd.sub(logit, best)),
            );
            let sum = scores.iter().map(|score| f64::from(*score)).sum::<f64>() as f32;
            scores.iter_mut().for_each(|score| *score /= sum);
        }
        Score::Sigmoid => {
            math::map(
                simd,
                logits,
                scores,
                #[inline(always)]
                |logit| simd.div(one, simd.add(one, math::exp(simd, simd.sub(simd.splat(0.0), logit)))),
            );
        }
        Score::Hash { .. } => scores.fill(1.0),
    }
}

/// The largest number that is none of NaN; minus infinity if there is none.
#[inline(always)]
fn largest<S: Simd>(simd: S, numbers: &[f32]) -> f32 {
    let (vectors, rest) = numbers.as_chunks::<LANES>();
    let mut largest = simd.splat(f32::NEG_INFINITY);
    for vector in vectors {
        largest = simd.max(simd.load(vector), largest);
    }
    rest.iter().copied().fold(simd.largest(largest), f32::max)
}

/// Makes the keys of all groups but the best ones minus infinity. `worths` is room for a number a group.
fn rule_out(keys: &mut [f32], groups: Groups, worths: &mut [f32]) {
    let size = keys.len() / worths.len();
    for (worth, keys) in worths.iter_mut().zip(keys.chunks_exact(size)) {
        let (mut best, mut second) = (LEAST, LEAST);
        for key in keys {
            if key.total_cmp(&best).is_gt() {
                (best, second) = (*key, best);
            } else if key.total_cmp(&second).is_gt() {
                second = *key;
            }
        }
        *worth = best + second;
    }
    for _ in 0..groups.chosen {
        take_best(worths);
    }
    for (worth, keys) in worths.iter().zip(keys.chunks_exact_mut(size)) {
        if worth.to_bits() != LEAST.to_bits() {
            keys.fill(f32::NEG_INFINITY);
        }
    }
}

/// The index of the largest key in the total order, the lowest of equal ones; its key becomes the smallest
/// there is.
#[inline(always)]
fn take_best(keys: &mut [f32]) -> usize {
    let largest = keys.iter().map(|key| rank(*key)).max().unwrap_or(i32::MIN);
    let best = keys.iter().position(|key| rank(*key) == largest).unwrap_or(0);
    keys[best] = LEAST;
    best
}

/// A whole number whose order is [`f32::total_cmp`]'s: the magnitude of a negative number counts down.
#[inline(always)]
fn rank(key: f32) -> i32 {
    let bits = key.to_bits().cast_signed();
    bits ^ (((bits >> 31).cast_unsigned() >> 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::scalar::Scalar;

    fn chosen(logits: &[f32], bias: Option<&[f32]>, how: &Routing) -> (Vec<f32>, Vec<f32>) {
        let experts = logits.len();
        let (mut ids, mut gates) = (vec![0.0; how.top_k as usize], vec![0.0; how.top_k as usize]);
        let identity = Identity { tokens: &[5], positions: &[9], chosen: &mut vec![0; experts] };
        let logits = Rows::new(logits, experts, 0, experts);
        let mut shared = vec![0.0; work(how).shared];
        route(Scalar, (logits, identity), (how, bias), (&mut ids, &mut gates), &mut shared);
        (ids, gates)
    }

    fn routing(experts: u32, top_k: u32, score: Score) -> Routing {
        Routing { experts, top_k, groups: None, score, gates: Gates::Raw, scale: 1.0 }
    }

    #[test]
    fn ties_go_to_the_lower_index_and_no_expert_is_chosen_twice() {
        let how = routing(4, 4, Score::Sigmoid);
        assert_eq!(chosen(&[0.0, 1.0, 0.0, 1.0], None, &how).0, [1.0, 3.0, 0.0, 2.0]);
        assert_eq!(chosen(&[f32::NEG_INFINITY; 4], None, &how).0, [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_bias_moves_the_choice_and_not_the_gates() {
        let how = routing(3, 2, Score::Sigmoid);
        let (ids, gates) = chosen(&[0.0, 2.0, 1.0], Some(&[10.0, -10.0, 0.0]), &how);
        assert_eq!(ids, [0.0, 2.0]);
        assert_eq!(gates, [0.5, 1.0 / (1.0 + (-1.0f32).exp())]);
    }

    #[test]
    fn only_experts_of_the_groups_with_the_best_two_are_chosen_however_small_their_keys() {
        let within = |count, chosen| Routing {
            groups: Some(Groups { count, chosen }),
            ..routing(6, 2, Score::Sigmoid)
        };
        let logits = [0.0, 0.0, 3.0, -3.0, 0.25, 0.25];
        // The sums of scores are 1, 1 and 1.12; then the first two tie.
        assert_eq!(chosen(&logits, None, &within(3, 1)).0, [4.0, 5.0]);
        assert_eq!(chosen(&[0.0; 6], None, &within(3, 2)).0, [0.0, 1.0]);
        // With a bias of -2 every key is negative, and no expert of another group must look better.
        assert_eq!(chosen(&logits, Some(&[-2.0; 6]), &within(3, 1)).0, [4.0, 5.0]);
        assert_eq!(chosen(&logits, Some(&[-2.0, -2.0, -5.0, -2.0, -5.0, -5.0]), &within(3, 1)).0, [0.0, 1.0]);
    }

    #[test]
    fn ranks_are_in_the_total_order() {
        let nan = f32::NAN;
        let keys = [LEAST, -nan, f32::NEG_INFINITY, -2.0, -1e-40, -0.0, 0.0, 1e-40, 1.0, f32::INFINITY, nan];
        assert!(keys.is_sorted_by(|a, b| a.total_cmp(b).is_le()));
        assert!(keys.is_sorted_by(|a, b| rank(*a) <= rank(*b)) && rank(LEAST) == i32::MIN);
        assert!(rank(-0.0) < rank(0.0));
    }

    #[test]
    fn hashed_routing_reads_no_logits() {
        let how = Routing { scale: 2.0, ..routing(8, 3, Score::Hash { layer: 4 }) };
        let mut want = [0; 3];
        hashed_experts(5, 9, 4, 8, &mut want);
        let (ids, gates) = chosen(&[f32::NAN; 8], None, &how);
        assert_eq!(ids, want.map(|expert| expert as f32));
        assert_eq!(gates, [2.0; 3]);
    }
}
