//! A step: everything that changes from one run of a program to the next, and what comes back.

use std::ops::Range;
use std::time::Duration;

use crate::{CacheSize, Draw, Error, PAGE_TOKENS, PageId, Result};

/// One run of a program: rows of one or several sequences, prompts and single tokens alike.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// One a row.
    pub tokens: &'a [Token],
    /// Rotary position of each row.
    pub positions: &'a [u32],
    /// Who the rows belong to, in order and without gaps.
    pub sequences: &'a [Sequence],
    /// The pages that `sequences` refer to.
    pub pages: &'a [PageId],
    /// Which rows the caller wants something of.
    pub outputs: &'a [Output],
}

/// What a row reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A token id.
    Id(u32),
    /// The token drawn for this output of the step before.
    Previous(u32),
}

/// One sequence's rows in this step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its rows, contiguous.
    pub rows: Range<u32>,
    /// How many of its tokens are cached already; row `i` of it has the place `cached + i`.
    pub cached: u32,
    /// Its page table: a range of [`Step::pages`], enough for all its places.
    pub pages: Range<u32>,
    /// Its slot in per-sequence caches.
    pub slot: u32,
}

/// A row that the caller wants something of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// The row.
    pub row: u32,
    /// What is wanted.
    pub want: Want,
}

/// What is wanted of a row's logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Want {
    /// A token.
    Choose(Draw),
    /// The natural logarithm of the probability of this token.
    Score(u32),
    /// All logits.
    Logits,
}

/// What came of one output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// To [`Want::Choose`]: the token.
    Token(u32),
    /// To [`Want::Choose`]: there is none, since a logit is NaN or the largest is infinite.
    NotFinite,
    /// To [`Want::Score`]: the natural logarithm of the token's probability.
    Score(f32),
    /// To [`Want::Logits`]: which row of [`Outcome::logits`] they are.
    Logits(u32),
}

/// What a step gave; borrowed from the device until the next call.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// One an output of the step, in its order.
    pub answers: &'a [Answer],
    /// The rows asked for by [`Want::Logits`], `vocab` numbers each.
    pub logits: &'a [f32],
    /// Columns of `logits`.
    pub vocab: usize,
    /// How long each operation of the program took, in their order, when it was prepared with
    /// [`Options::timing`](crate::Options::timing); empty otherwise. An operation that the device runs
    /// together with another one counts with that one and has none of its own.
    pub times: &'a [Duration],
}

impl<'a> Outcome<'a> {
    /// The logits that output `output` asked for, or none if it asked for something else.
    pub fn logits(&self, output: usize) -> Option<&'a [f32]> {
        match self.answers.get(output) {
            Some(Answer::Logits(row)) => {
                let start = *row as usize * self.vocab;
                self.logits.get(start..start + self.vocab)
            }
            _ => None,
        }
    }

    /// The token drawn for output `output`, or none if it asked for something else.
    pub fn token(&self, output: usize) -> Option<u32> {
        match self.answers.get(output) {
            Some(Answer::Token(token)) => Some(*token),
            _ => None,
        }
    }
}

impl Step<'_> {
    /// Checks that the lists agree with each other and stay within the caches reserved, so that a device
    /// can index by them without looking again. `vocab` is the number of rows of the embedding table.
    ///
    /// # Errors
    /// [`Error::Step`], with the list and the entry that is wrong.
    pub fn check(&self, vocab: u32, caches: CacheSize) -> Result<()> {
        let malformed = |what: String| Err(Error::Step(what));
        let rows = self.tokens.len() as u32;
        if rows == 0 || self.positions.len() as u32 != rows {
            return malformed(format!("{rows} tokens, {} positions", self.positions.len()));
        }
        for (row, token) in self.tokens.iter().enumerate() {
            if let Token::Id(id) = token
                && *id >= vocab
            {
                return malformed(format!("row {row} has token id {id}, the model knows {vocab}"));
            }
        }
        let mut next = 0;
        for (index, sequence) in self.sequences.iter().enumerate() {
            if sequence.rows.start != next || sequence.rows.end <= next {
                return malformed(format!(
                    "sequence {index} has rows {:?}, expected from {next}",
                    sequence.rows
                ));
            }
            next = sequence.rows.end;
            let Some(pages) = self.pages.get(sequence.pages.start as usize..sequence.pages.end as usize)
            else {
                return malformed(format!(
                    "sequence {index} has pages {:?} of {}",
                    sequence.pages,
                    self.pages.len()
                ));
            };
            let places = sequence.cached.saturating_add(sequence.rows.end - sequence.rows.start);
            if u64::from(places) > pages.len() as u64 * u64::from(PAGE_TOKENS) {
                return malformed(format!(
                    "sequence {index} needs {places} places, its {} pages hold {}",
                    pages.len(),
                    pages.len() as u64 * u64::from(PAGE_TOKENS)
                ));
            }
            if let Some(page) = pages.iter().find(|page| page.0 == 0 || page.0 >= caches.pages) {
                return malformed(format!("sequence {index} uses page {} of 1..{}", page.0, caches.pages));
            }
            if sequence.slot >= caches.slots {
                return malformed(format!(
                    "sequence {index} uses slot {} of {}",
                    sequence.slot, caches.slots
                ));
            }
        }
        if next != rows {
            return malformed(format!("{rows} tokens, but the sequences have {next} rows"));
        }
        for (index, output) in self.outputs.iter().enumerate() {
            if output.row >= rows {
                return malformed(format!("output {index} asks for row {} of {rows}", output.row));
            }
            if let Want::Score(token) = output.want
                && token >= vocab
            {
                return malformed(format!("output {index} scores token {token}, the model knows {vocab}"));
            }
        }
        Ok(())
    }
}
