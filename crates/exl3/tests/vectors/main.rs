//! Vectors computed by a second implementation.
//!
//! The inputs are short pseudo-random sequences, the outputs were computed by a numpy program that shares no
//! code with this crate, and were reproduced by the format's own kernels (exllamav3) run under emulation.
//! Arrays are given by their hash.

mod caches;
mod embeddings;
mod linears;
mod sequence;
mod tables;
mod tiles;
