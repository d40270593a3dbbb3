//! Checkpoints on disk: what opens, and what is refused with which sentence.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod broken_configs;
mod broken_files;
mod broken_tensors;
mod folder;
mod fuzz;
mod variants;
