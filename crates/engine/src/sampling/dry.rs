//! DRY ("don't repeat yourself"): what would go on repeating a passage becomes less probable.
//!
//! If the last `n` tokens are also found earlier, with token `t` after them, then `t` would make the repeated
//! passage longer. For the largest such `n` of each `t`, if it is at least [`Dry::allowed_length`],
//! `multiplier * base ^ (n - allowed_length)` is taken from the logit of `t`. A passage does not reach over a
//! sequence breaker, nor is a breaker itself penalised.
//!
//! This is the rule as its author published it (p-e-w, text-generation-webui, pull request 5677), with `n` counted
//! up to 50 as there. A breaker is a string here, and a token is one in whose bytes such a string ends.

use std::collections::HashMap;

use super::TokenBytes;

/// How much repeated passages cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    /// What the first token too many costs.
    pub multiplier: f32,
    /// How many times as much each further token costs.
    pub base: f32,
    /// How long a passage must be for its next token to cost anything.
    pub allowed_length: u32,
    /// How many of the last tokens are looked at; 0 looks at all.
    pub window: u32,
    /// Strings that passages do not reach over.
    pub breakers: Vec<String>,
}

/// A passage counts as no longer than this.
const LONGEST: usize = 50;

impl Dry {
    /// A multiplier with what its author recommends for the rest.
    pub fn recommended(multiplier: f32) -> Dry {
        let breakers = ["\n", ":", "\"", "*"].map(String::from).into();
        Dry { multiplier, base: 1.75, allowed_length: 2, window: 0, breakers }
    }

    /// Changes the logits of what may follow `tokens`.
    pub(super) fn apply(&self, tokens: &[u32], breaks: &Breaks, logits: &mut [f32]) {
        let skipped = match self.window as usize {
            0 => 0,
            window => tokens.len().saturating_sub(window),
        };
        let (tokens, breaks) = (&tokens[skipped..], &breaks.flags[skipped..]);
        let Some((&last, before)) = tokens.split_last() else { return };
        if breaks[before.len()] {
            return;
        }
        let mut lengths: HashMap<u32, usize> = HashMap::new();
        for end in (0..before.len()).filter(|&end| before[end] == last && !breaks[end + 1]) {
            let further = (1..LONGEST.min(end + 1)).take_while(|back| {
                let at = before.len() - back;
                tokens[end - back] == tokens[at] && !breaks[at] && !breaks[end - back]
            });
            let length = 1 + further.count();
            let longest = lengths.entry(tokens[end + 1]).or_default();
            *longest = length.max(*longest);
        }
        for (token, length) in lengths {
            let Some(excess) = length.checked_sub(self.allowed_length as usize) else { continue };
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit -= self.multiplier * self.base.powi(excess as i32);
            }
        }
    }
}

/// Which tokens of a sequence are sequence breakers.
#[derive(Clone, Debug, Default)]
pub(super) struct Breaks {
    flags: Vec<bool>,
    /// The bytes of all tokens, and where those of each end.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Breaks {
    pub(super) fn of(tokens: &[u32], token_bytes: &TokenBytes<'_>, dry: &Dry) -> Breaks {
        let mut breaks = Breaks::default();
        for &token in tokens {
            breaks.push(token_bytes(token), dry);
        }
        breaks
    }

