//! The engine: **when** things run. It knows sequences, pages, slots and steps; it sees a device only
//! through [`program::Device`], and of a model only its caches and its trunk program.
//!
//! The life of a request: [`Scheduler::submit`] puts its answers into the queue. When there is room one begins:
//! its [`Sequence`] gets a slot, the pages that hold the beginning of its prompt already, and new ones for the
//! rest. Each [`Scheduler::step`] feeds some rows of it to the device, a chunk of the prompt or the token drawn last;
//! a [`Reply`] draws tokens, makes text of them and knows when it is enough. What happens is told as [`Event`]s.
//! [`generate()`] is that loop for one request. [`score`] is for text that is known already: it feeds an
//! [`Engine`] itself, which is the device with its pages and slots and knows nothing of who comes first.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scheduler`] | whose rows go into the next step, and what comes of it |
//! | [`request`] | what is asked for, and what is told |
//! | [`reply`] | one answer under way: the next token, its text, whether it was the last |
//! | [`sampling`] | how a request wants its tokens drawn, in which order, and its random numbers |
//! | [`text`] | bytes to characters, strings looked for over tokens, reasoning apart from answers |
//! | [`generate`](mod@generate) | one request with nobody else about |
//! | [`score`] | a window of known tokens: their log-probabilities or their logits |
//! | [`engine`] | the device, its pages and slots, and the step over several sequences |
//! | `pages` | who owns a page, what it holds, which one is given up next |
//! | [`prefix`] | what a full page is called, in any process |
//! | `sharing` | what a sequence finds cached when it opens |
#![forbid(unsafe_code)]

mod batch;
pub mod engine;
mod error;
mod free_list;
pub mod generate;
mod log_probabilities;
mod pages;
pub mod prefix;
pub mod reply;
pub mod request;
pub mod sampling;
pub mod scheduler;
pub mod score;
mod sequence;
mod sharing;
pub mod text;

pub use engine::{Engine, Limits, Part};
pub use error::{Error, Result};
pub use generate::generate;
pub use reply::{Ending, Next, Reply};
pub use request::{Class, Event, Finish, LogProbabilities, Report, Request, RequestId, SampleId};
pub use sampling::{Sampler, Sampling};
pub use scheduler::{Scheduler, Settings};
pub use sequence::Sequence;
pub use text::Text;
