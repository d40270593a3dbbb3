//! The engine: one device with one model, its caches divided among sequences.

use program::{
    CacheSize, Device, Kind, Life, ModelSpec, Op, Options, Outcome, Output, PAGE_TOKENS, ProgramId, Size,
};

use crate::batch::Batch;
use crate::free_list::FreeList;
use crate::pages::Pages;
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
    pub(crate) pages: Pages,
    slots: FreeList,
    batch: Batch,
    /// Token ids that the model can read are below this.
    vocabulary: u32,
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
        Ok(Engine {
            device,
            trunk,
            limits,
            pages: Pages::new(limits.pages),
            slots: FreeList::new(0..limits.sequences),
            batch: Batch::new(&limits),
            vocabulary: vocabulary(model),
            known: known(model),
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

    /// Token ids that the model can read are below this.
    pub fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    /// Ids from here on are never drawn: the tokenizer does not know them.
    pub fn known(&self) -> u32 {
        self.known
    }

    /// Whether a sequence has a state beside its pages, so that pages of another one are of no use to it.
    pub(crate) fn is_stateful(&self) -> bool {
        self.stateful
    }

    /// How many cache pages no sequence owns.
    pub fn available_pages(&self) -> usize {
        self.pages.available()
    }

    /// How many of those hold the beginning of a text that may come again.
    pub fn kept_pages(&self) -> usize {
        self.pages.kept()
    }

    /// Checks that every page and every slot has the owners that it should have, if `sequences` are all that are open.
    /// It walks everything: for tests, and for moments when nothing is under way.
    ///
    /// # Errors
    /// With the page or the slot and what is wrong with it.
    pub fn audit<'a>(&self, sequences: impl Iterator<Item = &'a Sequence> + Clone) -> Result<(), String> {
        self.pages.audit(sequences.clone().map(|sequence| &sequence.pages[..]))?;
        let mut slots: Vec<u32> = sequences.filter_map(|sequence| sequence.slot).collect();
        slots.extend(self.slots.free());
        slots.sort_unstable();
        if slots.iter().copied().ne(0..self.limits.sequences) {
            return Err(format!("of {} slots there are {slots:?}", self.limits.sequences));
        }
        Ok(())
    }

    /// A new sequence that begins with `tokens`, none of them cached. It takes pages as it grows, and shares none.
    ///
    /// # Errors
    /// If as many sequences are open as there may be.
    pub fn open(&mut self, tokens: &[u32]) -> Result<Sequence> {
        let mut sequence = Sequence::new(tokens, None, tokens.len());
        self.take_slot(&mut sequence)?;
        Ok(sequence)
    }

    /// Ends a sequence; its pages and its slot are free again.
    pub fn close(&mut self, mut sequence: Sequence) {
        self.release(&mut sequence);
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
    /// If a part feeds more tokens than its sequence has waiting, or a sequence is not open.
    pub fn step(&mut self, parts: &mut [Part<'_>]) -> Result<Outcome<'_>> {
        self.begin();
        for part in parts.iter_mut() {
            self.make_room(part.sequence, part.sequence.cached + part.rows)?;
            self.add(part.sequence, part.rows, part.outputs);
        }
        let outcome = self.run()?;
        for part in parts {
            part.sequence.cached += part.rows;
        }
        Ok(outcome)
    }

    /// Begins a step of which [`Engine::add`] adds the parts and [`Engine::run`] gives the outcome.
    pub(crate) fn begin(&mut self) {
        self.batch.clear();
    }

    /// Adds rows of a sequence, which has pages for them, to the step begun.
    pub(crate) fn add(&mut self, sequence: &Sequence, rows: u32, outputs: &[Output]) {
        self.batch.push(sequence, rows, outputs);
    }

    /// Runs the step begun. The sequences advance when they are [committed](Engine::commit).
    ///
    /// # Errors
    /// If the device refuses the step.
    pub(crate) fn run(&mut self) -> Result<Outcome<'_>> {
        let ticket = self.device.submit(self.trunk, &self.batch.step())?;
        Ok(self.device.wait(ticket)?)
    }

    /// Takes a sequence back to its first `length` tokens. They stay cached as far as they are, but for the last of
    /// them, so that there is one to go on from; for those in a page that other sequences may read, since it must not
    /// be written; and for all of them if the model has a state that cannot go back.
    pub fn truncate(&mut self, sequence: &mut Sequence, length: usize) {
        sequence.cut(length);
        let all_but_one = length.saturating_sub(1) as u32;
        if sequence.cached > all_but_one {
            sequence.cached = if self.stateful { 0 } else { all_but_one };
        }
        let full = (sequence.cached / PAGE_TOKENS) as usize;
        let partial = sequence.pages.get(full).filter(|_| !sequence.cached.is_multiple_of(PAGE_TOKENS));
        let writable = partial.is_some_and(|page| !self.pages.is_ready(*page));
        if writable {
            self.pages.withdraw(sequence.pages[full]);
        } else {
            sequence.cached = full as u32 * PAGE_TOKENS;
        }
        for page in sequence.pages.drain(full + usize::from(writable)..).rev() {
            self.pages.give(page);
        }
    }

    /// Takes back all that a sequence holds; none of its tokens is cached then. Its last page goes first, so that the
    /// beginning of a text is kept longest.
    pub(crate) fn release(&mut self, sequence: &mut Sequence) {
        sequence.cached = 0;
        for page in sequence.pages.drain(..).rev() {
            self.pages.give(page);
        }
        if let Some(slot) = sequence.slot.take() {
            self.slots.give(slot);
        }
    }

    /// Gives a sequence a slot.
    pub(crate) fn take_slot(&mut self, sequence: &mut Sequence) -> Result<()> {
        let slot = self.slots.take().ok_or(Error::OutOfSlots { slots: self.limits.sequences })?;
        sequence.slot = Some(slot);
        Ok(())
    }

    /// Gives a sequence the pages for its first `needed` tokens.
    pub(crate) fn make_room(&mut self, sequence: &mut Sequence, needed: u32) -> Result<()> {
        let context = self.limits.context;
        if needed > context {
            return Err(Error::ContextFull { needed, context });
        }
        let missing = (needed.div_ceil(PAGE_TOKENS) as usize).saturating_sub(sequence.pages.len());
        let free = self.pages.available();
        if missing > free {
            return Err(Error::OutOfPages { needed: missing, free });
        }
        sequence.pages.extend((0..missing).map_while(|_| self.pages.take()));
        Ok(())
    }
}

/// How many token ids the trunk's embedding table has rows for.
fn vocabulary(model: &ModelSpec) -> u32 {
    let tables = model.programs[0].ops.iter().filter_map(|op| match op {
        Op::Embed { table, .. } => Some(model.weight(*table).kind),
        _ => None,
    });
    let mut rows = tables.filter_map(|kind| match kind {
        Kind::Table { vocab, .. } => Some(vocab),
        _ => None,
    });
    // Without a table the device is the one to know.
    rows.next().unwrap_or(u32::MAX)
}

/// How many token ids the trunk can draw.
fn known(model: &ModelSpec) -> u32 {
    let mut known = model.programs[0].ops.iter().filter_map(|op| match op {
        Op::Answer { known, .. } => Some(*known),
        _ => None,
    });
    known.next().unwrap_or(u32::MAX)
}
