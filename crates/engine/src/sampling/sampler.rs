//! The draws of one sequence.

use program::draw::{Candidates, is_distribution};
use program::{Outcome, Want};

use super::dry::Breaks;
use super::penalties::Seen;
use super::{Penalties, Sampling, TokenBytes};
use crate::{Error, Result};

/// The draws of one sequence: settings, and what they need to know of what was said. It shares nothing with other
/// sequences; a request that asks for no more than a [`program::Draw`] keeps no books and allocates nothing.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    seen: Seen,
    breaks: Breaks,
    /// Places, and tokens that must not be drawn there again.
    refused: Vec<(u32, u32)>,
}

/// Working memory of draws on the host; one serves all sequences of an engine.
#[derive(Debug, Default)]
pub struct Workspace {
    logits: Vec<f32>,
    order: Vec<(f64, u32)>,
    candidates: Candidates,
}

impl Sampler {
    /// The draws of a sequence that begins with a prompt.
    pub fn new(sampling: Sampling, prompt: &[u32], token_bytes: &TokenBytes<'_>) -> Sampler {
        let mut seen = Seen::default();
        if sampling.penalties != Penalties::NONE {
            prompt.iter().for_each(|token| seen.prompt(*token));
        }
        let dry = sampling.dry.as_ref();
        let breaks = dry.map_or_else(Breaks::default, |dry| Breaks::of(prompt, token_bytes, dry));
        Sampler { sampling, seen, breaks, refused: Vec::new() }
    }

    /// The settings.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// What to ask the device for at `place`, where the tokens `left_out` must not be drawn.
    pub fn want(&self, place: u32, left_out: &[u32]) -> Want {
        if self.sampling.is_plain() && left_out.is_empty() && self.refused_at(place).next().is_none() {
            Want::Choose(self.sampling.draw(place))
        } else {
            Want::Logits
        }
    }

    /// The token after `tokens`, from what the device answered to [`Sampler::want`] as output `output`. Ids from
    /// `known` on are not drawn.
    ///
    /// # Errors
    /// If the logits make no distribution, or if every token is ruled out.
    pub fn token(&self, at: &Place<'_>, outcome: &Outcome<'_>, work: &mut Workspace) -> Result<u32> {
        let place = at.tokens.len() as u32;
        let not_finite = Error::NotFinite { tokens: place };
        let Some(logits) = outcome.logits(at.output) else {
            return outcome.token(at.output).ok_or(not_finite);
        };
        let logits = &logits[..logits.len().min(at.known as usize)];
        if !is_distribution(logits) {
            return Err(not_finite);
        }
        work.logits.clear();
        work.logits.extend_from_slice(logits);
        self.change(at, &mut work.logits);
        if !is_distribution(&work.logits) {
            return Err(Error::NothingLeft { tokens: place });
        }
        Ok(self.draw(place, work))
    }

    /// Steps 2 to 5 of the order that the module tells.
    fn change(&self, at: &Place<'_>, logits: &mut [f32]) {
        let sampling = &self.sampling;
        for (token, bias) in &sampling.logit_bias {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit += bias;
            }
        }
        sampling.penalties.apply(&self.seen, logits);
        if let Some(dry) = &sampling.dry {
            dry.apply(at.tokens, &self.breaks, logits);
        }
        let place = at.tokens.len() as u32;
        for token in at.left_out.iter().copied().chain(self.refused_at(place)) {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    /// Steps 6 to 11.
    fn draw(&self, place: u32, work: &mut Workspace) -> u32 {
        let sampling = &self.sampling;
        let Workspace { logits, order, candidates } = work;
        if sampling.temperature > 0.0 {
            if sampling.top_n_sigma > 0.0 {
                super::shape::top_n_sigma(sampling.top_n_sigma, logits);
            }
            if sampling.typical < 1.0 {
                super::shape::typical(sampling.typical, sampling.temperature, logits, order);
            }
        }
        let mut random = sampling.random(place);
        random.uniform();
        let chance = random.uniform();
        sampling
            .draw(place)
            .token_past(logits, candidates, |probabilities| sampling.xtc.left_out(chance, probabilities))
    }

    /// Notes that the answer has one more token.
    pub fn push(&mut self, token: u32, bytes: &[u8]) {
        if self.sampling.penalties != Penalties::NONE {
            self.seen.answer(token);
        }
        if let Some(dry) = &self.sampling.dry {
            self.breaks.push(bytes, dry);
        }
    }

    /// Takes back `pushed`, the last tokens that were pushed, since `first` must not be drawn at `place`, where they
    /// begin. It is the first of them, unless it was not pushed itself.
    pub fn take_back(&mut self, place: u32, first: u32, pushed: &[u32]) {
        if self.sampling.penalties != Penalties::NONE {
            pushed.iter().for_each(|token| self.seen.take_back(*token));
        }
        self.breaks.truncate(place as usize);
        // What was refused further on was refused after a text that is no longer there.
        self.refused.retain(|(refused_at, _)| *refused_at <= place);
        self.refused.push((place, first));
    }

    fn refused_at(&self, place: u32) -> impl Iterator<Item = u32> {
        self.refused.iter().filter(move |(at, _)| *at == place).map(|(_, token)| *token)
    }
}

/// Where a token is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The tokens before it.
    pub tokens: &'a [u32],
    /// Tokens that must not be drawn there.
    pub left_out: &'a [u32],
    /// Ids from here on are never drawn: the tokenizer does not know them.
    pub known: u32,
    /// Which output of the step asked for it.
    pub output: usize,
}
