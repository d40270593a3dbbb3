//! How one token is drawn from a row of logits: the definition that every device follows.
//!
//! 1. Ids that the tokenizer does not know are left out.
//! 2. Temperature 0 takes the largest logit, ties to the lower id. Otherwise `p = softmax(logits / temperature)`.
//! 3. **top-k** keeps the k most probable tokens (ties to the lower id).
//! 4. **top-p** keeps the smallest leading part of them whose share of what top-k left is at least p.
//! 5. **min-p** drops tokens less probable than p times the most probable one.
//! 6. `random` in `[0, 1)` picks from the rest, laid end to end from the most probable on.

use std::cmp::Ordering;

/// How to draw a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// What logits are divided by; 0 takes the best token.
    pub temperature: f32,
    /// How many tokens stay; 0 keeps all.
    pub top_k: u32,
    /// The probability that must stay; 1 keeps all.
    pub top_p: f32,
    /// The least probability relative to the best token's; 0 keeps all.
    pub min_p: f32,
    /// The random number, in `[0, 1)`.
    pub random: f32,
}

/// How many of the best tokens are sorted at first; nearly every draw ends among them.
const SORTED_FIRST: usize = 64;

/// Working memory of a draw, so that a step allocates nothing: the logits with their ids.
#[derive(Clone, Debug, Default)]
pub struct Candidates(Vec<(f32, u32)>);

impl Candidates {
    /// Makes room for a vocabulary.
    pub(crate) fn reserve(&mut self, vocab: usize) {
        self.0.reserve(vocab.saturating_sub(self.0.len()));
    }
}

impl Draw {
    /// Takes the best token.
    pub const GREEDY: Draw = Draw { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, random: 0.0 };

    /// The token drawn from `logits`, which end where the tokenizer's ids end.
    ///
    /// # Panics
    /// If there are no logits.
    pub fn token(&self, logits: &[f32], candidates: &mut Candidates) -> u32 {
        self.token_past(logits, candidates, |_| 0)
    }

    /// As [`Draw::token`], but passes over the first few of the tokens that the filters left, and draws from
    /// the others. `passed` is shown the probabilities, the largest first, and says how many that is; it must
    /// leave one, and must not look further than it has to. At temperature 0 it is not asked.
    ///
    /// # Panics
    /// If there are no logits.
    pub fn token_past(
        &self,
        logits: &[f32],
        candidates: &mut Candidates,
        passed: impl Fn(&mut dyn Iterator<Item = f64>) -> usize,
    ) -> u32 {
        if self.temperature <= 0.0 {
            return best(logits);
        }
        let all = &mut candidates.0;
        all.clear();
        all.extend(logits.iter().copied().zip(0..));
        if self.top_k > 0 && (self.top_k as usize) < all.len() {
            all.select_nth_unstable_by(self.top_k as usize - 1, better);
            all.truncate(self.top_k as usize);
        }
        let sorted = all.len().min(SORTED_FIRST);
        if sorted < all.len() {
            all.select_nth_unstable_by(sorted, better);
        }
        all[..sorted].sort_unstable_by(better);
        let total = all.iter().map(|(logit, _)| self.weight(*logit, all[0].0)).sum();
        self.pick(&all[..sorted], total, sorted == all.len(), &passed).unwrap_or_else(|| {
            all.sort_unstable_by(better);
            self.pick(all, total, true, &passed).unwrap_or(all[0].1)
        })
    }

    /// Probability up to a common factor, relative to the best logit.
    fn weight(&self, logit: f32, best: f32) -> f64 {
        f64::from((logit - best) / self.temperature).exp()
    }

