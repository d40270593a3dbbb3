//! The engine: **when** things run. It knows sequences, pages, slots and steps; it sees a device only
//! through [`program::Device`], and of a model only its caches and its trunk program.
//!
//! The life of a request: [`Engine::open`] gives a [`Sequence`] a slot; each [`Engine::step`] feeds some
//! of its tokens to the device, in chunks while there is a prompt and one by one after it, taking cache
//! pages as they are needed; a [`Reply`] draws tokens, makes text of them and knows when it is enough;
//! [`Engine::close`] gives everything back. [`generate()`] is that loop for one request, [`score`] the same
//! for text that is known already.
//!
//! | module | what it holds |
//! |---|---|
//! | [`engine`] | the device, the free pages and slots, and the step over several sequences |
//! | [`generate`](mod@generate) | one request: a prompt, then tokens until something ends it |
//! | [`reply`] | one answer under way: the next token, its text, whether it was the last |
//! | [`sampling`] | how a request wants its tokens drawn, in which order, and its random numbers |
//! | [`score`] | a window of known tokens: their log-probabilities or their logits |
//! | [`text`] | bytes to characters, strings looked for over tokens, reasoning apart from answers |
#![forbid(unsafe_code)]

mod batch;
pub mod engine;
mod error;
mod free_list;
pub mod generate;
pub mod reply;
pub mod sampling;
pub mod score;
mod sequence;
pub mod text;

pub use engine::{Engine, Limits, Part};
pub use error::{Error, Result};
pub use generate::{Finish, Report, Request, generate};
pub use reply::{Ending, Next, Reply};
pub use sampling::{Sampler, Sampling};
pub use sequence::Sequence;
pub use text::Text;
