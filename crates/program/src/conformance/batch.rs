//! Steps for tests.

use crate::random::SplitMix64;
use crate::{Output, PAGE_TOKENS, PageId, Sequence, Step, Token, Want};

/// The lists of a step, growing one sequence after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    pub(super) tokens: Vec<Token>,
    pub(super) positions: Vec<u32>,
    pub(super) sequences: Vec<Sequence>,
    pub(super) pages: Vec<PageId>,
    pub(super) outputs: Vec<Output>,
}

impl Batch {
    /// One sequence of `rows` rows with nothing cached, in pages from 1 on, tokens being all 0.
    pub(super) fn rows(rows: u32) -> Batch {
        Batch::default().and(&pages_for(rows), 0, &vec![0; rows as usize])
    }

    /// The batch with one more sequence: `cached` places of its `pages` are taken, `tokens` follow.
    pub(super) fn and(mut self, pages: &[PageId], cached: u32, tokens: &[u32]) -> Batch {
        let row = self.tokens.len() as u32;
        let page = self.pages.len() as u32;
        let end = cached + tokens.len() as u32;
        self.tokens.extend(tokens.iter().map(|token| Token::Id(*token)));
        self.positions.extend(cached..end);
        self.pages.extend_from_slice(pages);
        self.sequences.push(Sequence {
            rows: row..row + tokens.len() as u32,
            cached,
            pages: page..page + pages.len() as u32,
            slot: self.sequences.len() as u32,
        });
        self
    }

    /// The batch with one more output.
    pub(super) fn wanting(mut self, row: u32, want: Want) -> Batch {
        self.outputs.push(Output { row, want });
        self
    }

    /// The batch wanting the logits of all its rows.
    pub(super) fn wanting_all_logits(self) -> Batch {
        (0..self.tokens.len() as u32).fold(self, |batch, row| batch.wanting(row, Want::Logits))
    }

    /// One row as a step of its own: the rows of its sequence before it are cached by then.
    pub(super) fn row(&self, row: u32) -> Batch {
        let mut alone = Batch::default();
        for sequence in &self.sequences {
            if sequence.rows.contains(&row) {
                let pages = &self.pages[sequence.pages.start as usize..sequence.pages.end as usize];
                alone = alone.and(pages, sequence.cached + row - sequence.rows.start, &[0]);
                alone.sequences[0].slot = sequence.slot;
            }
        }
        alone.tokens[0] = self.tokens[row as usize];
        alone.positions[0] = self.positions[row as usize];
        let outputs = self.outputs.iter().filter(|output| output.row == row);
        outputs.fold(alone, |alone, output| alone.wanting(0, output.want))
    }

    /// Rows of outputs that are sorted by their row, put in the order of this batch's outputs.
    pub(super) fn in_order_of_outputs(&self, rows: &[f32], cols: usize) -> Vec<f32> {
        let mut order: Vec<usize> = (0..self.outputs.len()).collect();
        order.sort_by_key(|output| self.outputs[*output].row);
        let mut sorted = vec![0.0; rows.len()];
        for (output, row) in order.into_iter().zip(rows.chunks_exact(cols)) {
            sorted[output * cols..][..cols].copy_from_slice(row);
        }
        sorted
    }

    pub(super) fn step(&self) -> Step<'_> {
        Step {
            tokens: &self.tokens,
            positions: &self.positions,
            sequences: &self.sequences,
            pages: &self.pages,
            outputs: &self.outputs,
        }
    }
}

/// Pages from 1 on, enough for `places`.
pub(super) fn pages_for(places: u32) -> Vec<PageId> {
    (1..=places.div_ceil(PAGE_TOKENS)).map(PageId).collect()
}

/// The pages from 1 to `count` in random order.
pub(super) fn shuffled_pages(count: u32, seed: u64) -> Vec<PageId> {
    let mut pages: Vec<PageId> = (1..=count).map(PageId).collect();
    SplitMix64::new(seed).shuffle(&mut pages);
    pages
}
