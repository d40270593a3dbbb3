//! Language models as programs: the architectures, and the checkpoints that their weights come from.
//!
//! [`Model::open`] reads a folder's configuration, picks the architecture, lets it record its
//! [program](program::Program) while every weight is looked up in the checkpoint, and checks that nothing is
//! left over. [`Model::load`] then hands the weights to any [`Device`](program::Device). Nothing here knows
//! which device that is.
//!
//! | module | what it holds |
//! |---|---|
//! | `arch` | one file an architecture, and the table of them |
//! | `block` | attention and feed-forward parts that architectures are made of |
//! | `rope` | rotary embeddings with their kinds of context scaling |
//! | `config` | `config.json`, and what the code relies on |
//! | `facts`, `generation` | what a model says of itself, and how its makers want it used |
//! | `checkpoint` | folders, shards, headers, names; GGUF files; reading and writing |
//! | `ahead` | work on several threads, its results in order |
//! | `shape`, `synthetic`, `published` | models without a checkpoint: to time, to test, to count |
//! | `tokenizer` | text to ids and back |
//! | [`chat`] | conversations as prompts, by a model's chat template |
#![deny(unsafe_code)]

mod ahead;
mod arch;
mod block;
pub mod chat;
mod checkpoint;
mod config;
mod error;
mod facts;
mod generation;
mod model;
mod published;
mod rope;
mod shape;
mod source;
mod synthetic;
mod tokenizer;

pub use checkpoint::{Unused, Why, layer_bits};
pub use error::{Error, Result};
pub use facts::{Facts, TensorFacts};
pub use generation::Recommended;
pub use model::{BuildOptions, Model, write_checkpoint};
pub use shape::Shape;
pub use tokenizer::{Specials, Tokenizer};
