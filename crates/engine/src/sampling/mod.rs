//! How a request wants its tokens drawn.

mod random;

use program::Draw;

pub use random::random;

/// The sampling settings of one request. What each filter does, and in which order, is told in
/// [`program::draw`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// What logits are divided by; 0 takes the best token every time.
    pub temperature: f32,
    /// How many of the best tokens stay; 0 keeps all.
    pub top_k: u32,
    /// The probability that must stay; 1 keeps all.
    pub top_p: f32,
    /// The least probability relative to the best token's; 0 keeps all.
    pub min_p: f32,
    /// What the random numbers are made of.
    pub seed: u64,
}

impl Sampling {
    /// Takes the best token every time.
    pub const GREEDY: Sampling = Sampling { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 };

    /// How to draw the token at `place` of the sequence. It depends on the seed and the place alone, so
    /// that a request gives the same text whoever shares its steps and however often it is begun anew.
    pub fn draw(&self, place: u32) -> Draw {
        Draw {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            random: random(self.seed, place),
        }
    }
}
