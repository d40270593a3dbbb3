//! The lists of one step, kept from step to step so that a step allocates nothing.

use program::{Output, PAGE_TOKENS, PageId, Step, Token};

use crate::{Limits, Sequence};

/// What the next step is made of.
#[derive(Debug)]
pub(crate) struct Batch {
    tokens: Vec<Token>,
    positions: Vec<u32>,
    sequences: Vec<program::Sequence>,
    pages: Vec<PageId>,
    outputs: Vec<Output>,
}

impl Batch {
    /// Room for steps within `limits`.
    pub(crate) fn new(limits: &Limits) -> Batch {
        let [rows, outputs, sequences] =
            [limits.chunk, limits.outputs, limits.sequences].map(|count| count as usize);
        // Sequences share pages, so that their page tables can have more entries than there are pages.
        let pages = sequences * limits.context.div_ceil(PAGE_TOKENS) as usize;
        Batch {
            tokens: Vec::with_capacity(rows),
            positions: Vec::with_capacity(rows),
            sequences: Vec::with_capacity(sequences),
            pages: Vec::with_capacity(pages),
            outputs: Vec::with_capacity(outputs),
        }
    }

    /// Forgets the last step.
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.sequences.clear();
        self.pages.clear();
        self.outputs.clear();
    }

    /// Appends `rows` rows of a sequence, which has pages for them already; `outputs` counts rows from the first of
    /// them.
    pub(crate) fn push(&mut self, sequence: &Sequence, rows: u32, outputs: &[Output]) {
        let (first_row, first_page) = (self.tokens.len() as u32, self.pages.len() as u32);
        let places = sequence.cached..sequence.cached + rows;
        let tokens = &sequence.tokens[places.start as usize..places.end as usize];
        self.tokens.extend(tokens.iter().map(|id| Token::Id(*id)));
        self.positions.extend(places);
        self.pages.extend_from_slice(&sequence.pages);
        self.sequences.push(program::Sequence {
            rows: first_row..self.tokens.len() as u32,
            cached: sequence.cached,
            pages: first_page..self.pages.len() as u32,
            slot: sequence.slot.expect("a sequence in a step is open"),
        });
        self.outputs.extend(outputs.iter().map(|output| Output { row: first_row + output.row, ..*output }));
    }

    /// The lists as a device takes them.
    pub(crate) fn step(&self) -> Step<'_> {
        Step {
            tokens: &self.tokens,
            positions: &self.positions,
            sequences: &self.sequences,
            pages: &self.pages,
            outputs: &self.outputs,
        }
    }
}
