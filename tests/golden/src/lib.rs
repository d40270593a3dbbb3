//! Golden values of other programs, and how close ours have to be, for the tests of this workspace.
//!
//! Everything here panics with a readable message where a test should fail.

#![forbid(unsafe_code)]

mod tensors;

use std::path::{Path, PathBuf};

pub use tensors::Tensors;

/// The folder with the repository's own golden files.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder `../shared` beside the repository, if it holds the larger collection `golden`.
///
/// A test that needs it says that it was skipped where it is absent; where it exists, a missing file is a
/// failure.
pub fn shared() -> Option<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let shared = repository.parent()?.join("shared");
    shared.join("golden").is_dir().then_some(shared)
}

/// How far each row of `columns` values is off: the norm of the difference over the norm of the wanted row.
pub fn relative_errors(got: &[f32], want: &[f32], columns: usize) -> Vec<f64> {
    assert_eq!(got.len(), want.len(), "values to compare");
    assert!(want.len().is_multiple_of(columns), "{} values in rows of {columns}", want.len());
    got.chunks(columns).zip(want.chunks(columns)).map(|(got, want)| frobenius(got, want)).collect()
}

/// How far a matrix is off: the Frobenius norm of the difference over that of the wanted matrix.
///
/// NaN if either holds one, which no bound passes.
pub fn frobenius(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len(), "values to compare");
    let square = |value: f64| value * value;
    let difference: f64 =
        got.iter().zip(want).map(|(&got, &want)| square(f64::from(got) - f64::from(want))).sum();
    let norm: f64 = want.iter().map(|&want| square(f64::from(want))).sum();
    if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_what_is_wanted_and_by_row() {
        assert_eq!(frobenius(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(frobenius(&[0.0, 0.0], &[3.0, 4.0]), 1.0);
        assert_eq!(relative_errors(&[1.0, 0.0, 6.0, 8.0], &[1.0, 0.0, 3.0, 4.0], 2), [0.0, 1.0]);
        assert!(frobenius(&[f32::NAN], &[1.0]).is_nan());
    }
}
