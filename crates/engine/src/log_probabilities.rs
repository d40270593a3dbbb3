//! How probable a token was, from its row of logits.

use std::cmp::Ordering;

/// The natural logarithm of the probability of `token`, and in `top` those of the `count` most probable tokens, the
/// best first, ties to the lower id.
pub(crate) fn log_probabilities(logits: &[f32], token: u32, count: u32, top: &mut Vec<(u32, f32)>) -> f32 {
    top.clear();
    if count > 0 {
        for (id, logit) in (0..).zip(logits) {
            let entry = (id, *logit);
            // Ids come in order, so an equal logit later on is no better.
            let full = top.len() == count as usize;
            if full && top.last().is_some_and(|last| entry.1 <= last.1) {
                continue;
            }
            top.truncate(count as usize - 1);
            let place = top.partition_point(|other| other.1.total_cmp(logit) != Ordering::Less);
            top.insert(place, entry);
        }
    }
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - best).exp()).sum();
    let normal = f64::from(best) + sum.ln();
    top.iter_mut().for_each(|(_, logit)| *logit = (f64::from(*logit) - normal) as f32);
    (f64::from(logits[token as usize]) - normal) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_ties_go_to_the_lower_id() {
        let logits = [0.125f32.ln(), 0.25f32.ln(), 0.125f32.ln(), 0.5f32.ln()];
        let mut top = Vec::new();
        for count in 0..6 {
            let token = log_probabilities(&logits, 2, count, &mut top);
            assert!((token - 0.125f32.ln()).abs() < 1e-6);
            let want = [(3, 0.5f32), (1, 0.25), (0, 0.125), (2, 0.125)];
            assert_eq!(top.len(), want.len().min(count as usize));
            for ((id, got), (want_id, want)) in top.iter().zip(want) {
                assert!(*id == want_id && (got - want.ln()).abs() < 1e-6, "{top:?}");
            }
        }
    }

    #[test]
    fn tokens_that_cannot_come_have_minus_infinity() {
        let mut top = Vec::new();
        let token = log_probabilities(&[f32::NEG_INFINITY, 1.0], 0, 2, &mut top);
        assert_eq!((token, &top[..]), (f32::NEG_INFINITY, &[(1, 0.0), (0, f32::NEG_INFINITY)][..]));
    }
}
