//! The lists of one step, kept from step to step so that a step allocates nothing once they have grown.

use program::{Output, PageId, Step, Token};

use crate::Part;

/// What the next step is made of.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    tokens: Vec<Token>,
    positions: Vec<u32>,
    sequences: Vec<program::Sequence>,
    pages: Vec<PageId>,
    outputs: Vec<Output>,
}

impl Batch {
    /// Forgets the last step.
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.sequences.clear();
        self.pages.clear();
        self.outputs.clear();
    }

    /// Appends the rows of one sequence, which has pages for them already.
    pub(crate) fn push(&mut self, part: &Part<'_>) {
        let sequence = &*part.sequence;
        let (first_row, first_page) = (self.tokens.len() as u32, self.pages.len() as u32);
        let places = sequence.cached..sequence.cached + part.rows;
        let tokens = &sequence.tokens[places.start as usize..places.end as usize];
        self.tokens.extend(tokens.iter().map(|id| Token::Id(*id)));
        self.positions.extend(places);
        self.pages.extend_from_slice(&sequence.pages);
        self.sequences.push(program::Sequence {
            rows: first_row..self.tokens.len() as u32,
            cached: sequence.cached,
            pages: first_page..self.pages.len() as u32,
            slot: sequence.slot,
        });
        let outputs = part.outputs.iter();
        self.outputs.extend(outputs.map(|output| Output { row: first_row + output.row, ..*output }));
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