    /// Walks the best tokens in order; none if the answer lies beyond them. `total` is the weight of all
    /// that top-k left, of which `sorted` may be the beginning only (`complete` says it is all).
    fn pick(
        &self,
        sorted: &[(f32, u32)],
        total: f64,
        complete: bool,
        passed: &impl Fn(&mut dyn Iterator<Item = f64>) -> usize,
    ) -> Option<u32> {
        let best = sorted[0].0;
        let enough = f64::from(self.top_p) * total;
        let least = f64::from(self.min_p);
        let filtered = self.top_p < 1.0 || self.min_p > 0.0;
        let mut kept = 0;
        let mut sum = 0.0;
        let mut ended = complete;
        for (logit, _) in sorted {
            let weight = self.weight(*logit, best);
            if weight < least || (self.top_p < 1.0 && kept > 0 && sum >= enough) {
                ended = true;
                break;
            }
            sum += weight;
            kept += 1;
        }
        if filtered && !ended {
            return None;
        }
        let sum = if filtered { sum } else { total };
        let kept = &sorted[..kept];
        let mut seen = 0;
        let first =
            passed(&mut kept.iter().map(|(logit, _)| self.weight(*logit, best) / sum).inspect(|_| seen += 1));
        if !ended && seen == kept.len() {
            return None;
        }
        let (past, kept) = kept.split_at(first);
        let past: f64 = past.iter().map(|(logit, _)| self.weight(*logit, best)).sum();
        let target = f64::from(self.random) * (sum - past);
        let mut walked = 0.0;
        for (logit, id) in kept {
            walked += self.weight(*logit, best);
            if target < walked {
                return Some(*id);
            }
        }
        // Only rounding can leave the target at the very end of the last token.
        ended.then(|| kept[kept.len() - 1].1)
    }
}

/// Larger logits first, then lower ids. NaN sorts last.
fn better(a: &(f32, u32), b: &(f32, u32)) -> Ordering {
    let key = |logit: f32| if logit.is_nan() { f32::NEG_INFINITY } else { logit };
    key(b.0).total_cmp(&key(a.0)).then(a.1.cmp(&b.1))
}

/// The index of the largest logit, ties to the lower.
fn best(logits: &[f32]) -> u32 {
    let largest = largest(logits);
    let mut start = 0;
    // Whole runs are looked through without a branch for each logit.
    for run in logits.chunks(RUN) {
        if run.iter().fold(false, |found, logit| found | (*logit == largest)) {
            break;
        }
        start += run.len();
    }
    let index = logits[start.min(logits.len())..].iter().position(|logit| *logit == largest);
    index.map_or(0, |index| start + index) as u32
}

/// Logits that are looked at together.
const RUN: usize = 64;

