//! Appends rows to a part of a cache, each at its place in its sequence.
//!
//! One thread: a step writes few numbers beside those it reads. Traffic: 4 bytes a number and what the
//! format takes.

use program::{PAGE_TOKENS, Step};

use super::Rows;
use crate::cache::CachePart;
use crate::simd::Simd;

/// Writes all rows of the step.
pub(crate) fn cache_write<S: Simd>(simd: S, step: &Step<'_>, x: Rows<'_>, part: &mut CachePart) {
    simd.vectorize(
        #[inline(always)]
        || {
            for sequence in step.sequences {
                let pages = &step.pages[sequence.pages.start as usize..sequence.pages.end as usize];
                for (place, row) in (sequence.cached..).zip(sequence.rows.clone()) {
                    let (page, place) = (place / PAGE_TOKENS, place % PAGE_TOKENS);
                    part.write(simd, pages[page as usize], place as usize, x.row(row as usize));
                }
            }
        },
    );
}
