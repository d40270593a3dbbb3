//! Which tests are run, and what they are called.

use std::fmt;

/// One test: what is fed to how many sequences that remember so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) kind: Kind,
    /// Tokens of each sequence that are cached before.
    pub(super) depth: u32,
    /// Sequences.
    pub(super) batch: u32,
}

/// What is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A prompt of so many tokens.
    Prompt(u32),
    /// So many tokens of an answer, one a step.
    Answer(u32),
}

impl Trial {
    /// All tests: for each depth the prompts, of one sequence, then the answers over the batch sizes. A length of 0
    /// is no test.
    pub(super) fn all(prompts: &[u32], answers: &[u32], depths: &[u32], batches: &[u32]) -> Vec<Trial> {
        let mut trials = Vec::new();
        for depth in depths.iter().copied() {
            let prompts = prompts.iter().filter(|length| **length > 0);
            trials.extend(prompts.map(|length| Trial { kind: Kind::Prompt(*length), depth, batch: 1 }));
            for batch in batches.iter().copied() {
                let answers = answers.iter().filter(|length| **length > 0);
                trials.extend(answers.map(|length| Trial { kind: Kind::Answer(*length), depth, batch }));
            }
        }
        trials
    }

    /// Tokens of each sequence.
    pub(super) fn length(&self) -> u32 {
        match self.kind {
            Kind::Prompt(length) | Kind::Answer(length) => length,
        }
    }

    /// Tokens of all sequences.
    pub(super) fn tokens(&self) -> u32 {
        self.length() * self.batch
    }

    /// Tokens that each sequence remembers in the end.
    pub(super) fn context(&self) -> u32 {
        self.depth + self.length()
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Prompt(length) => write!(formatter, "pp{length}")?,
            Kind::Answer(length) => write!(formatter, "tg{length}")?,
        }
        if self.batch > 1 {
            write!(formatter, " b{}", self.batch)?;
        }
        if self.depth > 0 {
            write!(formatter, " @ d{}", self.depth)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_come_before_answers_at_each_depth_and_zero_is_no_test() {
        let names = |prompts: &[u32], answers: &[u32], depths: &[u32], batches: &[u32]| {
            let trials = Trial::all(prompts, answers, depths, batches);
            trials.iter().map(Trial::to_string).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(names(&[512], &[64], &[0], &[1]), "pp512, tg64");
        assert_eq!(names(&[0], &[64], &[0], &[1]), "tg64");
        assert_eq!(names(&[512], &[0], &[0], &[1]), "pp512");
        assert_eq!(names(&[0], &[0], &[0], &[1]), "");
        assert_eq!(
            names(&[16, 32], &[4], &[0, 512], &[1, 8]),
            "pp16, pp32, tg4, tg4 b8, pp16 @ d512, pp32 @ d512, tg4 @ d512, tg4 b8 @ d512"
        );
    }

    #[test]
    fn a_trial_knows_its_tokens() {
        let trial = Trial { kind: Kind::Answer(10), depth: 100, batch: 4 };
        assert_eq!((trial.tokens(), trial.context()), (40, 110));
    }
}
