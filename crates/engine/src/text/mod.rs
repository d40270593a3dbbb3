//! Text from tokens that arrive one by one.
//!
//! | module | what it holds |
//! |---|---|
//! | `characters` | bytes to characters, never half a one |
//! | `watch` | strings that end an answer or must not be in it, wherever tokens end |
//! | `reasoning` | what a model thinks apart from what it says |

mod characters;
mod reasoning;
mod watch;

pub use characters::Text;
pub use reasoning::{Reasoning, Voice};
pub(crate) use watch::{Found, Stops, Watch};
