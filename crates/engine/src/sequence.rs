//! A sequence: tokens, and what of them the device remembers.

use program::PageId;

/// One text under way. It owns a slot and some cache pages of the [`Engine`](crate::Engine) that opened
/// it, which get free again only by [`Engine::close`](crate::Engine::close).
#[derive(Debug)]
#[must_use = "a sequence that is not closed keeps its pages and its slot"]
pub struct Sequence {
    /// Prompt and answer so far.
    pub(crate) tokens: Vec<u32>,
    /// How many of the tokens, from the first on, are cached.
    pub(crate) cached: u32,
    /// The pages that hold them, in order: token `i` lies in page `i / PAGE_TOKENS`.
    pub(crate) pages: Vec<PageId>,
    /// Its place in per-sequence caches.
    pub(crate) slot: u32,
}

impl Sequence {
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
}
