//! Filters that look at the shape of the whole distribution. What they drop becomes negative infinity.

/// Keeps the logits that are at most `n` standard deviations below the largest. Mean and deviation are those of
/// all finite logits; no temperature changes what is kept. (Tang et al., Top-n-sigma, 2024)
pub(super) fn top_n_sigma(n: f32, logits: &mut [f32]) {
    let finite = || logits.iter().copied().filter(|logit| logit.is_finite()).map(f64::from);
    let count = finite().count() as f64;
    let mean = finite().sum::<f64>() / count;
    let variance = finite().map(|logit| (logit - mean).powi(2)).sum::<f64>() / count;
    let largest = finite().fold(f64::NEG_INFINITY, f64::max);
    let least = largest - f64::from(n) * variance.sqrt();
    for logit in logits {
        if f64::from(*logit) < least {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// Keeps the fewest tokens, in the order of `|-ln p - entropy|`, that together have at least the probability
/// `mass`. `order` is working memory.
pub(super) fn typical(mass: f32, temperature: f32, logits: &mut [f32], order: &mut Vec<(f64, u32)>) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scaled = |logit: f32| f64::from((logit - largest) / temperature);
    let log_sum = logits.iter().map(|&logit| scaled(logit).exp()).sum::<f64>().ln();
    let log_probability = |logit: f32| scaled(logit) - log_sum;
    let possible = || logits.iter().copied().zip(0..).filter(|(logit, _)| *logit > f32::NEG_INFINITY);
    let entropy: f64 = possible().map(|(logit, _)| log_probability(logit)).map(|log| -log.exp() * log).sum();
    order.clear();
    order.extend(possible().map(|(logit, id)| ((-log_probability(logit) - entropy).abs(), id)));
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut sum = 0.0;
    let kept = order.iter().take_while(|(_, id)| {
        let wanted = sum < f64::from(mass);
        sum += log_probability(logits[*id as usize]).exp();
        wanted
    });
    let kept = kept.count().max(1).min(order.len());
    for (_, id) in &order[kept..] {
        logits[*id as usize] = f32::NEG_INFINITY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: f32 = f32::NEG_INFINITY;

    #[test]
    fn top_n_sigma_keeps_what_is_within_n_deviations_of_the_largest() {
        // Mean 2, variance (4 + 1 + 0 + 1 + 4) / 5 = 2, deviation 1.414.
        let kept = |n| {
            let mut logits = [0.0, 1.0, 2.0, 3.0, 4.0, OUT];
            top_n_sigma(n, &mut logits);
            logits
        };
        assert_eq!(kept(0.5), [OUT, OUT, OUT, OUT, 4.0, OUT]);
        assert_eq!(kept(1.0), [OUT, OUT, OUT, 3.0, 4.0, OUT]);
        assert_eq!(kept(1.5), [OUT, OUT, 2.0, 3.0, 4.0, OUT]);
        assert_eq!(kept(3.0), [0.0, 1.0, 2.0, 3.0, 4.0, OUT]);
    }

    #[test]
    fn top_n_sigma_keeps_all_of_a_flat_row() {
        let mut logits = [1.5; 4];
        top_n_sigma(1.0, &mut logits);
        assert_eq!(logits, [1.5; 4]);
    }

    #[test]
    fn typical_prefers_tokens_whose_surprise_is_near_the_entropy() {
        // p = 0.5, 0.25, 0.125, 0.125: the entropy is 1.75 bits, the surprises 1, 2, 3, 3 bits, and so the
        // distances 0.75, 0.25, 1.25, 1.25.
        let kept = |mass| {
            let mut logits = [0.5f32, 0.25, 0.125, 0.125].map(f32::ln);
            typical(mass, 1.0, &mut logits, &mut Vec::new());
            logits.map(|logit| logit > OUT)
        };
        assert_eq!(kept(0.0), [false, true, false, false]);
        assert_eq!(kept(0.24), [false, true, false, false]);
        assert_eq!(kept(0.26), [true, true, false, false]);
        assert_eq!(kept(0.74), [true, true, false, false]);
        assert_eq!(kept(0.76), [true, true, true, false]);
        assert_eq!(kept(1.0), [true; 4]);
    }

    #[test]
    fn typical_looks_at_the_distribution_at_the_temperature() {
        // At temperature 0.5 weights are squared: 16, 4, 1, 1 of 22. The surprises are 0.46, 2.46, 4.46 bits, the
        // entropy 1.187 bits, the distances 0.73, 1.27, 3.27.
        let mut logits = [0.5f32, 0.25, 0.125, 0.125].map(f32::ln);
        typical(0.3, 0.5, &mut logits, &mut Vec::new());
        assert_eq!(logits.map(|logit| logit > OUT), [true, false, false, false]);
    }

    #[test]
    fn typical_never_brings_back_what_was_left_out() {
        let mut logits = [0.0, OUT, 0.0];
        typical(0.9, 1.0, &mut logits, &mut Vec::new());
        assert_eq!(logits, [0.0, OUT, 0.0]);
    }
}
