//! XTC ("exclude top choices"): now and then the best tokens are left out, so that a less usual one is drawn.

/// How often top choices are left out, and which are top choices.
///
/// If two tokens or more have at least the probability [`Xtc::threshold`], all of them but the least probable are
/// dropped; a token that alone is probable stays, so that a text keeps its sense. (p-e-w, text-generation-webui,
/// pull request 6335)
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xtc {
    /// The probability that a draw is made so; 0 never does.
    pub probability: f32,
    /// The probability from which on a token is a top choice.
    pub threshold: f32,
}

impl Xtc {
    /// Leaves nothing out. The threshold is its author's.
    pub const NEVER: Xtc = Xtc { probability: 0.0, threshold: 0.1 };

    /// How many of the most probable tokens are left out; `probabilities` begin with the largest. `random` in
    /// `[0, 1)` decides whether any is.
    pub(super) fn left_out(self, random: f32, probabilities: &mut dyn Iterator<Item = f64>) -> usize {
        if random >= self.probability {
            return 0;
        }
        let choices = probabilities.take_while(|probability| *probability as f32 >= self.threshold);
        choices.count().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(threshold: f32, random: f32) -> usize {
        Xtc { probability: 0.5, threshold }.left_out(random, &mut [0.5, 0.25, 0.15, 0.1].into_iter())
    }

    #[test]
    fn all_top_choices_but_the_least_probable_are_left_out() {
        assert_eq!([0.1, 0.12, 0.2, 0.3, 0.6].map(|threshold| left_out(threshold, 0.2)), [3, 2, 1, 0, 0]);
    }

    #[test]
    fn it_acts_with_its_probability() {
        assert_eq!([0.0, 0.49, 0.5, 0.9].map(|random| left_out(0.2, random)), [1, 1, 0, 0]);
    }
}
