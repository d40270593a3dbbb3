//! How a request wants its tokens drawn, and the state of its draws.
//!
//! This is the order, whatever is asked for; what is not asked for does nothing.
//!
//! 1. Ids that the tokenizer does not know are left out.
//! 2. The **logit bias** is added ([`Sampling::logit_bias`]).
//! 3. The **repetition** penalty, then the **presence** and **frequency** penalties ([`Penalties`]).
//! 4. **DRY** makes it less probable that something said before is said on ([`Dry`]).
//! 5. Tokens are left out that would end the answer before its least length, and those that a banned string
//!    began with at this place ([`Reply`](crate::Reply)).
//! 6. Temperature 0 takes the largest logit, ties to the lower id. Otherwise `p = softmax(logits / temperature)`.
//! 7. **top-n-sigma** keeps logits within n standard deviations of the largest ([`Sampling::top_n_sigma`]).
//! 8. **typical** keeps tokens about as surprising as the distribution is on average ([`Sampling::typical`]).
//! 9. **top-k**, **top-p**, **min-p** ([`program::draw`]).
//! 10. **XTC** drops the most probable of what is left, now and then ([`Xtc`]).
//! 11. A random number, made of the seed and the place alone, picks from the rest.
//!
//! Steps 1, 6, 9 and 11 are a [`Draw`], which runs where the logits are; a request that asks for nothing else never
//! moves them. For the others the row of logits comes to the host, is changed, and the same [`Draw`] picks from it.
//!
//! | module | what it holds |
//! |---|---|
//! | `penalties`, `dry` | what was said before makes tokens less probable |
//! | `shape` | top-n-sigma and typical: what the distribution's shape leaves |
//! | `xtc` | the best ones left out |
//! | `sampler` | one sequence's draws |

mod dry;
#[cfg(test)]
mod golden;
mod penalties;
mod sampler;
mod shape;
mod xtc;

use program::Draw;
use program::random::SplitMix64;

pub use dry::Dry;
pub use penalties::Penalties;
pub use sampler::{Place, Sampler, Workspace};
pub use xtc::Xtc;

/// The bytes that a token stands for; they need not be whole characters.
pub type TokenBytes<'a> = dyn Fn(u32) -> &'a [u8] + 'a;

/// The sampling settings of one request.
#[derive(Clone, Debug, PartialEq)]
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
    /// What is added to the logits of single tokens. Negative infinity rules a token out.
    pub logit_bias: Vec<(u32, f32)>,
    /// What was said before becomes less probable.
    pub penalties: Penalties,
    /// Going on as before becomes less probable, the more so the longer the part repeated.
    pub dry: Option<Dry>,
    /// How many standard deviations of all logits a logit may be below the largest; 0 keeps all.
    pub top_n_sigma: f32,
    /// The probability that must stay of tokens in the order of how near their surprise is to the mean; 1 keeps
    /// all. (Meister et al., Locally Typical Sampling, 2022)
    pub typical: f32,
    /// The most probable tokens are dropped now and then.
    pub xtc: Xtc,
}

impl Sampling {
    /// Takes the best token every time.
    pub const GREEDY: Sampling = Sampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        seed: 0,
        logit_bias: Vec::new(),
        penalties: Penalties::NONE,
        dry: None,
        top_n_sigma: 0.0,
        typical: 1.0,
        xtc: Xtc::NEVER,
    };

    /// How to draw the token at `place` of the sequence. It depends on the seed and the place alone, so
    /// that a request gives the same text whoever shares its steps and however often it is begun anew.
    pub fn draw(&self, place: u32) -> Draw {
        Draw {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            random: self.random(place).uniform(),
        }
    }

    /// The random numbers of a place: the first is the draw's, the second decides whether XTC acts.
    fn random(&self, place: u32) -> SplitMix64 {
        // Seeds and places are small numbers; the place is scattered first so that no two pairs meet.
        let scattered = SplitMix64::new(u64::from(place)).bits();
        SplitMix64::new(self.seed ^ scattered)
    }

    /// Whether every draw is a [`Draw`] from the logits as they are.
    fn is_plain(&self) -> bool {
        let shaped = self.top_n_sigma > 0.0 || self.typical < 1.0 || self.xtc.probability > 0.0;
        self.logit_bias.is_empty()
            && self.penalties == Penalties::NONE
            && self.dry.is_none()
            && (self.temperature <= 0.0 || !shaped)
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
