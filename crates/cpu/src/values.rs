//! Where the values of one program lie.

use std::ops::Range;

use program::memory::ScratchPlan;
use program::{Cols, Options, Program, Rows as Count, Val};

use crate::arena::{Loans, Memory};
use crate::kernels::Rows;

/// The values of one program, and how many rows they have in the step under way.
pub(crate) struct Values {
    memory: Memory,
    places: Places,
}

/// Where each value begins.
struct Places {
    /// By the value's id, in numbers.
    starts: Vec<Option<usize>>,
    tokens: usize,
    outputs: usize,
}

impl Places {
    fn rows(&self, val: Val) -> usize {
        match val.rows {
            Count::Tokens => self.tokens,
            Count::Outputs => self.outputs,
        }
    }

    fn place(&self, val: Val) -> Range<usize> {
        let start = self.starts.get(val.id as usize).copied().flatten();
        let start = start.expect("the operations of a program name values of its plan");
        start..start + self.rows(val) * val.cols as usize
    }
}

/// Bytes that the values of a program take.
pub(crate) fn bytes(program: &Program, options: &Options) -> usize {
    Memory::size(ScratchPlan::new(program, options).len() * size_of::<f32>())
}

impl Values {
    /// Lays out the values of a program.
    pub(crate) fn new(program: &Program, options: &Options) -> Values {
        let plan = ScratchPlan::new(program, options);
        let made = program.ops.iter().flat_map(|op| op.writes());
        let mut starts = Vec::new();
        for val in program.inputs.iter().copied().chain(made) {
            let id = val.id as usize;
            starts.resize(starts.len().max(id + 1), None);
            starts[id] = plan.start(val);
        }
        let memory = Memory::zeroed(plan.len() * size_of::<f32>());
        Values { memory, places: Places { starts, tokens: 0, outputs: 0 } }
    }

    /// Says how many rows the next step has.
    pub(crate) fn begin(&mut self, tokens: usize, outputs: usize) {
        (self.places.tokens, self.places.outputs) = (tokens, outputs);
    }

    /// The rows of a value in the last step.
    pub(crate) fn get(&self, val: Val) -> &[f32] {
        &self.memory.numbers()[self.places.place(val)]
    }

    /// Fills a value's memory from its first row on.
    pub(crate) fn set(&mut self, val: Val, rows: &[f32]) {
        let start = self.places.place(val).start;
        self.memory.numbers_mut()[start..start + rows.len()].copy_from_slice(rows);
    }

    /// The values, to be lent for one operation.
    pub(crate) fn lend(&mut self) -> Lent<'_> {
        Lent { loans: Loans::new(self.memory.numbers_mut()), places: &self.places }
    }
}

/// The values of a step, lent for one operation.
pub(crate) struct Lent<'a> {
    loans: Loans<'a>,
    places: &'a Places,
}

impl<'a> Lent<'a> {
    /// How many rows a value has.
    pub(crate) fn rows(&self, val: Val) -> usize {
        self.places.rows(val)
    }

    /// A value to be read.
    pub(crate) fn read(&mut self, val: Val) -> &'a [f32] {
        self.loans.read(self.places.place(val))
    }

    /// Columns of a value to be read.
    pub(crate) fn columns(&mut self, x: Cols) -> Rows<'a> {
        Rows::new(self.read(x.val), x.val.cols as usize, x.start as usize, x.len as usize)
    }

    /// A value to be written.
    pub(crate) fn write(&mut self, val: Val) -> &'a mut [f32] {
        self.loans.write(self.places.place(val))
    }
}
