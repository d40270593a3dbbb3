//! GGUF files: a small one beside the same model in safetensors, and damaged ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod refusals;
mod same;
mod writer;
