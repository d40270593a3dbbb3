//! What changes from step to step, as the host uploads it: one block of words at a fixed place.
//!
//! ```text
//! counts (4) | tokens, positions, places, lengths, tables (one a token each) | rows (one an output) | wants (6 an output) | pages
//! ```
//!
//! Pages come last, so that only those of the step travel.

use program::{Error, PAGE_TOKENS, Result, Size, Step, Token, Want};

use crate::driver::Address;

/// Marks a token that was drawn for an output of the step before.
const PREVIOUS: u32 = 0x8000_0000;

/// Words of one output's wish.
const WANT_WORDS: usize = 6;

/// Where each list of a step begins, in words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    size: Size,
    /// The most pages of all sequences together.
    pages: usize,
}

/// Where kernels find the lists of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepAddresses {
    pub(crate) counts: Address,
    pub(crate) tokens: Address,
    pub(crate) positions: Address,
    pub(crate) places: Address,
    pub(crate) lengths: Address,
    pub(crate) tables: Address,
    pub(crate) rows: Address,
    pub(crate) wants: Address,
    pub(crate) pages: Address,
}

impl Layout {
    /// For steps of up to `size` over caches of `pages` pages.
    pub(crate) fn new(size: Size, pages: u32) -> Layout {
        // Sequences may share pages, but hardly all of them; a step that lists more is refused.
        let most = 1 << 24;
        Layout { size, pages: (size.sequences as usize * pages as usize).min(most) }
    }

    /// Where the list number `list` of those with one word a token begins.
    fn of_tokens(&self, list: usize) -> usize {
        4 + list * self.size.tokens as usize
    }

    fn of_outputs(&self) -> usize {
        self.of_tokens(5)
    }

    fn of_wants(&self) -> usize {
        self.of_outputs() + self.size.outputs as usize
    }

    fn of_pages(&self) -> usize {
        self.of_wants() + WANT_WORDS * self.size.outputs as usize
    }

    /// Words in all.
    pub(crate) fn words(&self) -> usize {
        self.of_pages() + self.pages
    }

    /// Where the lists of a block at `base` are.
    pub(crate) fn addresses(&self, base: Address) -> StepAddresses {
        let at = |word: usize| base + word * 4;
        StepAddresses {
            counts: base,
            tokens: at(self.of_tokens(0)),
            positions: at(self.of_tokens(1)),
            places: at(self.of_tokens(2)),
            lengths: at(self.of_tokens(3)),
            tables: at(self.of_tokens(4)),
            rows: at(self.of_outputs()),
            wants: at(self.of_wants()),
            pages: at(self.of_pages()),
        }
    }

    /// Writes a checked step into `words`; how many of them are to be uploaded. `parity` is 0 and 1 in turn, `room` how
    /// many outputs one half of the drawn tokens holds.
    ///
    /// # Errors
    /// If the step lists more pages than there is room for.
    pub(crate) fn fill(&self, words: &mut [u32], step: &Step<'_>, [parity, room]: [u32; 2]) -> Result<usize> {
        if step.pages.len() > self.pages {
            let what = format!("it lists {} pages, there is room for {}", step.pages.len(), self.pages);
            return Err(Error::Step(what));
        }
        words[..4].copy_from_slice(&[step.tokens.len() as u32, step.outputs.len() as u32, parity, room]);
        for (row, (token, position)) in step.tokens.iter().zip(step.positions).enumerate() {
            words[self.of_tokens(0) + row] = match token {
                Token::Id(id) => *id,
                Token::Previous(output) => PREVIOUS | output,
            };
            words[self.of_tokens(1) + row] = *position;
        }
        for sequence in step.sequences {
            let pages = &step.pages[sequence.pages.start as usize..sequence.pages.end as usize];
            for (row, place) in sequence.rows.clone().zip(sequence.cached..) {
                let page = pages[(place / PAGE_TOKENS) as usize];
                let row = row as usize;
                words[self.of_tokens(2) + row] = page.0 * PAGE_TOKENS + place % PAGE_TOKENS;
                words[self.of_tokens(3) + row] = place + 1;
                words[self.of_tokens(4) + row] = sequence.pages.start;
            }
        }
        for (index, output) in step.outputs.iter().enumerate() {
            words[self.of_outputs() + index] = output.row;
            let want = match output.want {
                Want::Choose(draw) => {
                    let floats = [draw.temperature, draw.top_p, draw.min_p, draw.random].map(f32::to_bits);
                    [0, draw.top_k, floats[0], floats[1], floats[2], floats[3]]
                }
                Want::Score(token) => [1, token, 0, 0, 0, 0],
                Want::Logits => [2, 0, 0, 0, 0, 0],
            };
            words[self.of_wants() + WANT_WORDS * index..][..WANT_WORDS].copy_from_slice(&want);
        }
        for (word, page) in words[self.of_pages()..].iter_mut().zip(step.pages) {
            *word = page.0;
        }
        Ok(self.of_pages() + step.pages.len())
    }
}

#[cfg(test)]
mod tests {
    use program::{Draw, Output, PageId, Sequence};

    use super::*;

    #[test]
    fn rows_find_their_places_pages_and_wishes() {
        let layout = Layout::new(Size { tokens: 4, outputs: 2, sequences: 2 }, 9);
        let step = Step {
            tokens: &[Token::Id(7), Token::Id(8), Token::Previous(1)],
            positions: &[63, 64, 5],
            sequences: &[
                Sequence { rows: 0..2, cached: 63, pages: 0..2, slot: 0 },
                Sequence { rows: 2..3, cached: 5, pages: 2..3, slot: 1 },
            ],
            pages: &[PageId(4), PageId(2), PageId(8)],
            outputs: &[Output { row: 2, want: Want::Choose(Draw::GREEDY) }],
        };
        let mut words = vec![99; layout.words()];
        assert_eq!(layout.fill(&mut words, &step, [1, 2]).unwrap(), 4 + 20 + 2 + 12 + 3);
        assert_eq!(words[..4], [3, 1, 1, 2]);
        assert_eq!(words[4..7], [7, 8, PREVIOUS | 1]);
        assert_eq!(words[8..11], [63, 64, 5]);
        assert_eq!(words[12..15], [4 * 64 + 63, 2 * 64, 8 * 64 + 5]);
        assert_eq!(words[16..19], [64, 65, 6]);
        assert_eq!(words[20..23], [0, 0, 2]);
        assert_eq!(words[24], 2);
        assert_eq!(words[26..32], [0, 0, 0, 1.0_f32.to_bits(), 0, 0]);
        assert_eq!(words[38..41], [4, 2, 8]);
    }
}
