//! How far two rows of numbers are apart.

/// The norm of the difference over the norm of what is wanted; over 1e-20 where that is smaller, so that
/// rows of zeros can be compared. NaN if either row holds one.
pub(crate) fn relative(got: &[f32], want: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let difference: f64 =
        got.iter().zip(want).map(|(got, want)| square(f64::from(*got) - f64::from(*want))).sum();
    let norm: f64 = want.iter().map(|want| square(f64::from(*want))).sum();
    difference.sqrt() / norm.sqrt().max(1e-20)
}

/// The column where the two are furthest apart; the first that is NaN in one of them alone, if there is one.
pub(crate) fn worst_column(got: &[f32], want: &[f32]) -> usize {
    let distance = |column: usize| match (got[column] - want[column]).abs() {
        distance if distance.is_nan() => f32::INFINITY,
        distance => distance,
    };
    (0..want.len()).fold(0, |worst, column| if distance(column) > distance(worst) { column } else { worst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_relative_to_what_is_wanted_and_nan_shows() {
        assert_eq!(relative(&[3.0, 4.0], &[0.0, 5.0]), 10f64.sqrt() / 5.0);
        assert_eq!(relative(&[0.0], &[0.0]), 0.0);
        assert!(relative(&[1e-6], &[0.0]) > 1e6);
        assert!(relative(&[f32::NAN, 1.0], &[1.0, 1.0]).is_nan());
        assert_eq!(worst_column(&[1.0, 5.0, 2.0], &[1.0, 2.0, 0.0]), 1);
        assert_eq!(worst_column(&[1.0, 5.0, f32::NAN], &[1.0, 2.0, 0.0]), 2);
    }
}
