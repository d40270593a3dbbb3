//! Memory of the device: aligned zeroed blocks, and views into them that provably do not overlap.

mod blocks;

pub(crate) use blocks::{Block, Blocks, Columns, Cut, LIGHT, for_each_block, spaced};

use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

/// Views that one operation can hold at once.
const MOST_LOANS: usize = 16;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Zeroed memory that begins at a cache line.
///
/// Its pages are touched when it is made, so that what was planned is what is resident.
#[derive(Default)]
pub(crate) struct Memory {
    lines: Vec<Line>,
}

impl Memory {
    /// At least `len` bytes.
    pub(crate) fn zeroed(len: usize) -> Memory {
        Memory { lines: vec![Line([0; 64]); len.div_ceil(size_of::<Line>())] }
    }

    /// Bytes that [`Memory::zeroed`] takes for `len`.
    pub(crate) const fn size(len: usize) -> usize {
        len.next_multiple_of(size_of::<Line>())
    }

    /// All of it, as bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the lines are one block of that many initialised bytes.
        unsafe { slice::from_raw_parts(self.lines.as_ptr().cast(), size_of_val(&*self.lines)) }
    }

    /// All of it, as bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the lines are one block of that many initialised bytes, and any bytes are a line.
        unsafe { slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), size_of_val(&*self.lines)) }
    }

    /// All of it, as numbers.
    pub(crate) fn numbers(&self) -> &[f32] {
        // SAFETY: a line is 16 numbers, aligned, and any bits are an f32.
        unsafe { slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 16) }
    }

    /// All of it, as numbers.
    pub(crate) fn numbers_mut(&mut self) -> &mut [f32] {
        // SAFETY: a line is 16 numbers, aligned, and any bits are an f32 and a line.
        unsafe { slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * 16) }
    }
}

/// Lends parts of one block of numbers: a part lent for writing overlaps no other.
pub(crate) struct Loans<'a> {
    first: *mut f32,
    len: usize,
    lent: [Loan; MOST_LOANS],
    count: usize,
    memory: PhantomData<&'a mut [f32]>,
}

#[derive(Clone, Copy)]
struct Loan {
    start: usize,
    end: usize,
    writes: bool,
}

impl<'a> Loans<'a> {
    /// Nothing is lent yet.
    pub(crate) fn new(memory: &'a mut [f32]) -> Loans<'a> {
        Loans {
            first: memory.as_mut_ptr(),
            len: memory.len(),
            lent: [Loan { start: 0, end: 0, writes: false }; MOST_LOANS],
            count: 0,
            memory: PhantomData,
        }
    }

    /// The numbers at `place`, to be read.
    ///
    /// # Panics
    /// If they overlap numbers lent for writing, lie outside, or too much is lent.
    pub(crate) fn read(&mut self, place: Range<usize>) -> &'a [f32] {
        self.lend(Loan { start: place.start, end: place.end, writes: false });
        // SAFETY: the place lies inside the block, which is borrowed for 'a, and overlaps nothing that is
        // lent for writing.
        unsafe { slice::from_raw_parts(self.first.add(place.start), place.len()) }
    }

    /// The numbers at `place`, to be written.
    ///
    /// # Panics
    /// If they overlap numbers lent before, lie outside, or too much is lent.
    pub(crate) fn write(&mut self, place: Range<usize>) -> &'a mut [f32] {
        self.lend(Loan { start: place.start, end: place.end, writes: true });
        // SAFETY: the place lies inside the block, which is borrowed mutably for 'a, and overlaps nothing
        // that is lent.
        unsafe { slice::from_raw_parts_mut(self.first.add(place.start), place.len()) }
    }

    fn lend(&mut self, loan: Loan) {
        assert!(loan.start <= loan.end && loan.end <= self.len, "a loan outside the memory");
        for other in &self.lent[..self.count] {
            let apart = loan.end <= other.start || other.end <= loan.start;
            assert!(apart || !(loan.writes || other.writes), "loans overlap");
        }
        assert!(self.count < MOST_LOANS, "too much is lent");
        self.lent[self.count] = loan;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn memory_begins_at_a_cache_line_and_holds_zeros() {
        for len in [0, 1, 64, 65, 1000] {
            let mut memory = Memory::zeroed(len);
            assert_eq!(memory.bytes().len(), Memory::size(len));
            assert!(memory.bytes().iter().all(|byte| *byte == 0));
            assert!(memory.numbers().as_ptr().addr().is_multiple_of(64));
            memory.numbers_mut().fill(1.0);
            assert!(memory.bytes_mut().chunks_exact(4).all(|bytes| bytes == 1.0f32.to_le_bytes()));
        }
    }

    #[test]
    fn loans_that_overlap_are_refused_if_one_of_them_writes() {
        let lend = |write: bool, first: Range<usize>, second: Range<usize>| {
            catch_unwind(move || {
                let mut memory = [0.0; 8];
                let mut loans = Loans::new(&mut memory);
                loans.read(first);
                if write { loans.write(second).len() } else { loans.read(second).len() }
            })
            .ok()
        };
        assert_eq!(lend(false, 0..4, 2..6), Some(4));
        assert_eq!(lend(true, 0..4, 4..8), Some(4));
        assert_eq!(lend(true, 4..8, 0..4), Some(4));
        assert_eq!(lend(true, 0..4, 3..8), None);
        assert_eq!(lend(true, 3..8, 0..4), None);
        assert_eq!(lend(false, 0..4, 4..9), None);
    }
}
