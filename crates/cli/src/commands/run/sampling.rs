//! The flags that say how tokens are drawn and what ends an answer.

use std::process;

use anyhow::Result;
use clap::Args;
use engine::sampling::{Dry, Penalties, Xtc};
use engine::{Ending, Sampling};
use model::{Facts, Recommended};

use crate::report::Usage;

/// How tokens are drawn.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "How tokens are drawn")]
pub(super) struct SamplingArgs {
    /// 0 takes the best token every time; 1 draws as the model predicts
    #[arg(long, value_name = "T", value_parser = at_least_zero)]
    temperature: Option<f32>,

    /// Draw from the K best tokens only; 0 keeps all
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,

    /// Draw from the best tokens that together have this probability
    #[arg(long, value_name = "P", value_parser = probability)]
    top_p: Option<f32>,

    /// Leave out tokens less probable than P times the best one
    #[arg(long, value_name = "P", value_parser = probability)]
    min_p: Option<f32>,

    /// Makes a drawn answer repeatable [default: another one each time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Divide positive and multiply negative logits of tokens that prompt or answer have; 1 changes nothing
    #[arg(long, value_name = "R", alias = "repeat-penalty", value_parser = above_zero)]
    repetition_penalty: Option<f32>,

    /// Take this from the logits of tokens that the answer has
    #[arg(long, value_name = "X", value_parser = finite, allow_negative_numbers = true)]
    presence_penalty: Option<f32>,

    /// Take this from the logits of tokens each time that the answer has them
    #[arg(long, value_name = "X", value_parser = finite, allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,

    /// Make it cost this much to say on what was said before (DRY); 0.8 is usual
    #[arg(long, value_name = "X", value_parser = at_least_zero)]
    dry_multiplier: Option<f32>,

    /// How many times as much each further token costs
    #[arg(long, value_name = "X", default_value_t = 1.75, value_parser = above_zero, requires = "dry_multiplier")]
    dry_base: f32,

    /// How many tokens may be repeated for nothing
    #[arg(long, value_name = "N", default_value_t = 2, requires = "dry_multiplier")]
    dry_allowed_length: u32,

    /// How many of the last tokens are looked at; 0 looks at all
    #[arg(long, value_name = "N", default_value_t = 0, alias = "dry-range", requires = "dry_multiplier")]
    dry_penalty_last_n: u32,

    /// A text that repetitions do not reach over; repeatable [default: newline : " *]
    #[arg(long, value_name = "TEXT", value_parser = unescaped, requires = "dry_multiplier")]
    dry_sequence_breaker: Vec<String>,

    /// Leave out logits more than N standard deviations below the best; 0 keeps all
    #[arg(long, value_name = "N", alias = "top-nsigma", value_parser = at_least_zero)]
    top_n_sigma: Option<f32>,

    /// Draw from typical tokens that together have this probability; 1 keeps all
    #[arg(long, value_name = "P", alias = "typical-p", value_parser = probability)]
    typical: Option<f32>,

    /// How often the best tokens are left out (XTC)
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    xtc_probability: f32,

    /// From which probability on a token is among the best, of which the last one stays
    #[arg(long, value_name = "P", default_value_t = Xtc::NEVER.threshold, value_parser = probability)]
    xtc_threshold: f32,

    /// Add this to the logit of a token, by its id; -inf rules it out; repeatable
    #[arg(long, value_name = "ID=BIAS", value_parser = bias)]
    logit_bias: Vec<(u32, f32)>,
}

/// What ends an answer.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What ends the answer")]
pub(super) struct EndingArgs {
    /// The longest answer [default: 256 when a text is continued, else what fits]
    #[arg(long, short = 'n', value_name = "N")]
    max_tokens: Option<usize>,

    /// The shortest answer
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_tokens: usize,

    /// End the answer before this text; repeatable; \n is a newline
    #[arg(long, value_name = "TEXT", value_parser = unescaped)]
    stop: Vec<String>,

    /// End the answer at this token, by its id; repeatable
    #[arg(long, value_name = "ID")]
    stop_token: Vec<u32>,

    /// Go on past the tokens that end a turn
    #[arg(long)]
    ignore_eos: bool,

    /// Never say this: go back and say something else; repeatable
    #[arg(long, value_name = "TEXT", alias = "banned-string", value_parser = unescaped)]
    ban: Vec<String>,
}

/// The longest continuation unless the user says otherwise.
const CONTINUATION: usize = 256;

/// What is done with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It is continued.
    Continued,
    /// It is answered.
    Answered,
}

impl SamplingArgs {
    /// The flags, and where there is none what suits the use.
    ///
    /// # Errors
    /// If a token is named that the model does not have.
    pub(super) fn resolve(&self, facts: &Facts, usage: Use) -> Result<Sampling> {
        let usual = match usage {
            Use::Continued => Sampling::GREEDY,
            Use::Answered => recommended(&facts.recommended),
        };
        known("--logit-bias", self.logit_bias.iter().map(|(token, _)| *token), facts)?;
        // Where no seed was given any number will do, as long as it is another one each time.
        let seed = self.seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            u64::from(now.map_or(0, |now| now.subsec_nanos())) ^ u64::from(process::id()) << 32
        });
        Ok(Sampling {
            temperature: self.temperature.unwrap_or(usual.temperature),
            top_k: self.top_k.unwrap_or(usual.top_k),
            top_p: self.top_p.unwrap_or(usual.top_p),
            min_p: self.min_p.unwrap_or(usual.min_p),
            seed,
            logit_bias: self.logit_bias.clone(),
            penalties: Penalties {
                repetition: self.repetition_penalty.unwrap_or(usual.penalties.repetition),
                presence: self.presence_penalty.unwrap_or(0.0),
                frequency: self.frequency_penalty.unwrap_or(0.0),
            },
            dry: self
                .dry_multiplier
                .filter(|multiplier| *multiplier > 0.0)
                .map(|multiplier| self.dry(multiplier)),
            top_n_sigma: self.top_n_sigma.unwrap_or(0.0),
            typical: self.typical.unwrap_or(usual.typical),
            xtc: Xtc { probability: self.xtc_probability, threshold: self.xtc_threshold },
        })
    }

    fn dry(&self, multiplier: f32) -> Dry {
        let mut dry = Dry {
            base: self.dry_base,
            allowed_length: self.dry_allowed_length,
            window: self.dry_penalty_last_n,
            ..Dry::recommended(multiplier)
        };
        if !self.dry_sequence_breaker.is_empty() {
            dry.breakers.clone_from(&self.dry_sequence_breaker);
        }
        dry
    }
}

