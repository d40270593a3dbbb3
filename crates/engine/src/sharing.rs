//! How sequences come to share full pages: what is there already, what another one is about to compute, and what of it
//! a sequence takes when it opens.

use program::{PAGE_TOKENS, PageId};

use crate::{Engine, Result, Sequence};

/// What a sequence would find if it opened now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prospects {
    /// Full pages from its first on that are there.
    pub(crate) ready: usize,
    /// The next page after them, and its number in the sequence, if another sequence is about to fill it.
    pub(crate) promised: Option<(usize, PageId)>,
    /// Pages that it would use up of those that nobody owns, to have one for each of its tokens.
    pub(crate) needs: usize,
}

impl Engine {
    /// What a sequence would find if it opened now, with at most `most` of its tokens to be taken as cached.
    pub(crate) fn prospects(&self, sequence: &mut Sequence, most: usize) -> Prospects {
        let total = sequence.tokens().len().div_ceil(PAGE_TOKENS as usize);
        let mut prospects = Prospects { ready: 0, promised: None, needs: total };
        sequence.name_pages();
        for hash in sequence.hashes.iter().take(most / PAGE_TOKENS as usize) {
            match self.pages.find(hash) {
                Some(found) if found.ready => {
                    prospects.ready += 1;
                    prospects.needs -= usize::from(found.owned);
                }
                Some(found) => {
                    prospects.promised = Some((prospects.ready, found.page));
                    break;
                }
                None => break,
            }
        }
        prospects
    }

    /// Opens a sequence again or for the first time: gives it a slot, its first `ready` pages as they are there, and
    /// new ones for all other tokens, of which the full ones are promised to whoever begins in the same way.
    ///
    /// # Errors
    /// If there is no slot or not enough pages; the sequence holds nothing then.
    pub(crate) fn admit(&mut self, sequence: &mut Sequence, ready: usize) -> Result<()> {
        self.take_slot(sequence)?;
        sequence.name_pages();
        for hash in &sequence.hashes[..ready] {
            if let Some(found) = self.pages.find(hash) {
                self.pages.share(found.page);
                sequence.pages.push(found.page);
            }
        }
        sequence.cached = sequence.pages.len() as u32 * PAGE_TOKENS;
        let tokens = sequence.tokens().len() as u32;
        if let Err(error) = self.make_room(sequence, tokens) {
            self.release(sequence);
            return Err(error);
        }
        for (page, hash) in sequence.pages.iter().zip(&sequence.hashes).skip(ready) {
            self.pages.promise(*page, *hash);
        }
        Ok(())
    }

    /// Says that the next `rows` tokens of a sequence are cached; pages that they filled can be shared from now on.
    pub(crate) fn commit(&mut self, sequence: &mut Sequence, rows: u32) {
        let full = (sequence.cached / PAGE_TOKENS) as usize;
        sequence.cached += rows;
        let now_full = (sequence.cached / PAGE_TOKENS) as usize;
        sequence.name_pages();
        for (page, hash) in sequence.pages.iter().zip(&sequence.hashes).take(now_full).skip(full) {
            self.pages.publish(*page, *hash);
        }
    }

    /// Says that what a sequence cached is wrong: nobody will find it any more.
    pub(crate) fn withdraw(&mut self, sequence: &Sequence) {
        sequence.pages.iter().for_each(|page| self.pages.withdraw(*page));
    }
}