/// The largest logit that is a number; minus infinity if there is none.
fn largest(logits: &[f32]) -> f32 {
    // Sixteen at a time, so that comparisons do not wait for each other.
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (groups, rest) = logits.as_chunks::<16>();
    for group in groups {
        for (lane, logit) in lanes.iter_mut().zip(group) {
            *lane = if *logit > *lane { *logit } else { *lane };
        }
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Whether logits make a distribution: none is NaN, and the largest is finite.
pub fn is_distribution(logits: &[f32]) -> bool {
    let numbers =
        logits.chunks(RUN).all(|run| !run.iter().fold(false, |found, logit| found | logit.is_nan()));
    numbers && largest(logits).is_finite()
}

/// The natural logarithm of the probability of `token` under `softmax(logits)`.
pub fn log_probability(logits: &[f32], token: u32) -> f32 {
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - best).exp()).sum();
    (f64::from(logits[token as usize] - best) - sum.ln()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(draw: Draw, logits: &[f32]) -> u32 {
        draw.token(logits, &mut Candidates::default())
    }

    /// Logits whose probabilities at temperature 1 are 0.5, 0.25, 0.125, 0.125 for ids 2, 0, 1, 3.
    fn quarters() -> [f32; 4] {
        [0.25f32.ln(), 0.125f32.ln(), 0.5f32.ln(), 0.125f32.ln()]
    }

    fn at(random: f32) -> Draw {
        Draw { temperature: 1.0, random, ..Draw::GREEDY }
    }

    #[test]
    fn greedy_takes_the_best_and_ties_go_to_the_lower_id() {
        assert_eq!(draw(Draw::GREEDY, &[1.0, 3.0, 3.0, 2.0]), 1);
        assert_eq!(draw(Draw::GREEDY, &[f32::NAN, -1.0, 0.0]), 2);
    }

    #[test]
    fn the_random_number_walks_from_the_most_probable_token_on() {
        for (random, token) in
            [(0.0, 2), (0.49, 2), (0.51, 0), (0.74, 0), (0.76, 1), (0.874, 1), (0.876, 3), (0.999, 3)]
        {
            assert_eq!(draw(at(random), &quarters()), token, "{random}");
        }
    }

    #[test]
    fn temperature_divides_logits() {
        // At temperature 0.5 the weights are squared: 16 4 1 1 of 22.
        let cold = |random| draw(Draw { temperature: 0.5, ..at(random) }, &quarters());
        assert_eq!([cold(0.72), cold(0.73), cold(0.90), cold(0.92)], [2, 0, 0, 1]);
    }

    #[test]
    fn top_k_top_p_and_min_p_drop_the_tail_and_the_rest_is_scaled_up() {
        assert_eq!(draw(Draw { top_k: 2, ..at(0.99) }, &quarters()), 0);
        assert_eq!(draw(Draw { top_k: 2, ..at(0.66) }, &quarters()), 2);
        assert_eq!(draw(Draw { top_p: 0.7, ..at(0.99) }, &quarters()), 0);
        assert_eq!(draw(Draw { top_p: 0.8, ..at(0.99) }, &quarters()), 1);
        assert_eq!(draw(Draw { top_p: 0.0, ..at(0.99) }, &quarters()), 2);
        assert_eq!(draw(Draw { min_p: 0.3, ..at(0.99) }, &quarters()), 0);
        // top-p counts its share of what top-k left: 0.5 of 0.75 is two thirds.
        assert_eq!(draw(Draw { top_k: 2, top_p: 0.6, ..at(0.99) }, &quarters()), 2);
    }

    #[test]
    fn tokens_passed_over_are_taken_off_the_top_of_what_the_filters_left() {
        let past = |count, draw: Draw| draw.token_past(&quarters(), &mut Candidates::default(), |_| count);
        // Without the best token 0.25, 0.125 and 0.125 of 0.5 are left.
        for (random, token) in [(0.0, 0), (0.49, 0), (0.51, 1), (0.74, 1), (0.76, 3)] {
            assert_eq!(past(1, at(random)), token, "{random}");
        }
        assert_eq!(past(1, Draw { top_k: 2, ..at(0.99) }), 0);
        let shown = std::cell::RefCell::new(Vec::new());
        let draw = Draw { top_p: 0.7, ..at(0.0) };
        draw.token_past(&quarters(), &mut Candidates::default(), |probabilities| {
            shown.borrow_mut().extend(probabilities);
            0
        });
        // 0.5 and 0.25 of 0.75.
        let errors = shown
            .borrow()
            .iter()
            .zip([2.0 / 3.0, 1.0 / 3.0])
            .map(|(got, want)| (got - want).abs())
            .fold(0.0, f64::max);
        assert!(shown.borrow().len() == 2 && errors < 1e-7, "{shown:?}");
    }

    #[test]
    fn tokens_past_the_sorted_part_can_be_passed_over() {
        // Even probabilities: 1000 of 0.001 each, of which all but the last are above 0.0005.
        let draw = at(0.5);
        let token = draw.token_past(&[0.25; 1000], &mut Candidates::default(), |probabilities| {
            probabilities.take_while(|probability| *probability > 0.0005).count() - 1
        });
        assert_eq!(token, 999);
    }

    #[test]
    fn a_flat_row_longer_than_the_sorted_part_is_drawn_from_evenly() {
        let logits = [0.25; 1000];
        for token in [0, 63, 64, 500, 999] {
            assert_eq!(draw(at((token as f32 + 0.5) / 1000.0), &logits), token);
        }
        assert_eq!(draw(Draw { top_p: 0.5, ..at(0.999) }, &logits), 499);
        assert_eq!(draw(Draw { min_p: 0.5, ..at(0.9995) }, &logits), 999);
    }

    #[test]
    fn a_log_probability_is_that_of_the_softmax() {
        for (token, probability) in [0.25f32, 0.125, 0.5, 0.125].iter().enumerate() {
            assert!((log_probability(&quarters(), token as u32) - probability.ln()).abs() < 1e-6);
        }
    }
}
