//! The device for NVIDIA GPUs: Turing (compute capability 7.5) and newer.
//!
//! Kernels are CUDA C, compiled by NVIDIA's NVRTC when a program is prepared, for the GPU at hand and with the constants
//! of the model at hand, and kept on disk. Nothing of CUDA is needed to build this crate, and where a machine has none
//! [`Cuda::new`] says so.
//!
//! A program becomes a list of launches, once for each power of two of rows; the first step of a size captures its
//! list, and each step after is one upload (tokens, places, page tables, wishes) and one graph. Kernels read from that
//! upload how many rows there are. Memory never moves and none is taken by a step. Values are `f32`, caches `f16`;
//! trellis codes are decoded in registers on their way into the tensor cores and never expanded in memory.
//!
//! The same step gives the same bits each time: no sum depends on the order in which blocks finish. The bits of a row
//! may depend on how many rows its step has.
//!
//! | module | what it holds |
//! |---|---|
//! | `device` | the order of calls |
//! | `options` | how the device is opened |
//! | `prepared` | a program's memory and graphs |
//! | `fuse` | which operations run together |
//! | `lower` | from operations to launches |
//! | `launch`, `kernel` | a launch and its argument; which kernels there are and their constants |
//! | `kernels/` | CUDA C: a file a kernel, after `prelude.cu` |
//! | `compile` | the compiler library, and cubins on disk |
//! | `step` | what is uploaded for a step |
//! | `weights`, `caches`, `constants` | what lies in the device's memory |
//! | `check` | whether a program fits |
//! | `driver` | NVIDIA's driver: all that is unsafe |
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

mod caches;
mod check;
mod compile;
mod constants;
mod device;
#[expect(unsafe_code, reason = "NVIDIA's driver and compiler are C libraries")]
mod driver;
mod fuse;
mod kernel;
mod launch;
mod lower;
mod options;
mod prepared;
mod step;
mod weights;

pub use device::Cuda;
pub use options::CudaOptions;
