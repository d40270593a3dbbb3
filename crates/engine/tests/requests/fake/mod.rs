//! A device whose logits are a hash of the prefix, as it reads it back from its caches: a wrong page
//! table, a page with two owners or a slot that was not begun anew changes every token after it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use program::answer::Answers;
use program::weight::PartSpec;
use program::{
    CacheSize, CacheSpec, Device, Dtype, Error, Format, HostTensor, Kind, Life, Memory, ModelSpec, Op,
    Options, Outcome, PAGE_TOKENS, Part, Program, ProgramId, Result, Role, Rows, Step, Storage, Ticket,
    Token, Val, WeightId, WeightSpec,
};

/// Token ids that the model knows.
pub(crate) const VOCAB: u32 = 61;

/// What a sequence of a model remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memories {
    /// Its tokens.
    Pages,
    /// Its tokens, and a state that all of them made.
    PagesAndState,
}

/// A model with one cache of each life.
pub(crate) fn model() -> ModelSpec {
    model_with(Memories::PagesAndState)
}

/// A model with a table of embeddings and nothing else; its numbers are never asked for.
pub(crate) fn model_with(memories: Memories) -> ModelSpec {
    let part = Part { cols: 1, format: Format::F16 };
    let cache = |life| CacheSpec { life, parts: vec![part] };
    let table = WeightSpec {
        kind: Kind::Table { vocab: VOCAB, hidden: 1 },
        parts: vec![PartSpec { name: "embeddings".into(), storage: Storage::Dense(Dtype::F32) }],
    };
    let value = |id, rows, role| Val { id, rows, cols: 1, role };
    let embed = Op::Embed { table: WeightId(0), out: value(0, Rows::Tokens, Role::Stream) };
    let answer = Op::Answer { logits: value(1, Rows::Outputs, Role::Logits), known: VOCAB };
    let caches = match memories {
        Memories::Pages => vec![cache(Life::PerToken)],
        Memories::PagesAndState => vec![cache(Life::PerToken), cache(Life::PerSequence)],
    };
    ModelSpec { weights: vec![table], caches, programs: vec![Program::of(&[embed, answer])] }
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

/// What the logits after some tokens should be, computed from the tokens alone.
pub(crate) struct Oracle {
    memories: Memories,
    prefix: DefaultHasher,
    state: u64,
    tokens: u32,
}

impl Oracle {
    pub(crate) fn new(memories: Memories) -> Oracle {
        Oracle { memories, prefix: DefaultHasher::new(), state: 0, tokens: 0 }
    }

    pub(crate) fn push(&mut self, token: u32) {
        hash(&(token, self.tokens)).hash(&mut self.prefix);
        self.tokens += 1;
        if self.memories == Memories::PagesAndState {
            self.state = hash(&(self.state, token));
        }
    }

    pub(crate) fn logits(&self) -> Vec<f32> {
        let row = hash(&(self.prefix.finish(), self.state));
        (0..VOCAB).map(|id| logit(row, id)).collect()
    }
}

/// The logits after some tokens.
pub(crate) fn logits_after(tokens: &[u32], memories: Memories) -> Vec<f32> {
    let mut oracle = Oracle::new(memories);
    tokens.iter().for_each(|token| oracle.push(*token));
    oracle.logits()
}

fn logit(row: u64, id: u32) -> f32 {
    (hash(&(row, id)) % 8192) as f32 / 1024.0
}

/// What can go wrong with a device, to be switched on and off while it is in use.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    /// What the rows of this token cache is no number.
    pub(crate) token: Arc<AtomicU32>,
    /// Steps fail.
    pub(crate) device: Arc<AtomicBool>,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults { token: Arc::new(AtomicU32::new(u32::MAX)), device: Arc::default() }
    }
}

/// What is cached instead of a number.
const NOT_A_NUMBER: u64 = u64::MAX;

/// The device. What a page or a slot held before stays in it until it is written over.
#[derive(Default)]
pub(crate) struct Fake {
    /// What is added to every logit.
    pub(crate) offset: f32,
    /// The text that it prefers, by place: at place `i` the logit of token `script[i]` is 20 higher.
    pub(crate) script: Vec<u32>,
    pub(crate) faults: Faults,
    size: Option<CacheSize>,
    stateful: bool,
    rows: Vec<u64>,
    states: Vec<u64>,
    answers: Answers,
    by_row: Vec<u64>,
    scripted: Vec<Option<u32>>,
    logits: Vec<f32>,
}

impl Fake {
    /// Where a place of a sequence lies in `rows`.
    fn index(step: &Step<'_>, sequence: &program::Sequence, place: u32) -> usize {
        let page = step.pages[(sequence.pages.start + place / PAGE_TOKENS) as usize];
        (page.0 * PAGE_TOKENS + place % PAGE_TOKENS) as usize
    }

    fn write_caches(&mut self, step: &Step<'_>) {
        let bad = self.faults.token.load(Ordering::Relaxed);
        for sequence in step.sequences {
            for (place, row) in (sequence.cached..).zip(sequence.rows.clone()) {
                let token = token(&self.answers, step, row);
                let entry =
                    if token == bad { NOT_A_NUMBER } else { hash(&(token, step.positions[row as usize])) };
                self.rows[Fake::index(step, sequence, place)] = entry;
            }
        }
    }

    fn compute_logits(&mut self, step: &Step<'_>) {
        self.by_row.clear();
        self.scripted.clear();
        for sequence in step.sequences {
            let state = &mut self.states[sequence.slot as usize];
            if sequence.cached == 0 {
                *state = 0;
            }
            let entry = |place| self.rows[Fake::index(step, sequence, place)];
            let mut prefix = DefaultHasher::new();
            (0..sequence.cached).for_each(|place| entry(place).hash(&mut prefix));
            let mut good = (0..sequence.cached).all(|place| entry(place) != NOT_A_NUMBER);
            for (place, row) in (sequence.cached..).zip(sequence.rows.clone()) {
                if self.stateful {
                    *state = hash(&(*state, token(&self.answers, step, row)));
                }
                entry(place).hash(&mut prefix);
                good &= entry(place) != NOT_A_NUMBER;
                self.scripted.push(self.script.get(place as usize + 1).copied());
                self.by_row.push(if good { hash(&(prefix.finish(), *state)) } else { NOT_A_NUMBER });
            }
        }
        self.logits.clear();
        for output in step.outputs {
            let row = self.by_row[output.row as usize];
            let preferred = self.scripted[output.row as usize];
            self.logits.extend((0..VOCAB).map(|id| match row {
                NOT_A_NUMBER => f32::NAN,
                _ => logit(row, id) + self.offset + if preferred == Some(id) { 20.0 } else { 0.0 },
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
        unreachable!("nobody loads the model's weight")
    }

    fn reserve(&mut self, caches: &[CacheSpec], size: CacheSize) -> Result<()> {
        self.rows = vec![0; (size.pages * PAGE_TOKENS) as usize];
        self.states = vec![0; size.slots as usize];
        self.stateful = caches.iter().any(|cache| cache.life == Life::PerSequence);
        self.size = Some(size);
        Ok(())
    }

    fn prepare(&mut self, _: &Program, options: &Options) -> Result<ProgramId> {
        self.answers.reserve(options.size.outputs as usize, VOCAB as usize);
        Ok(ProgramId(0))
    }

    fn submit(&mut self, _: ProgramId, step: &Step<'_>) -> Result<Ticket> {
        step.check(VOCAB, self.size.unwrap())?;
        if self.faults.device.load(Ordering::Relaxed) {
            return Err(Error::Use { device: "fake".into(), what: "it fell off the table".into() });
        }
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
