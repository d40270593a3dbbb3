//! One answer under way: which token comes next, what text it gives, and whether that was the last.
//!
//! A [`Reply`] belongs to one sequence and knows no engine, so that any loop can drive many of them: ask the device
//! for [`Reply::want`], draw with [`Reply::token`], hand the token to [`Reply::push`] and do what it says.
//!
//! Banned strings are kept out by going back: text that may be the beginning of one is held, and when it is complete
//! the tokens that it lies in are taken back, the first of them is ruled out at its place, and the answer is drawn
//! anew from there.

use program::{Outcome, Want};

use crate::sampling::{Place, TokenBytes, Workspace};
use crate::text::{Found, Stops, Text, Watch};
use crate::{Finish, Result, Sampler, Sampling};

/// What ends an answer, and what must not be in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Tokens that end the answer and are no part of it.
    pub tokens: Vec<u32>,
    /// Strings that end the answer and are no part of it.
    pub strings: Vec<String>,
    /// Strings that the answer must not have.
    pub banned: Vec<String>,
    /// The shortest answer, in tokens: `tokens` are not drawn before, and `strings` are looked for after it.
    pub min_tokens: usize,
    /// The longest answer, in tokens.
    pub max_tokens: usize,
}

/// One answer under way.
#[derive(Clone, Debug)]
pub struct Reply {
    sampler: Sampler,
    ending: Ending,
    watch: Watch,
    text: Text,
    /// Tokens of the prompt, and of the answer so far.
    prompt: usize,
    tokens: usize,
}

/// What is to be done after a token was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Append it to the sequence and draw another.
    Append,
    /// Append it to the sequence; the answer is at its end.
    AppendAndEnd(Finish),
    /// The answer is at its end, and the token no part of it.
    End(Finish),
    /// Leave the token out, take the sequence back to this length, and draw again.
    GoBack {
        /// Tokens of prompt and answer that stay.
        length: usize,
    },
}

impl Reply {
    /// An answer to `prompt`.
    pub fn new(sampling: Sampling, ending: Ending, prompt: &[u32], token_bytes: &TokenBytes<'_>) -> Reply {
        Reply {
            sampler: Sampler::new(sampling, prompt, token_bytes),
            watch: Watch::new(&ending.strings, &ending.banned),
            ending,
            text: Text::default(),
            prompt: prompt.len(),
            tokens: 0,
        }
    }

    /// Tokens of the answer so far.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// What to ask the device for after the last token.
    pub fn want(&self) -> Want {
        self.sampler.want((self.prompt + self.tokens) as u32, self.left_out())
    }

    /// The next token, from the answer to [`Reply::want`], which was output `output` of a step. `tokens` are prompt
    /// and answer so far; ids from `known` on are never drawn.
    ///
    /// # Errors
    /// If the logits make no distribution, or if every token is ruled out.
    pub fn token(
        &self,
        tokens: &[u32],
        known: u32,
        (outcome, output): (&Outcome<'_>, usize),
        work: &mut Workspace,
    ) -> Result<u32> {
        self.sampler.token(&Place { tokens, left_out: self.left_out(), known, output }, outcome, work)
    }

    /// Takes the token drawn and its bytes, and appends to `out` the text that is sure to be the answer's.
    /// `tokens` are prompt and answer before it.
    pub fn push(&mut self, token: u32, bytes: &[u8], tokens: &[u32], out: &mut String) -> Next {
        if self.tokens >= self.ending.min_tokens && self.ending.tokens.contains(&token) {
            self.finish(out);
            return Next::End(Finish::Stop);
        }
        let long_enough = self.tokens + 1 > self.ending.min_tokens;
        let stops = if long_enough { Stops::Count } else { Stops::TooEarly };
        let text = &mut self.text;
        match self.watch.push(bytes, stops, &mut |bytes| text.push(bytes, out)) {
            Found::Banned { tokens: count } => {
                let length = tokens.len() + 1 - count;
                self.tokens -= count - 1;
                let first = tokens.get(length).copied().unwrap_or(token);
                self.sampler.take_back(length as u32, first, tokens.get(length..).unwrap_or_default());
                return Next::GoBack { length };
            }
            Found::Stop => {
                self.text.finish(out);
                self.note(token, bytes);
                return Next::AppendAndEnd(Finish::Stop);
            }
            Found::Nothing => {}
        }
        self.note(token, bytes);
        if self.tokens >= self.ending.max_tokens {
            self.finish(out);
            return Next::AppendAndEnd(Finish::Length);
        }
        Next::Append
    }

    /// Ends the answer for a reason of the caller's: appends what was held to `out`.
    pub fn finish(&mut self, out: &mut String) {
        let text = &mut self.text;
        self.watch.finish(&mut |bytes| text.push(bytes, out));
        text.finish(out);
    }

    fn note(&mut self, token: u32, bytes: &[u8]) {
        self.tokens += 1;
        self.sampler.push(token, bytes);
    }

    /// Tokens that must not be drawn next.
    fn left_out(&self) -> &[u32] {
        if self.tokens < self.ending.min_tokens { &self.ending.tokens } else { &[] }
    }
}