/// As a model's makers recommend; where they say nothing, as it predicts.
fn recommended(recommended: &Recommended) -> Sampling {
    if recommended.drawn == Some(false) {
        return Sampling::GREEDY;
    }
    Sampling {
        temperature: recommended.temperature.unwrap_or(1.0),
        top_k: recommended.top_k.unwrap_or(0),
        top_p: recommended.top_p.unwrap_or(1.0),
        min_p: recommended.min_p.unwrap_or(0.0),
        typical: recommended.typical.unwrap_or(1.0),
        penalties: Penalties { repetition: recommended.repetition_penalty.unwrap_or(1.0), ..Penalties::NONE },
        ..Sampling::GREEDY
    }
}

impl EndingArgs {
    /// The flags, and where there is none what suits the use.
    ///
    /// # Errors
    /// If a token is named that the model does not have.
    pub(super) fn resolve(&self, facts: &Facts, usage: Use) -> Result<Ending> {
        known("--stop-token", self.stop_token.iter().copied(), facts)?;
        let mut tokens = if self.ignore_eos { Vec::new() } else { facts.eos.clone() };
        tokens.extend(&self.stop_token);
        let longest = match usage {
            Use::Continued => CONTINUATION,
            Use::Answered => usize::MAX,
        };
        Ok(Ending {
            tokens,
            strings: self.stop.clone(),
            banned: self.ban.clone(),
            min_tokens: self.min_tokens,
            max_tokens: self.max_tokens.unwrap_or(longest),
        })
    }
}

/// Checks that the model has these tokens.
fn known(flag: &str, mut tokens: impl Iterator<Item = u32>, facts: &Facts) -> Result<()> {
    match tokens.find(|token| *token >= facts.vocab) {
        Some(token) => {
            let what =
                format!("{flag}: there is no token {token}, the model's ids are below {}", facts.vocab);
            Err(Usage(what).into())
        }
        None => Ok(()),
    }
}

fn number(text: &str, needed: &str, fits: impl Fn(f32) -> bool) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(number) if number.is_finite() && fits(number) => Ok(number),
        _ => Err(format!("{needed} is needed")),
    }
}

fn at_least_zero(text: &str) -> Result<f32, String> {
    number(text, "a number of at least 0", |number| number >= 0.0)
}

fn above_zero(text: &str) -> Result<f32, String> {
    number(text, "a number above 0", |number| number > 0.0)
}

fn probability(text: &str) -> Result<f32, String> {
    number(text, "a number from 0 to 1", |number| (0.0..=1.0).contains(&number))
}

fn finite(text: &str) -> Result<f32, String> {
    number(text, "a number", |_| true)
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let parsed = text.split_once('=').and_then(|(token, bias)| {
        let (token, bias) = (token.trim().parse().ok()?, bias.trim().parse::<f32>().ok()?);
        (bias < f32::INFINITY).then_some((token, bias))
    });
    parsed.ok_or_else(|| "a token's id, =, and a number or -inf are needed, as in 42=-1.5".into())
}

/// A text in which `\n`, `\t` and `\\` stand for a newline, a tab and a backslash; not empty.
fn unescaped(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('\\') => '\\',
                _ => return Err("after a backslash n, t or another backslash is needed".into()),
            },
            plain => plain,
        });
    }
    if plain.is_empty() { Err("some text is needed".into()) } else { Ok(plain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_is_an_id_and_a_number() {
        assert_eq!(bias("42=-1.5"), Ok((42, -1.5)));
        assert_eq!(bias("0=-inf"), Ok((0, f32::NEG_INFINITY)));
        for wrong in ["42", "=1", "42=", "42=inf", "42=nan", "-1=2", "a=1"] {
            assert!(bias(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn escapes_stand_for_what_a_shell_makes_hard_to_type() {
        assert_eq!(unescaped(r"a\n\tb\\n"), Ok("a\n\tb\\n".into()));
        assert!(unescaped("").is_err() && unescaped(r"a\").is_err() && unescaped(r"\x").is_err());
    }

    #[test]
    fn what_the_makers_recommend_counts_and_nothing_recommended_draws_as_predicted() {
        let nothing = recommended(&Recommended::default());
        assert_eq!(nothing, Sampling { temperature: 1.0, ..Sampling::GREEDY });
        let some = Recommended {
            temperature: Some(0.6),
            top_k: Some(20),
            repetition_penalty: Some(1.05),
            ..Recommended::default()
        };
        let penalties = Penalties { repetition: 1.05, ..Penalties::NONE };
        assert_eq!(
            recommended(&some),
            Sampling { temperature: 0.6, top_k: 20, penalties, ..Sampling::GREEDY }
        );
        assert_eq!(recommended(&Recommended { drawn: Some(false), ..some }), Sampling::GREEDY);
    }
}
