//! The reference device: every operation in plain `f32` loops, the definition of right.
//!
//! It shares no trick with the devices it is compared with. Weights become dense `f32` when they arrive:
//! codes through the whole table of 65,536 values, and the rotation as a product with the 128 x 128
//! matrix, without butterflies (but for rows of embedding tables, which are bit-exact only with them).
//! Caches hold `f32` whatever their format says. Latent attention is written out: all cached latents of a
//! sequence are projected up, and then it is ordinary attention. Sums of products run in 16 lanes of
//! `f32` that are added in `f64`, other sums in `f64`.
//!
//! | file | what it computes |
//! |---|---|
//! | `device` | the order of calls |
//! | `run` | one operation after another |
//! | `weight` | tensors as they arrive to dense numbers |
//! | `values`, `cache` | where values and cached rows lie |
//! | `linear` | products with matrices |
//! | `elementwise` | norms, rotary embedding, activations, sums |
//! | `attention` | grouped-query and latent attention |
//! | `experts` | the router's choice, and the experts themselves |

mod attention;
mod cache;
mod device;
mod elementwise;
mod experts;
mod linear;
mod run;
mod values;
mod weight;

pub use device::Reference;
pub(crate) use experts::{keys, stay, worths};
