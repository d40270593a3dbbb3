//! The values of one program, laid out by its scratch plan.

use crate::memory::ScratchPlan;
use crate::{Cols, Options, Program, Rows, Val};

/// How many rows the values of a step have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StepRows {
    pub(super) tokens: usize,
    pub(super) outputs: usize,
}

impl StepRows {
    /// The rows of a value.
    pub(super) fn of(self, val: Val) -> usize {
        match val.rows {
            Rows::Tokens => self.tokens,
            Rows::Outputs => self.outputs,
        }
    }
}

/// Scratch memory and where each value lies in it. As on every device, values that are never alive
/// together share memory, so that a wrong plan shows here too.
#[derive(Debug)]
pub(super) struct Values {
    plan: ScratchPlan,
    numbers: Vec<f32>,
    /// Rows of the step that runs or ran last.
    pub(super) rows: StepRows,
}

impl Values {
    pub(super) fn new(program: &Program, options: &Options) -> Values {
        let plan = ScratchPlan::new(program, options);
        let numbers = vec![0.0; plan.len()];
        Values { plan, numbers, rows: StepRows::default() }
    }

    /// All rows of a value.
    ///
    /// # Panics
    /// If the program does not have it: its operations are looked through when it is prepared.
    pub(super) fn get(&self, val: Val) -> &[f32] {
        let start = self.start(val);
        &self.numbers[start..start + self.rows.of(val) * val.cols as usize]
    }

    /// A run of columns of all rows.
    pub(super) fn columns(&self, cols: Cols) -> Vec<f32> {
        let (start, len) = (cols.start as usize, cols.len as usize);
        let rows = self.get(cols.val).chunks_exact(cols.val.cols as usize);
        rows.flat_map(|row| &row[start..start + len]).copied().collect()
    }

    /// Replaces the first rows of a value.
    pub(super) fn set(&mut self, val: Val, rows: &[f32]) {
        let start = self.start(val);
        self.numbers[start..start + rows.len()].copy_from_slice(rows);
    }

    fn start(&self, val: Val) -> usize {
        self.plan.start(val).unwrap_or_else(|| panic!("the program has no value {}", val.id))
    }
}
