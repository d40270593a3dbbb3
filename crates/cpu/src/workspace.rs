//! What steps work in besides their values; made when programs are prepared.

use half::f16;
use program::{Result, Step};

use crate::arena::Memory;
use crate::kernels::grouping::Grouping;
use crate::needs::Needs;

/// Room for the largest step of all programs.
#[derive(Default)]
pub(crate) struct Workspace {
    needs: Needs,
    /// The kernels' work space that all threads share.
    pub(crate) shared: Memory,
    /// The threads' own.
    pub(crate) scratch: Memory,
    /// The token of each row.
    pub(crate) tokens: Vec<u32>,
    /// The place of each row in its sequence.
    pub(crate) places: Vec<u32>,
    /// The sequence of each row.
    pub(crate) sequences: Vec<u32>,
    /// The rows at which tasks of attention begin.
    pub(crate) bounds: Vec<usize>,
    pub(crate) grouping: Grouping,
    /// The experts of one row.
    pub(crate) chosen: Vec<u32>,
    /// A row of a table of codes.
    pub(crate) table_row: Vec<f16>,
}

impl Workspace {
    /// Makes it large enough for `needs` as well.
    pub(crate) fn grow(&mut self, needs: Needs, threads: usize) {
        let before = self.needs.work;
        self.needs = self.needs.or(needs);
        if self.needs.work != before {
            self.shared = Memory::zeroed(self.needs.shared_bytes());
            self.scratch = Memory::zeroed(self.needs.scratch_bytes(threads));
        }
        let Needs { rows, slots, experts, table, .. } = self.needs;
        for list in [&mut self.tokens, &mut self.places, &mut self.sequences] {
            list.reserve(rows.saturating_sub(list.len()));
        }
        self.bounds.reserve((rows + 1).saturating_sub(self.bounds.len()));
        self.grouping.reserve(slots, experts);
        self.chosen.resize(experts, 0);
        self.table_row.resize(table, f16::ZERO);
    }

    /// Takes note of the rows of a step; `token` gives the id that each row reads.
    pub(crate) fn begin(
        &mut self,
        step: &Step<'_>,
        mut token: impl FnMut(usize) -> Result<u32>,
    ) -> Result<()> {
        self.tokens.clear();
        self.places.clear();
        self.sequences.clear();
        for row in 0..step.tokens.len() {
            self.tokens.push(token(row)?);
        }
        for (index, sequence) in step.sequences.iter().enumerate() {
            for place in (sequence.cached..).take(sequence.rows.len()) {
                self.places.push(place);
                self.sequences.push(index as u32);
            }
        }
        Ok(())
    }
}
