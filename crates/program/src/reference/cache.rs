//! Cached rows, in `f32` whatever format the model asks for.

use super::weight::refuse;
use crate::{CacheId, CacheSize, CacheSpec, Life, PAGE_TOKENS, PageId, Result};

/// All caches of a model.
#[derive(Debug)]
pub(super) struct Caches {
    specs: Vec<CacheSpec>,
    /// For each cache the rows of each of its parts: page after page, or slot after slot.
    parts: Vec<Vec<Vec<f32>>>,
    /// How many pages and slots there are.
    pub(super) size: CacheSize,
}

impl Caches {
    /// Caches of zeros.
    pub(super) fn new(specs: &[CacheSpec], size: CacheSize) -> Caches {
        let zeros = |spec: &CacheSpec| {
            let rows = rows(spec, size);
            spec.parts.iter().map(|part| vec![0.0; rows * part.cols as usize]).collect()
        };
        Caches { specs: specs.to_vec(), parts: specs.iter().map(zeros).collect(), size }
    }

    /// Checks that part `part` of a per-token cache has `cols` columns.
    pub(super) fn check(&self, id: CacheId, part: u32, cols: u32) -> Result<()> {
        let spec = self.specs.get(id.0 as usize);
        match spec.and_then(|spec| spec.parts.get(part as usize).map(|part| (spec.life, part.cols))) {
            Some((Life::PerToken, found)) if found == cols => Ok(()),
            Some(found) => refuse(format!(
                "part {part} of cache {} is {found:?}, needed one row of {cols} a token",
                id.0
            )),
            None => refuse(format!("part {part} of cache {} was not reserved", id.0)),
        }
    }

    /// Writes the row of the place `place` of the sequence that has `pages`.
    pub(super) fn write(&mut self, (id, part): (CacheId, u32), pages: &[PageId], place: usize, row: &[f32]) {
        let start = index(pages, place) * row.len();
        self.parts[id.0 as usize][part as usize][start..start + row.len()].copy_from_slice(row);
    }

    /// The first `places` rows of the sequence that has `pages`, one after the other.
    pub(super) fn read(&self, (id, part): (CacheId, u32), pages: &[PageId], places: usize) -> Vec<f32> {
        let cols = self.specs[id.0 as usize].parts[part as usize].cols as usize;
        let rows = &self.parts[id.0 as usize][part as usize];
        (0..places).flat_map(|place| &rows[index(pages, place) * cols..][..cols]).copied().collect()
    }
}

/// Rows of each part of a cache.
pub(super) fn rows(spec: &CacheSpec, size: CacheSize) -> usize {
    match spec.life {
        Life::PerToken => size.pages as usize * PAGE_TOKENS as usize,
        Life::PerSequence => size.slots as usize,
    }
}

/// The row that a place of a sequence has among those of all pages.
fn index(pages: &[PageId], place: usize) -> usize {
    let page = PAGE_TOKENS as usize;
    pages[place / page].0 as usize * page + place % page
}
