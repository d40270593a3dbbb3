//! Numbers that are given out and come back: slots.

use std::ops::Range;

/// The numbers of a range that nobody owns. The one given back last is the next to be taken, since its
/// memory is the most likely to be warm.
#[derive(Debug)]
pub(crate) struct FreeList(Vec<u32>);

impl FreeList {
    /// All numbers of `range`, the lowest to be taken first.
    pub(crate) fn new(range: Range<u32>) -> FreeList {
        FreeList(range.rev().collect())
    }

    /// A number that is now the caller's alone, or none if all are taken.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.0.pop()
    }

    /// Takes back a number from its only owner.
    pub(crate) fn give(&mut self, number: u32) {
        debug_assert!(!self.0.contains(&number), "{number} was given back twice");
        self.0.push(number);
    }

    /// The numbers that nobody owns, in no particular order.
    pub(crate) fn free(&self) -> &[u32] {
        &self.0
    }
}
