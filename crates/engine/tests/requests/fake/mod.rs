//! A device whose logits are a hash of the prefix, as it reads it back from its caches: a wrong page
//! table, a page with two owners or a slot that was not begun anew changes every token after it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use program::answer::Answers;
use program::{
    CacheSize, CacheSpec, Device, Format, HostTensor, Life, Memory, ModelSpec, Options, Outcome, PAGE_TOKENS,
    Part, Program, ProgramId, Result, Step, Ticket, Token, Val, WeightId,
};

/// Token ids that the model knows.
pub(crate) const VOCAB: u32 = 61;

/// A model without weights, with one cache of each life.
pub(crate) fn model() -> ModelSpec {
    let parts = vec![Part { cols: 1, format: Format::F16 }];
    let cache = |life| CacheSpec { life, parts: parts.clone() };
    ModelSpec {
        weights: Vec::new(),
        caches: vec![cache(Life::PerToken), cache(Life::PerSequence)],
        programs: vec![Program::of(&[])],
    }
}

/// What the tokens stand for, one character each: those of [`ALPHABET`].
pub(crate) fn token_bytes(token: u32) -> &'static [u8] {
    &ALPHABET[token as usize..=token as usize]
}

/// A character for each token.
const ALPHABET: &[u8; VOCAB as usize] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxy";

/// The text of tokens.
pub(crate) fn text(tokens: &[u32]) -> String {
    tokens.iter().map(|token| char::from(token_bytes(*token)[0])).collect()
}

/// The tokens of a text.
pub(crate) fn tokens(text: &str) -> Vec<u32> {
    text.bytes()
        .map(|byte| ALPHABET.iter().position(|&character| character == byte).unwrap() as u32)
        .collect()
}

/// The device. What a page or a slot held before stays in it until it is written over.
#[derive(Default)]
pub(crate) struct Fake {
    /// What is added to every logit.
    pub(crate) offset: f32,
    /// The text that it prefers, by place: at place `i` the logit of token `script[i]` is 20 higher.
    pub(crate) script: Vec<u32>,
    size: Option<CacheSize>,
    rows: Vec<u64>,
    states: Vec<u64>,
    answers: Answers,
    logits: Vec<f32>,
}

impl Fake {
    /// Where a place of a sequence lies in `rows`.
    fn index(step: &Step<'_>, sequence: &program::Sequence, place: u32) -> usize {
        let page = step.pages[(sequence.pages.start + place / PAGE_TOKENS) as usize];
        (page.0 * PAGE_TOKENS + place % PAGE_TOKENS) as usize
    }

    fn write_caches(&mut self, step: &Step<'_>) {
        for sequence in step.sequences {
            for (place, row) in (sequence.cached..).zip(sequence.rows.clone()) {
                let entry = hash(&(token(&self.answers, step, row), step.positions[row as usize]));
                self.rows[Fake::index(step, sequence, place)] = entry;
            }
        }
    }

    fn compute_logits(&mut self, step: &Step<'_>) {
        let mut by_row = vec![0u64; step.tokens.len()];
        let mut scripted = vec![None; step.tokens.len()];
        for sequence in step.sequences {
            let state = &mut self.states[sequence.slot as usize];
            if sequence.cached == 0 {
                *state = 0;
            }
            for (place, row) in (sequence.cached..).zip(sequence.rows.clone()) {
                *state = hash(&(*state, token(&self.answers, step, row)));
                let prefix = (0..=place).map(|place| self.rows[Fake::index(step, sequence, place)]);
                scripted[row as usize] = self.script.get(place as usize + 1);
                by_row[row as usize] = hash(&(prefix.collect::<Vec<_>>(), *state));
            }
        }
        self.logits.clear();
        for output in step.outputs {
            let row = by_row[output.row as usize];
            let preferred = scripted[output.row as usize];
            self.logits.extend((0..VOCAB).map(|id| {
                let bonus = if preferred == Some(&id) { 20.0 } else { 0.0 };
                (hash(&(row, id)) % 8192) as f32 / 1024.0 + self.offset + bonus
            }));
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn token(answers: &Answers, step: &Step<'_>, row: u32) -> u32 {
    match step.tokens[row as usize] {
        Token::Id(id) => id,
        Token::Previous(output) => answers.previous(output).unwrap(),
    }
}

impl Device for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn plan(&self, _: &ModelSpec, _: &Options, _: CacheSize) -> Result<Memory> {
        Ok(Memory::default())
    }

    fn upload(&mut self, _: WeightId, _: u32, _: HostTensor) -> Result<()> {
        unreachable!("the model has no weights")
    }

    fn reserve(&mut self, _: &[CacheSpec], size: CacheSize) -> Result<()> {
        self.rows = vec![0; (size.pages * PAGE_TOKENS) as usize];
        self.states = vec![0; size.slots as usize];
        self.size = Some(size);
        Ok(())
    }

    fn prepare(&mut self, _: &Program, options: &Options) -> Result<ProgramId> {
        self.answers.reserve(options.size.outputs as usize, VOCAB as usize);
        Ok(ProgramId(0))
    }

    fn submit(&mut self, _: ProgramId, step: &Step<'_>) -> Result<Ticket> {
        step.check(VOCAB, self.size.unwrap())?;
        let ticket = self.answers.submit("fake")?;
        self.write_caches(step);
        self.compute_logits(step);
        self.answers.answer(step.outputs, &self.logits, VOCAB as usize, VOCAB as usize);
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outcome<'_>> {
        self.answers.wait(&ticket, "fake")
    }

    fn read(&mut self, _: ProgramId, _: Val, _: &mut [f32]) -> Result<()> {
        unreachable!("the program has no values")
    }

    fn write(&mut self, _: ProgramId, _: Val, _: &[f32]) -> Result<()> {
        unreachable!("the program has no inputs")
    }
}
