//! Which rows each expert has: the slots of a step, sorted by expert.

use program::{Error, Result};

use super::linear::ROWS;

/// Slots (a row's choice of one expert) in the order of their experts, and of their rows within one.
#[derive(Default)]
pub(crate) struct Grouping {
    /// The slot at each position.
    pub(crate) slots: Vec<u32>,
    /// The position of each slot.
    pub(crate) positions: Vec<u32>,
    /// Positions at which runs begin, and the number of slots: a run is up to [`ROWS`] slots of one expert.
    pub(crate) bounds: Vec<usize>,
    /// The expert of each run.
    pub(crate) experts: Vec<u32>,
    /// Where the slots of each expert begin.
    starts: Vec<u32>,
}

impl Grouping {
    /// Makes room, so that [`Grouping::group`] allocates nothing.
    pub(crate) fn reserve(&mut self, slots: usize, experts: usize) {
        for list in [&mut self.slots, &mut self.positions, &mut self.experts] {
            list.reserve(slots.saturating_sub(list.len()));
        }
        self.bounds.reserve((slots + 1).saturating_sub(self.bounds.len()));
        self.starts.reserve((experts + 1).saturating_sub(self.starts.len()));
    }

    /// Bytes of room for so many slots and experts.
    pub(crate) fn bytes(slots: usize, experts: usize) -> usize {
        (3 * slots + experts + 1) * size_of::<u32>() + (slots + 1) * size_of::<usize>()
    }

    /// Sorts the slots with these expert ids by counting.
    ///
    /// # Errors
    /// If an id is no whole number below `experts`.
    pub(crate) fn group(&mut self, ids: &[f32], experts: usize) -> Result<()> {
        self.starts.clear();
        self.starts.resize(experts + 1, 0);
        for (slot, id) in ids.iter().enumerate() {
            let expert = *id as usize;
            if expert as f32 != *id || expert >= experts {
                return Err(Error::Step(format!("slot {slot} chooses expert {id} of {experts}")));
            }
            self.starts[expert + 1] += 1;
        }
        self.bounds.clear();
        self.experts.clear();
        for expert in 0..experts {
            let (start, count) = (self.starts[expert], self.starts[expert + 1]);
            self.starts[expert + 1] += start;
            for run in (start..start + count).step_by(ROWS) {
                self.bounds.push(run as usize);
                self.experts.push(expert as u32);
            }
        }
        self.bounds.push(ids.len());
        self.slots.clear();
        self.slots.resize(ids.len(), 0);
        self.positions.clear();
        for (slot, id) in ids.iter().enumerate() {
            let next = &mut self.starts[*id as usize];
            self.slots[*next as usize] = slot as u32;
            self.positions.push(*next);
            *next += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_sorted_by_expert_and_runs_are_no_longer_than_a_task() {
        let mut grouping = Grouping::default();
        grouping.group(&[2.0, 0.0, 2.0, 5.0, 0.0, 2.0], 6).unwrap();
        assert_eq!(grouping.slots, [1, 4, 0, 2, 5, 3]);
        assert_eq!(grouping.positions, [2, 0, 3, 5, 1, 4]);
        assert_eq!(grouping.bounds, [0, 2, 5, 6]);
        assert_eq!(grouping.experts, [0, 2, 5]);
        let ids = [vec![1.0; ROWS + 1], vec![0.0; 1]].concat();
        grouping.group(&ids, 2).unwrap();
        assert_eq!(grouping.bounds, [0, 1, ROWS + 1, ROWS + 2]);
        assert_eq!(grouping.experts, [0, 1, 1]);
    }

    #[test]
    fn ids_that_are_no_expert_are_refused() {
        for id in [-1.0, 0.5, 3.0, f32::NAN, f32::INFINITY] {
            assert!(Grouping::default().group(&[0.0, id], 3).is_err(), "{id}");
        }
    }

    #[test]
    fn grouping_within_the_room_reserved_moves_no_list() {
        let mut grouping = Grouping::default();
        grouping.reserve(8, 4);
        let before = (grouping.slots.as_ptr(), grouping.bounds.as_ptr(), grouping.experts.as_ptr());
        grouping.group(&[0.0, 1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 0.0], 4).unwrap();
        assert_eq!(before, (grouping.slots.as_ptr(), grouping.bounds.as_ptr(), grouping.experts.as_ptr()));
    }
}