    pub(super) fn push(&mut self, bytes: &[u8], dry: &Dry) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
        let ends_here = |breaker: &[u8]| {
            let from = start.saturating_sub(breaker.len().saturating_sub(1));
            !breaker.is_empty() && self.bytes[from..].windows(breaker.len()).any(|window| window == breaker)
        };
        self.flags.push(dry.breakers.iter().any(|breaker| ends_here(breaker.as_bytes())));
    }

    /// Takes back all tokens from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.flags.truncate(length);
        self.ends.truncate(length);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What DRY takes from each of eight tokens after a text of digits; 7 is a breaker.
    fn costs(text: &str, dry: &Dry) -> [f32; 8] {
        let tokens: Vec<u32> = text.bytes().map(|digit| u32::from(digit - b'0')).collect();
        let bytes: [[u8; 1]; 8] = std::array::from_fn(|token| [b'0' + token as u8]);
        let breaks = Breaks::of(&tokens, &|token| &bytes[token as usize], dry);
        let mut logits = [0.0; 8];
        dry.apply(&tokens, &breaks, &mut logits);
        logits.map(|logit| 0.0 - logit)
    }

    fn dry() -> Dry {
        Dry { multiplier: 0.5, base: 2.0, allowed_length: 2, window: 0, breakers: vec!["7".into()] }
    }

    fn only(token: usize, cost: f32) -> [f32; 8] {
        let mut costs = [0.0; 8];
        costs[token] = cost;
        costs
    }

    #[test]
    fn the_token_that_would_go_on_with_a_passage_costs_more_the_longer_the_passage_is() {
        // "12" was followed by 3: n = 2, 0.5 x 2^0.
        assert_eq!(costs("12312", &dry()), only(3, 0.5));
        // "123" by 4: 0.5 x 2^1.
        assert_eq!(costs("12340123", &dry()), only(4, 1.0));
        // "0123" by 4: 0.5 x 2^2.
        assert_eq!(costs("0123450123", &dry()), only(4, 2.0));
        // "2" alone is too short, and nothing repeats.
        assert_eq!(costs("12302", &dry()), [0.0; 8]);
        assert_eq!(costs("123", &dry()), [0.0; 8]);
        assert_eq!(costs("", &dry()), [0.0; 8]);
    }

    #[test]
    fn the_longest_passage_before_each_token_counts() {
        // "12" was followed by 3 twice, once as "012"; and by 4.
        let mut want = only(3, 1.0);
        want[4] = 0.5;
        assert_eq!(costs("0123512361240012", &dry()), want);
    }

    #[test]
    fn a_passage_does_not_reach_over_a_breaker() {
        // "1" and "2" after the breaker: n = 2 and not 4.
        assert_eq!(costs("50712350712", &dry()), only(3, 0.5));
        // A breaker itself may follow, and nothing is repeated right after one.
        assert_eq!(costs("12712", &dry()), [0.0; 8]);
        assert_eq!(costs("127512751270127", &dry()), [0.0; 8]);
    }

    #[test]
    fn a_breaker_may_lie_over_several_tokens() {
        let dry = Dry { breakers: vec!["51".into()], ..dry() };
        // 1 ends the breaker "51": "2" alone repeats.
        assert_eq!(costs("5123512", &dry), [0.0; 8]);
        assert_eq!(costs("6123612", &dry), only(3, 1.0));
    }

    #[test]
    fn only_the_window_is_looked_at() {
        assert_eq!(costs("12312", &Dry { window: 5, ..dry() }), only(3, 0.5));
        // Without the first 1, "2" alone repeats.
        assert_eq!(costs("12312", &Dry { window: 4, ..dry() }), [0.0; 8]);
    }

    #[test]
    fn a_run_of_one_token_costs_no_more_than_fifty_of_it_would() {
        let cheap = Dry { base: 1.01, ..dry() };
        let cost = |count| costs(&"1".repeat(count), &cheap)[1];
        // The last n - 1 tokens are found one place earlier.
        assert!((cost(4) - 0.5 * 1.01).abs() < 1e-6);
        assert_eq!(cost(51), cost(300));
        assert!((cost(300) - 0.5 * 1.01f32.powi(48)).abs() < 1e-5);
    }

    #[test]
    fn tokens_taken_back_are_forgotten() {
        let dry = dry();
        let mut breaks = Breaks::of(&[7, 1], &|token| if token == 7 { b"7" } else { b"1" }, &dry);
        breaks.truncate(1);
        breaks.push(b"2", &dry);
        assert_eq!(breaks.flags, [true, false]);
        assert_eq!(breaks.bytes, b"72");
    }
}
