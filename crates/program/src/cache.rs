//! Caches: what a sequence remembers from one step to the next.

use std::fmt;

use exl3::kv::{self, GROUP};
use half::f16;

/// Tokens in one page of a [`Life::PerToken`] cache.
pub const PAGE_TOKENS: u32 = 64;

/// A cache of a model: its index in [`ModelSpec::caches`](crate::ModelSpec::caches).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheId(pub u32);

/// One page of every per-token cache of a model. Page 0 is scratch: a device may write padded rows
/// there, and no sequence owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub u32);

/// What one layer caches: how long a row lives, and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSpec {
    /// When a row is made and when it goes.
    pub life: Life,
    /// The parts of a row, each with its own width and number format.
    pub parts: Vec<Part>,
}

/// How long a cache row lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// One row a token, kept in pages of [`PAGE_TOKENS`].
    PerToken,
    /// One row a sequence, kept in a slot and overwritten by each step (recurrent state).
    PerSequence,
}

/// One part of a cache row, for instance the keys of all heads of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Numbers a row.
    pub cols: u32,
    /// How a device that saves memory stores them.
    pub format: Format,
}

/// How cached numbers are stored. A device that keeps everything exact (the reference) ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE 754 binary16.
    F16,
    /// The codec of [`kv`]: Hadamard-rotated groups of 32 with one f16 scale each.
    Quantised(kv::CacheBits),
}

impl Format {
    /// What comes back of rows that were cached: `rows` rounded as this format rounds them.
    ///
    /// # Panics
    /// If the format cuts rows into groups and `rows` is no multiple of their size.
    pub fn stored(self, rows: &[f32]) -> Vec<f32> {
        match self {
            Format::F16 => rows.iter().map(|x| f16::from_f32(*x).to_f32()).collect(),
            Format::Quantised(bits) => {
                let (groups, rest) = rows.as_chunks::<GROUP>();
                assert!(rest.is_empty(), "{} numbers in groups of {GROUP}", rows.len());
                let mut words = vec![0; bits.group_words()];
                let through = |group: &[f32; GROUP]| {
                    let scale = kv::encode(group, bits, &mut words);
                    let mut values = [0.0; GROUP];
                    kv::decode(&words, scale, bits, &mut values);
                    values
                };
                groups.iter().flat_map(through).collect()
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Format::F16 => formatter.write_str("f16"),
            Format::Quantised(bits) => write!(formatter, "{bits}-bit"),
        }
    }
}

impl Part {
    /// Bytes that one row takes.
    pub fn row_bytes(self) -> usize {
        match self.format {
            Format::F16 => self.cols as usize * 2,
            Format::Quantised(bits) => bits.row_bytes(self.cols as usize),
        }
    }
}

impl CacheSpec {
    /// Bytes that one row takes, all parts together.
    pub fn row_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.row_bytes()).sum()
    }
}
