//! The device for processors: every operation in vector code on the project's own threads.
//!
//! Weights stay where the host mapped them. Trellis codes are decoded on their way into a product and are
//! never expanded in memory; plain `f32`, `f16` and `bf16` weights are converted in registers. Activations are
//! `f32`, caches are halves or the codes of [`exl3::kv`]. Nothing is allocated in a step.
//!
//! Rows do not see each other: the bits of a row depend neither on the other rows of a step, nor on how a
//! sequence was cut into steps, nor on the number of threads (see `kernels`).
//!
//! | module | what it holds |
//! |---|---|
//! | `device` | the order of calls |
//! | `needs` | the memory that a program works in, known before any weight is read |
//! | `check` | whether a program fits the weights and caches of this device |
//! | `run` | one operation after another |
//! | `kernels` | one file an operation, or an idea that several share |
//! | `simd` | vector instructions behind tokens |
//! | `pool`, `cores` | the threads, and how many |
//! | `arena` | aligned memory, and views of it that do not overlap |
//! | `weights`, `cache` | tensors as uploaded; paged caches |
//! | `values`, `workspace` | what a step reads and writes; what it works in |
//!
//! ```
//! use cpu::{Cpu, CpuOptions, SimdLevel};
//! use program::Device;
//!
//! let cpu = Cpu::new(CpuOptions { threads: Some(1), simd: Some(SimdLevel::Scalar), ..CpuOptions::default() })?;
//! assert_eq!(cpu.name(), "cpu (scalar, 1 thread)");
//! # Ok::<(), program::Error>(())
//! ```
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

#[expect(unsafe_code, reason = "views of one block of memory that provably do not overlap")]
mod arena;
mod cache;
mod check;
pub mod cores;
mod device;
mod kernels;
mod needs;
#[expect(unsafe_code, reason = "threads share a job by a pointer that outlives it")]
mod pool;
mod run;
#[expect(unsafe_code, reason = "vector instructions, which a token proves the processor has")]
mod simd;
mod values;
mod weights;
mod workspace;

pub use device::{Cpu, CpuOptions};
pub use kernels::inputs::Activations;
pub use simd::SimdLevel;
