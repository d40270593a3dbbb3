//! Penalties on tokens that were there before.

use std::collections::HashMap;

/// How much less probable a token becomes that was there before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// What the logit of a token of prompt or answer is divided by if it is positive, and multiplied by if it is
    /// negative; 1 changes nothing. (Keskar et al., CTRL, 2019, with the treatment of negative logits that
    /// transformers, vLLM and llama.cpp share)
    pub repetition: f32,
    /// What is taken from the logit of every token that the answer has; 0 changes nothing.
    pub presence: f32,
    /// What is taken from the logit of a token each time that the answer has it; 0 changes nothing.
    pub frequency: f32,
}

impl Penalties {
    /// Changes nothing.
    pub const NONE: Penalties = Penalties { repetition: 1.0, presence: 0.0, frequency: 0.0 };

    /// Changes the logits of all tokens seen.
    pub(super) fn apply(&self, seen: &Seen, logits: &mut [f32]) {
        for (&token, counts) in &seen.0 {
            let Some(logit) = logits.get_mut(token as usize) else { continue };
            if counts.answer > 0 || counts.prompt {
                *logit = if *logit > 0.0 { *logit / self.repetition } else { *logit * self.repetition };
            }
            if counts.answer > 0 {
                *logit -= self.presence + self.frequency * counts.answer as f32;
            }
        }
    }
}

/// How often each token was there.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(HashMap<u32, Counts>);

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Whether the prompt has it.
    prompt: bool,
    /// How often the answer has it.
    answer: u32,
}

impl Seen {
    pub(super) fn prompt(&mut self, token: u32) {
        self.0.entry(token).or_default().prompt = true;
    }

    pub(super) fn answer(&mut self, token: u32) {
        self.0.entry(token).or_default().answer += 1;
    }

    /// Takes back a token of the answer.
    pub(super) fn take_back(&mut self, token: u32) {
        if let Some(counts) = self.0.get_mut(&token) {
            counts.answer -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prompt 0 1, answer 1 2 2, and a 3 that was taken back.
    fn seen() -> Seen {
        let mut seen = Seen::default();
        [0, 1].into_iter().for_each(|token| seen.prompt(token));
        [1, 2, 3, 2].into_iter().for_each(|token| seen.answer(token));
        seen.take_back(3);
        seen
    }

    fn penalised(penalties: Penalties) -> [f32; 5] {
        let mut logits = [2.0, -2.0, 1.0, 3.0, 4.0];
        penalties.apply(&seen(), &mut logits);
        logits
    }

    #[test]
    fn a_repetition_penalty_divides_positive_and_multiplies_negative_logits_of_prompt_and_answer() {
        assert_eq!(penalised(Penalties { repetition: 2.0, ..Penalties::NONE }), [1.0, -4.0, 0.5, 3.0, 4.0]);
    }

    #[test]
    fn a_presence_penalty_is_taken_once_from_tokens_of_the_answer() {
        assert_eq!(penalised(Penalties { presence: 0.5, ..Penalties::NONE }), [2.0, -2.5, 0.5, 3.0, 4.0]);
    }

    #[test]
    fn a_frequency_penalty_is_taken_each_time_the_answer_has_the_token() {
        assert_eq!(penalised(Penalties { frequency: 0.5, ..Penalties::NONE }), [2.0, -2.5, 0.0, 3.0, 4.0]);
    }

    #[test]
    fn repetition_goes_before_presence_and_frequency() {
        let all = Penalties { repetition: 2.0, presence: 1.0, frequency: 0.25 };
        assert_eq!(penalised(all), [1.0, -4.0 - 1.25, 0.5 - 1.5, 3.0, 4.0]);
    }
}
