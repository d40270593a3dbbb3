//! How a mixture of experts chooses: the kinds of router that models have.

use std::fmt;

use crate::random::SplitMix64;

/// How router logits become chosen experts and their gates.
///
/// 1. `score = score_fn(logits)`, in f32 over all experts; `key = score + bias`.
/// 2. With `groups`, the experts of all groups but the best ones are out.
/// 3. The `top_k` experts with the largest keys are chosen, best first, ties to the lower index.
/// 4. `gate = score` (without the bias), perhaps divided by the sum over the chosen, then times `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// How many experts there are.
    pub experts: u32,
    /// How many a token uses.
    pub top_k: u32,
    /// Which groups of experts a token may choose from; none where it may choose from all experts.
    pub groups: Option<Groups>,
    /// What a logit is turned into.
    pub score: Score,
    /// Whether gates are made to sum to one.
    pub gates: Gates,
    /// What every gate is multiplied by at the end.
    pub scale: f32,
}

impl Routing {
    /// Whether its numbers fit together.
    pub(crate) fn fits(&self) -> bool {
        let Routing { experts, top_k, .. } = *self;
        let groups_fit = |Groups { count, chosen }: Groups| {
            (1..=count).contains(&chosen)
                && experts.is_multiple_of(count)
                && experts / count >= 2
                && top_k <= experts / count * chosen
        };
        (1..=experts).contains(&top_k) && self.groups.is_none_or(groups_fit)
    }
}

/// Experts in groups of neighbours, of which a token uses a few, so that its experts lie on few machines.
///
/// A group is worth the sum of its two largest keys. The `chosen` groups of the largest worth stay, ties to the
/// lower index. An expert of another group is out whatever its key: keys can be negative (a bias can
/// outweigh its score), so a key of 0 would not keep it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// How many groups there are: each has `experts / count` experts, two or more.
    pub count: u32,
    /// How many of them stay; together they have `top_k` experts or more.
    pub chosen: u32,
}

impl fmt::Display for Groups {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {} groups", self.chosen, self.count)
    }
}

/// What a router's logits are turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// `exp(l) / sum(exp(l))` over all experts.
    Softmax,
    /// `1 / (1 + exp(-l))`.
    Sigmoid,
    /// Not the logits but [`hashed_experts`] chooses, of all groups, and every score is 1. For synthetic
    /// models, whose random routers would send all tokens to a few experts.
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
    use super::*;

    #[test]
    fn groups_fit_if_they_divide_the_experts_and_leave_enough_of_them() {
        let fits = |[experts, top_k, count, chosen]: [u32; 4]| {
            let groups = Some(Groups { count, chosen });
            Routing { experts, top_k, groups, score: Score::Sigmoid, gates: Gates::Raw, scale: 1.0 }.fits()
        };
        assert!([[256, 8, 8, 4], [4, 2, 2, 1], [4, 4, 1, 1], [6, 6, 3, 3]].into_iter().all(fits));
        let unfit = [
            [256, 8, 7, 4],
            [4, 3, 2, 1],
            [4, 1, 4, 4],
            [4, 1, 2, 0],
            [4, 1, 2, 3],
            [4, 1, 0, 0],
            [4, 0, 2, 1],
        ];
        assert!(!unfit.into_iter().any(fits));
    }

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
