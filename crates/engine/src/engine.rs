//! The engine: one device with one model, its caches divided among sequences.

use program::{
    CacheSize, Device, Life, ModelSpec, Op, Options, Outcome, Output, PAGE_TOKENS, PageId, ProgramId, Size,
};

use crate::batch::Batch;
use crate::free_list::FreeList;
use crate::{Error, Result, Sequence};

/// Rows of a prompt that go through the device at once, unless the caller says otherwise: enough for a
/// device to decode each weight once for many rows, and few enough that a cancelled request ends soon.
pub const CHUNK: u32 = 512;

/// How much an engine holds, and does at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens that a sequence can have cached.
    pub context: u32,
    /// Sequences that can be open at once.
    pub sequences: u32,
    /// Cache pages that the sequences share, of [`PAGE_TOKENS`] tokens each.
    pub pages: u32,
    /// Rows of a step.
    pub chunk: u32,
    /// Outputs of a step.
    pub outputs: u32,
    /// Whether a text's logits must have the same bits however it is cut into steps and whoever shares them
    /// ([`Options::deterministic`]).
    pub deterministic: bool,
}

impl Limits {
    /// What one request at a time needs.
    pub fn one_sequence(context: u32) -> Limits {
        let pages = context.div_ceil(PAGE_TOKENS);
        Limits { context, sequences: 1, pages, chunk: CHUNK.min(context), outputs: 1, deterministic: false }
    }

    /// What one window of `context` tokens at a time needs, fed in chunks, when all its rows are scored.
    pub fn one_window(context: u32, chunk: u32) -> Limits {
        let chunk = chunk.min(context);
        Limits { chunk, outputs: chunk, ..Limits::one_sequence(context) }
    }

    /// How the trunk is to be prepared for them.
    pub fn options(&self) -> Options {
        let size = Size { tokens: self.chunk, outputs: self.outputs, sequences: self.sequences };
        Options { deterministic: self.deterministic, ..Options::new(size) }
    }

    /// The caches that they need, the device's scratch page included.
    pub fn caches(&self) -> CacheSize {
        CacheSize { pages: self.pages + 1, slots: self.sequences }
    }
}

/// What one sequence does in a step.
#[derive(Debug)]
pub struct Part<'a> {
    /// The sequence.
    pub sequence: &'a mut Sequence,
    /// How many of its waiting tokens are fed; at least one.
    pub rows: u32,
    /// What is wanted of these rows, the first of them being row 0.
    pub outputs: &'a [Output],
}

/// A device that holds a model, and the sequences that share its caches.
pub struct Engine {
    device: Box<dyn Device>,
    trunk: ProgramId,
    limits: Limits,
    pages: FreeList,
    slots: FreeList,
    batch: Batch,
    /// Ids that can be drawn are below this.
    known: u32,
    /// Whether a sequence has a state that only going through all its tokens again can bring back.
    stateful: bool,
}

impl Engine {
    /// Takes over a device that has the model's weights, reserves its caches and prepares its trunk.
    ///
    /// # Errors
    /// If the device cannot hold the caches or run the trunk.
    pub fn new(mut device: Box<dyn Device>, model: &ModelSpec, limits: Limits) -> Result<Engine> {
        device.reserve(&model.caches, limits.caches())?;
        let trunk = device.prepare(&model.programs[0], &limits.options())?;
        let known = model.programs[0].ops.iter().find_map(|op| match op {
            Op::Answer { known, .. } => Some(*known),
            _ => None,
        });
        Ok(Engine {
            device,
            trunk,
            limits,
            // Page 0 is the device's.
            pages: FreeList::new(1..limits.pages + 1),
            slots: FreeList::new(0..limits.sequences),
            batch: Batch::default(),
            known: known.unwrap_or(u32::MAX),
            stateful: model.caches.iter().any(|cache| cache.life == Life::PerSequence),
        })
    }

