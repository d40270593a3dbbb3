//! How a request wants its tokens drawn.

use program::Draw;
use program::random::SplitMix64;

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
        // Seeds and places are small numbers; the place is scattered first so that no two pairs meet.
        let scattered = SplitMix64::new(u64::from(place)).bits();
        let random = SplitMix64::new(self.seed ^ scattered).uniform();
        Draw {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            random,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u64, place: u32) -> f32 {
        Sampling { seed, ..Sampling::GREEDY }.draw(place).random
    }

    #[test]
    fn seed_and_place_alone_make_the_random_number() {
        assert_eq!(random(7, 3), random(7, 3));
        assert_ne!(random(7, 3), random(8, 3));
        assert_ne!(random(7, 3), random(7, 4));
        assert_ne!(random(7, 4), random(8, 3));
    }

    #[test]
    fn the_random_numbers_of_many_seeds_and_places_fill_the_unit_interval_evenly() {
        let mut tenths = [0; 10];
        for seed in 0..100 {
            for place in 0..100 {
                tenths[(random(seed, place) * 10.0) as usize] += 1;
            }
        }
        // 1,000 each are expected, with a standard deviation of 30.
        assert!(tenths.iter().all(|count| (850..1150).contains(count)), "{tenths:?}");
    }
}
