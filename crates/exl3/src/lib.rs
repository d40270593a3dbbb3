//! The EXL3 codec: trellis-coded language model weights, as bytes and as numbers.
//!
//! EXL3 stores a linear layer as one 16-bit *state* a weight, of which only K bits (1 to 8, or 1.5, 2.5,
//! 3.5) are new: along a tile of 16 x 16 weights the states are windows that slide over one ring of 256 K
//! bits. A *codebook* turns a state into a number by hashing it, so no table is stored. The numbers are the
//! weights in a rotated basis; Hadamard matrices and one scale a row and a column lead back:
//!
//! ```text
//! bytes --trellis--> states --codebook--> values --tile order--> inner weights
//! weight = diag(suh) . H . inner . H . diag(svh)        y = x . weight + bias
//! ```
//!
//! Rows are input features and columns are output features everywhere (`y[n] = sum over k of x[k] W[k, n]`),
//! the transpose of what `nn.Linear` stores.
//!
//! | module or type | what it knows |
//! |---|---|
//! | [`Bits`] | the legal widths, and how many bytes a tile has |
//! | [`Codebook`] | state to value, three kinds |
//! | [`trellis`] | tile bytes to states and back |
//! | [`tile`] | which weight of the 16 x 16 tile each state is |
//! | [`hadamard`] | the rotation |
//! | [`Linear`] | a checked view of one layer's tensors |
//! | [`Embedding`] | a checked view of a quantised token embedding table |
//! | [`signs`] | the packed signs of old files |
//! | [`kv`] | the codec of quantised key and value caches |
//!
//! The crate reads and writes nothing and owns no weights: views borrow byte slices of any alignment, such
//! as a memory-mapped file. It is written to be the definition of right; fast kernels are checked against it.
//!
//! ```
//! use exl3::{Bits, Codebook, Linear, LinearParts};
//! use half::f16;
//!
//! let bits: Bits = "3.5".parse()?;
//! // Every string of bytes is a valid trellis: here, one of an 128 x 128 layer (8 x 8 tiles).
//! let trellis = vec![0x5A; 8 * 8 * bits.tile_bytes()];
//! let linear = Linear::new(LinearParts {
//!     trellis: &trellis,
//!     shape: [8, 8, bits.tile_words()],
//!     suh: &[f16::ONE; 128],
//!     svh: &[f16::ONE; 128],
//!     bias: None,
//!     codebook: Codebook::Mul1,
//! })?;
//! assert_eq!(linear.bits(), bits);
//! assert_eq!(linear.apply(&[0.0; 128], 1), [0.0; 128]);
//! # Ok::<(), exl3::Error>(())
//! ```

#![forbid(unsafe_code)]

mod bits;
pub mod codebook;
mod embedding;
mod error;
pub mod hadamard;
pub mod kv;
mod linear;
pub mod signs;
pub mod tile;
pub mod trellis;

pub use bits::Bits;
pub use codebook::Codebook;
pub use embedding::{Embedding, EmbeddingParts};
pub use error::Error;
pub use linear::{Linear, LinearParts};
