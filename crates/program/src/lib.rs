//! The contract between models and machines: **a model is a function that writes a program; a device
//! is a place that runs programs.**
//!
//! A [`Program`] is a list of [`Op`]s over [`Val`]s, recorded by a [`Builder`] which checks every shape
//! and looks every weight up in a [`Catalogue`]. A [`Device`] holds weights, caches and scratch memory,
//! and runs a program once for each [`Step`]: a few rows of some sequences, prompt and decode rows
//! alike. Nothing else passes between the two sides; in particular a model never learns whether a step
//! is a prefill, and a device never learns which model it runs.
//!
//! | module | what it holds |
//! |---|---|
//! | [`op`] | the operations; the doc of each variant is its formula |
//! | [`routing`] | how a mixture of experts chooses |
//! | [`builder`] | records operations, checks shapes, names weights |
//! | [`weight`] | what a weight is, how it is stored, and the host's copy of one |
//! | [`cache`] | what a sequence remembers between steps |
//! | [`memory`] | where each value lies in scratch memory |
//! | [`step`] | what changes from one step to the next, and what comes back |
//! | [`answer`] | outcomes of devices that compute on the host |
//! | [`draw`] | how one token is drawn from a row of logits |
//! | [`device`] | the trait |
//! | [`mod@reference`] | the definition of right: a device in plain `f32` loops |
//! | [`conformance`] | the suite that any device must pass |
//! | [`compare`] | one program on two devices: which operation differs |
//! | [`text`] | a program as text: one line an operation |
//! | [`random`] | random numbers and weights that are the same everywhere |
#![forbid(unsafe_code)]

pub mod answer;
pub mod builder;
pub mod cache;
pub mod compare;
pub mod conformance;
pub mod device;
mod distance;
pub mod draw;
mod error;
pub mod memory;
pub mod op;
pub mod random;
pub mod reference;
pub mod routing;
pub mod step;
pub mod text;
pub mod weight;

pub use builder::{Builder, Catalogue};
pub use cache::{CacheId, CacheSpec, Format, Life, PAGE_TOKENS, PageId, Part};
pub use device::{CacheSize, Device, Memory, ModelSpec, Options, Program, ProgramId, Size, Ticket};
pub use draw::Draw;
pub use error::{Error, Result};
pub use op::{Activation, Cols, Glu, Gqa, Heads, Mla, Op, Pairing, Role, Rope, Rows, Val};
pub use routing::{Gates, Groups, Routing, Score};
pub use step::{Answer, Outcome, Output, Sequence, Step, Token, Want};
pub use weight::{Dtype, HostTensor, Kind, Storage, WeightId, WeightSpec};
