//! A sequence: tokens, and what of them the device remembers.

use program::{PAGE_TOKENS, PageId};

use crate::prefix::PageHash;

/// One text under way. While it is open it owns a slot and some cache pages of the [`Engine`](crate::Engine) that
/// opened it, which get free again only by [`Engine::close`](crate::Engine::close).
#[derive(Debug)]
#[must_use = "a sequence that is not closed keeps its pages and its slot"]
pub struct Sequence {
    /// Prompt and answer so far.
    pub(crate) tokens: Vec<u32>,
    /// How many of the tokens, from the first on, are cached.
    pub(crate) cached: u32,
    /// The pages that hold them, in order: token `i` lies in page `i / PAGE_TOKENS`.
    pub(crate) pages: Vec<PageId>,
    /// Its place in per-sequence caches, while it is open.
    pub(crate) slot: Option<u32>,
    /// Where the chain of its pages' names begins, if it shares full pages with other sequences.
    root: Option<PageHash>,
    /// The names of the full pages that the tokens fill, cached or not, as far as they were asked for.
    pub(crate) hashes: Vec<PageHash>,
}

impl Sequence {
    /// A sequence that holds nothing of a device yet. With a `root` it shares full pages with those of the same root.
    /// It allocates no more until it has more than `most` tokens.
    pub(crate) fn new(prompt: &[u32], root: Option<PageHash>, most: usize) -> Sequence {
        let pages = most.div_ceil(PAGE_TOKENS as usize);
        let mut tokens = Vec::with_capacity(most.max(prompt.len()));
        tokens.extend_from_slice(prompt);
        let hashes = Vec::with_capacity(if root.is_some() { pages } else { 0 });
        Sequence { tokens, cached: 0, pages: Vec::with_capacity(pages), slot: None, root, hashes }
    }

    /// Prompt and answer so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How many of the tokens are cached.
    pub fn cached(&self) -> u32 {
        self.cached
    }

    /// How many of the tokens are still to be fed to the device.
    pub fn waiting(&self) -> u32 {
        self.tokens.len() as u32 - self.cached
    }

    /// Appends a token, for the next step.
    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
    }

    /// Keeps the first `length` tokens only; what is cached is the engine's to say.
    pub(crate) fn cut(&mut self, length: usize) {
        self.tokens.truncate(length);
        self.hashes.truncate(length / PAGE_TOKENS as usize);
    }

    /// Completes the names of the full pages that its tokens fill, if it shares pages. A page is hashed once, which
    /// takes about a microsecond.
    pub(crate) fn name_pages(&mut self) {
        let Some(root) = self.root else { return };
        let (pages, _) = self.tokens.as_chunks::<{ PAGE_TOKENS as usize }>();
        for page in &pages[self.hashes.len()..] {
            let parent = self.hashes.last().unwrap_or(&root);
            self.hashes.push(parent.next(page));
        }
    }
}