    /// What it holds and does at once.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        self.device.name()
    }

    /// Ids from here on are never drawn: the tokenizer does not know them.
    pub fn known(&self) -> u32 {
        self.known
    }

    /// The cache pages that no sequence owns, in no particular order.
    pub fn free_pages(&self) -> &[u32] {
        self.pages.free()
    }

    /// The slots that no sequence owns, in no particular order.
    pub fn free_slots(&self) -> &[u32] {
        self.slots.free()
    }

    /// A new sequence that begins with `tokens`, none of them cached. It takes pages as it grows.
    ///
    /// # Errors
    /// If as many sequences are open as there may be.
    pub fn open(&mut self, tokens: &[u32]) -> Result<Sequence> {
        let slot = self.slots.take().ok_or(Error::OutOfSlots { slots: self.limits.sequences })?;
        Ok(Sequence { tokens: tokens.to_vec(), cached: 0, pages: Vec::new(), slot })
    }

    /// Takes a sequence back to its first `length` tokens. They stay cached as far as they are, but for the last of
    /// them, so that there is one to go on from.
    pub fn truncate(&mut self, sequence: &mut Sequence, length: usize) {
        sequence.tokens.truncate(length);
        self.forget(sequence, length.saturating_sub(1));
    }

    /// Makes a sequence hold `tokens` instead. The beginning that both have in common stays cached as far as it is,
    /// but for the last of the tokens, so that there is one to go on from.
    pub fn replace(&mut self, sequence: &mut Sequence, tokens: &[u32]) {
        let common = sequence.tokens.iter().zip(tokens).take_while(|(old, new)| old == new).count();
        sequence.tokens.truncate(common);
        sequence.tokens.extend_from_slice(&tokens[common..]);
        self.forget(sequence, common.min(tokens.len().saturating_sub(1)));
    }

    /// Keeps at most so many tokens cached. A state that cannot go back is begun anew.
    fn forget(&mut self, sequence: &mut Sequence, most: usize) {
        if sequence.cached as usize > most {
            sequence.cached = if self.stateful { 0 } else { most as u32 };
        }
        for page in sequence.pages.drain(sequence.cached.div_ceil(PAGE_TOKENS) as usize..) {
            self.pages.give(page.0);
        }
    }

    /// Ends a sequence; its pages and its slot are free again.
    pub fn close(&mut self, sequence: Sequence) {
        for page in sequence.pages {
            self.pages.give(page.0);
        }
        self.slots.give(sequence.slot);
    }

    /// Feeds rows of several sequences to the device in one step, prompts and single tokens alike. The
    /// outcome has one answer for each output of each part, in order.
    ///
    /// When a step fails no sequence has advanced, though one may have got pages for it.
    ///
    /// # Errors
    /// If a sequence would outgrow the context, pages run out, or the device refuses the step.
    ///
    /// # Panics
    /// If a part feeds more tokens than its sequence has waiting.
    pub fn step(&mut self, parts: &mut [Part<'_>]) -> Result<Outcome<'_>> {
        self.batch.clear();
        for part in parts.iter_mut() {
            self.make_room(part)?;
            self.batch.push(part);
        }
        let ticket = self.device.submit(self.trunk, &self.batch.step())?;
        let outcome = self.device.wait(ticket)?;
        for part in parts {
            part.sequence.cached += part.rows;
        }
        Ok(outcome)
    }

    /// Gives a sequence the pages that its rows of the next step need.
    fn make_room(&mut self, part: &mut Part<'_>) -> Result<()> {
        let sequence = &mut *part.sequence;
        let (needed, context) = (sequence.cached + part.rows, self.limits.context);
        if needed > context {
            return Err(Error::ContextFull { needed, context });
        }
        let missing = (needed.div_ceil(PAGE_TOKENS) as usize).saturating_sub(sequence.pages.len());
        if missing > self.pages.free().len() {
            return Err(Error::OutOfPages { needed: missing, free: self.pages.free().len() });
        }
        sequence.pages.extend((0..missing).map_while(|_| self.pages.take()).map(PageId));
        Ok(())
    }
}
