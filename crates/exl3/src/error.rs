//! What can be wrong with bytes or text that claim to be EXL3.

use crate::{Bits, Codebook};

/// Why bytes, sizes or text cannot be EXL3.
///
/// The codec knows tensors by their role (`trellis`, `suh`, ...); whoever knows the file and the full tensor
/// name puts these before the message.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The last dimension of a trellis is the size of no known tile.
    #[error(
        "trellis: a tile of {words} 16-bit words has no known width; 16 words a bit are needed, \
         for 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7 or 8 bits"
    )]
    TileWords {
        /// The last dimension found.
        words: usize,
    },
    /// A text names no width of the format.
    #[error("\"{text}\" is no width of EXL3; choose 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7 or 8 bits")]
    UnknownBits {
        /// The text found.
        text: String,
    },
    /// A text names no width of a quantised cache.
    #[error("\"{text}\" is no width of a quantised cache; choose 2 to 8 bits")]
    UnknownCacheBits {
        /// The text found.
        text: String,
    },
    /// A text names no codebook.
    #[error("\"{text}\" is no codebook of EXL3; choose 3inst, mcg or mul1")]
    UnknownCodebook {
        /// The text found.
        text: String,
    },
    /// The width does not exist with this codebook.
    #[error("trellis: {bits} bits with codebook {codebook}, but half bits exist with mul1 only")]
    CodebookBits {
        /// The codebook that the markers name.
        codebook: Codebook,
        /// The width that the trellis shape gives.
        bits: Bits,
    },
    /// Two sizes that belong together differ.
    #[error(
        "{what}: found {found} {unit}, needed {needed}; the tensors do not belong together or are damaged"
    )]
    Size {
        /// The tensor's role, such as `suh`.
        what: &'static str,
        /// What is counted: bytes, values, words.
        unit: &'static str,
        /// The count found.
        found: usize,
        /// The count that the other sizes ask for.
        needed: usize,
    },
    /// A dimension is zero or no multiple of what the format asks for.
    #[error(
        "{what}: {found} is no positive multiple of {multiple}; EXL3 pads both sides of a layer, so this one was not written by it"
    )]
    Multiple {
        /// The dimension's name.
        what: &'static str,
        /// The dimension found.
        found: usize,
        /// What it has to be a multiple of.
        multiple: usize,
    },
    /// The sizes of a tensor multiply to more than memory can hold.
    #[error("{what}: the shape {shape:?} is larger than any memory; the file's header is damaged")]
    TooLarge {
        /// The tensor's role.
        what: &'static str,
        /// The shape found.
        shape: Vec<usize>,
    },
    /// A scale or bias is NaN or infinite.
    #[error(
        "{what}[{index}] is {value}; the file is damaged or was written from a broken run, fetch or quantise it again"
    )]
    NotFinite {
        /// The tensor's role.
        what: &'static str,
        /// Where in the tensor.
        index: usize,
        /// The value found.
        value: f32,
    },
    /// A sign of an embedding table is neither 1 nor -1.
    #[error("signs[{index}] is {value}, needed 1 or -1; the file is damaged, fetch or quantise it again")]
    NotASign {
        /// Where in the tensor.
        index: usize,
        /// The value found.
        value: f32,
    },
    /// The words of an embedding row cannot be cut into rings.
    #[error(
        "embedding trellis: a row of {words} 16-bit words is not {groups} rings of 1 + 16 K words \
         with K from 1 to 8; is the hidden size right?"
    )]
    EmbeddingRow {
        /// Words of a row, the last dimension of the table.
        words: usize,
        /// Rings that the hidden size asks for.
        groups: usize,
    },
    /// A token's row lies outside the table.
    #[error(
        "token {token} is outside the embedding table of {vocab} rows; the tokenizer is not this model's"
    )]
    Token {
        /// The row asked for.
        token: usize,
        /// Rows of the table.
        vocab: usize,
    },
}
