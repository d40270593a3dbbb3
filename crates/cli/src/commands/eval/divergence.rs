//! How far the predictions of a model are from those of a better one.

use serde::Serialize;

/// The natural logarithms of the probabilities that a row of logits stands for.
pub(super) fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let best = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - best).exp()).sum();
    let normaliser = best + sum.ln();
    logits.iter().map(|logit| f64::from(*logit) - normaliser).collect()
}

/// Collects one number a position.
#[derive(Debug, Default)]
pub(super) struct Divergence {
    kl: Vec<f64>,
    agreed: usize,
}

/// What came of all positions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// KL(better, model) in nats, the mean over all positions.
    pub(super) kl_mean: f64,
    /// The least value that 95 % of the positions do not exceed.
    pub(super) kl_p95: f64,
    /// The largest.
    pub(super) kl_max: f64,
    /// The share of positions where both have the same best token.
    pub(super) top1_agreement: f64,
}

impl Divergence {
    /// Takes the log-probabilities of one position.
    pub(super) fn add(&mut self, better: &[f64], model: &[f64]) {
        let term = |(p, q): (&f64, &f64)| if *p == f64::NEG_INFINITY { 0.0 } else { p.exp() * (p - q) };
        self.kl.push(better.iter().zip(model).map(term).sum());
        self.agreed += usize::from(best(better) == best(model));
    }

    /// Sums up.
    ///
    /// # Panics
    /// If nothing was added.
    pub(super) fn summary(mut self) -> Summary {
        self.kl.sort_by(f64::total_cmp);
        let count = self.kl.len();
        Summary {
            kl_mean: self.kl.iter().sum::<f64>() / count as f64,
            kl_p95: self.kl[(count * 95).div_ceil(100) - 1],
            kl_max: self.kl[count - 1],
            top1_agreement: self.agreed as f64 / count as f64,
        }
    }
}

/// The first of the largest.
fn best(values: &[f64]) -> usize {
    (1..values.len()).fold(0, |best, index| if values[index] > values[best] { index } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(probabilities: [f64; 3]) -> Vec<f64> {
        probabilities.iter().map(|p| p.ln()).collect()
    }

    #[test]
    fn log_softmax_gives_logarithms_of_probabilities() {
        let logs = log_softmax(&[1000.0, 1000.0 + 2f32.ln(), 1000.0]);
        // f32 logits near 1,000 are 6e-5 apart.
        assert!(
            logs.iter().zip(row([0.25, 0.5, 0.25])).all(|(log, want)| (log - want).abs() < 1e-4),
            "{logs:?}"
        );
    }

    #[test]
    fn divergence_is_weighted_by_the_better_model_and_not_symmetric() {
        let (better, model) = (row([0.5, 0.25, 0.25]), row([0.25, 0.5, 0.25]));
        let mut divergence = Divergence::default();
        divergence.add(&better, &model);
        let summary = divergence.summary();
        // 0.5 ln 2 - 0.25 ln 2.
        assert!((summary.kl_mean - 0.25 * 2f64.ln()).abs() < 1e-12);
        assert_eq!(summary.top1_agreement, 0.0);
        let mut skewed = Divergence::default();
        skewed.add(&row([0.98, 0.01, 0.01]), &row([0.5, 0.25, 0.25]));
        let forth = skewed.summary().kl_mean;
        let mut skewed = Divergence::default();
        skewed.add(&row([0.5, 0.25, 0.25]), &row([0.98, 0.01, 0.01]));
        assert!((forth - skewed.summary().kl_mean).abs() > 0.1);
    }

    #[test]
    fn a_token_that_the_better_model_rules_out_adds_nothing() {
        let mut divergence = Divergence::default();
        divergence.add(&row([1.0, 0.0, 0.0]), &row([0.5, 0.5, 0.0]));
        assert!((divergence.summary().kl_mean - 2f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn the_95th_percentile_is_the_least_value_that_95_percent_do_not_exceed() {
        let kl: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let summary = Divergence { kl, agreed: 40 }.summary();
        assert_eq!((summary.kl_p95, summary.kl_max, summary.kl_mean), (95.0, 100.0, 50.5));
        assert_eq!(summary.top1_agreement, 0.4);
    }
}
