//! How a mixture of experts chooses: the kinds of router that models have.

use crate::random::SplitMix64;

/// How router logits become chosen experts and their gates.
///
/// 1. `score = score_fn(logits)`, in f32 over all experts.
/// 2. The `top_k` experts with the largest `score + bias` are chosen, best first, ties to the lower index.
/// 3. `gate = score` (without the bias), perhaps divided by the sum over the chosen, then times `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// How many experts there are.
    pub experts: u32,
    /// How many a token uses.
    pub top_k: u32,
    /// What a logit is turned into.
    pub score: Score,
    /// Whether gates are made to sum to one.
    pub gates: Gates,
    /// What every gate is multiplied by at the end.
    pub scale: f32,
}

/// What a router's logits are turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// `exp(l) / sum(exp(l))` over all experts.
    Softmax,
    /// `1 / (1 + exp(-l))`.
    Sigmoid,
    /// Not the logits but [`hashed_experts`] chooses, and every score is 1. For synthetic models, whose
    /// random routers would send all tokens to a few experts.
    Hash {
        /// Makes the layers of a model differ.
        layer: u32,
    },
}

/// What a gate is made of the chosen experts' scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gates {
    /// The scores as they are.
    Raw,
    /// Each divided by (their sum + `epsilon`).
    Normalised {
        /// Keeps the division finite; 1e-20 in DeepSeek's and GLM's routers, 0 in Qwen's.
        epsilon: f32,
    },
}

/// Fills `chosen` with different experts of `0..experts` that depend on token, position and layer alone.
///
/// The generator is [`SplitMix64`] seeded with the three numbers; an expert drawn before is drawn again.
///
/// # Panics
/// If `chosen` is longer than `experts`.
pub fn hashed_experts(token: u32, position: u32, layer: u32, experts: u32, chosen: &mut [u32]) {
    assert!(chosen.len() <= experts as usize, "{} of {experts} experts", chosen.len());
    let seed = (u64::from(token) << 40) ^ (u64::from(position) << 12) ^ u64::from(layer);
    let mut random = SplitMix64::new(seed);
    for slot in 0..chosen.len() {
        chosen[slot] = loop {
            let expert = random.below(experts);
            if !chosen[..slot].contains(&expert) {
                break expert;
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::hashed_experts;

    #[test]
    fn hashed_experts_are_distinct_spread_evenly_and_depend_on_each_number() {
        let mut uses = [0u32; 64];
        let mut chosen = [0; 4];
        for position in 0..4096 {
            hashed_experts(7, position, 3, 64, &mut chosen);
            for (slot, expert) in chosen.iter().enumerate() {
                assert!(!chosen[..slot].contains(expert));
                uses[*expert as usize] += 1;
            }
        }
        // 256 uses each are expected, with a standard deviation of 16.
        assert!(uses.iter().all(|&n| (160..=352).contains(&n)), "{uses:?}");
        let choose = |token, position, layer| {
            let mut chosen = [0; 8];
            hashed_experts(token, position, layer, 128, &mut chosen);
            chosen
        };
        assert_ne!(choose(1, 2, 3), choose(2, 2, 3));
        assert_ne!(choose(1, 2, 3), choose(1, 3, 3));
        assert_ne!(choose(1, 2, 3), choose(1, 2, 4));
    }

    #[test]
    fn all_experts_can_be_chosen_at_once() {
        let mut chosen = [0; 8];
        hashed_experts(0, 0, 0, 8, &mut chosen);
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
