//! Paged caches on the device, in f16.

use std::sync::Arc;

use program::{CacheId, CacheSize, CacheSpec, Format, Life, PAGE_TOKENS, Result};

use crate::driver::{Address, Buffer, Context, fault};

/// The caches of a model.
#[derive(Debug)]
pub(crate) struct Caches {
    specs: Vec<CacheSpec>,
    pub(crate) size: CacheSize,
    /// Where each part of each cache begins.
    places: Vec<Vec<usize>>,
    memory: Option<Buffer>,
}

impl Caches {
    /// No caches.
    pub(crate) fn none() -> Caches {
        Caches { specs: Vec::new(), size: CacheSize { pages: 0, slots: 0 }, places: Vec::new(), memory: None }
    }

    /// Caches of zeros.
    ///
    /// # Errors
    /// If one cannot be held here, or there is no memory for them.
    pub(crate) fn new(context: &Arc<Context>, specs: &[CacheSpec], size: CacheSize) -> Result<Caches> {
        let (places, bytes) = lay_out(specs, size)?;
        let memory = if bytes == 0 { None } else { Some(Buffer::zeros(context, bytes)?) };
        Ok(Caches { specs: specs.to_vec(), size, places, memory })
    }

    /// How many columns a part has, if it was reserved.
    pub(crate) fn cols(&self, id: CacheId, part: u32) -> Option<u32> {
        self.specs.get(id.0 as usize)?.parts.get(part as usize).map(|part| part.cols)
    }

    /// Where a part begins.
    ///
    /// # Panics
    /// If it was not reserved; programs are checked when they are prepared.
    pub(crate) fn address(&self, id: CacheId, part: u32) -> Address {
        let base = self.memory.as_ref().map_or(Address::NULL, Buffer::address);
        base + self.places[id.0 as usize][part as usize]
    }
}

/// Bytes of all caches.
///
/// # Errors
/// If one cannot be held here.
pub(crate) fn bytes(specs: &[CacheSpec], size: CacheSize) -> Result<u64> {
    lay_out(specs, size).map(|(_, bytes)| bytes as u64)
}

fn lay_out(specs: &[CacheSpec], size: CacheSize) -> Result<(Vec<Vec<usize>>, usize)> {
    let mut end = 0;
    let mut places = Vec::new();
    for spec in specs {
        if spec.life != Life::PerToken {
            return Err(fault("caches of one row a sequence cannot be held here yet"));
        }
        let mut of_parts = Vec::new();
        for part in &spec.parts {
            if part.format != Format::F16 {
                return Err(fault(format!("caches are f16 here; one of {} was asked for", part.format)));
            }
            of_parts.push(end);
            end +=
                (size.pages as usize * PAGE_TOKENS as usize * part.cols as usize * 2).next_multiple_of(256);
        }
        places.push(of_parts);
    }
    Ok((places, end))
}
