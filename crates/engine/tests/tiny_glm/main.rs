//! The engine with a real model: whole texts token for token as another program continues them, and the
//! same bits however a text is cut into steps.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "says which tests were skipped")]

mod continuations;
mod invariance;

use std::path::{Path, PathBuf};

use cpu::{Cpu, CpuOptions};
use engine::{Engine, Limits};
use exl3::kv::CacheBits;
use model::{BuildOptions, Model};
use program::reference::Reference;
use program::{Device, Format};

/// The device that runs fast.
fn cpu() -> Box<dyn Device> {
    Box::new(Cpu::new(CpuOptions::default()).unwrap())
}

/// The device that defines what is right.
fn reference() -> Box<dyn Device> {
    Box::new(Reference::new())
}

/// A cache whose numbers have so many bits.
fn quantised(bits: u8) -> Format {
    Format::Quantised(CacheBits::new(bits).unwrap())
}

/// The model that ships with the repository.
fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-glm")
}

/// An engine with the model of a folder.
fn engine(folder: &Path, cache: Format, mut device: Box<dyn Device>, limits: Limits) -> Engine {
    let model = Model::open(folder, &BuildOptions { cache }).unwrap();
    model.load(&mut *device, &mut |_| {}).unwrap();
    Engine::new(device, &model.spec, limits).unwrap()
}
