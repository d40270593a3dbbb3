//! What is told of repeated measurements.

/// The arithmetic mean; 0 of nothing.
pub(super) fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// The standard deviation of a sample, with one degree of freedom less than there are numbers; 0 of one.
pub(super) fn deviation(samples: &[f64]) -> f64 {
    if samples.len() < 2 {
        return 0.0;
    }
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (squares / (samples.len() - 1) as f64).sqrt()
}

/// The number in the middle, or the mean of the two in the middle; 0 of nothing.
pub(super) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        len if len.is_multiple_of(2) => mean(&sorted[middle - 1..=middle]),
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_deviation_and_median_are_those_of_the_textbook() {
        let samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&samples), 5.0);
        assert!((deviation(&samples) - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(median(&samples), 4.5);
        assert_eq!(median(&[3.0, 9.0, 1.0]), 3.0);
        assert_eq!([mean(&[]), deviation(&[7.0]), median(&[])], [0.0; 3]);
    }
}
