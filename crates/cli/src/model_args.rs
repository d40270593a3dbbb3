//! The flags that all commands share: which model, on which device, with which cache.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use cpu::{Cpu, CpuOptions};
use engine::{Engine, Limits};
use exl3::{Bits, Codebook};
use model::{BuildOptions, Model, Shape};
use program::reference::Reference;
use program::{Device, Format};

use crate::progress;

/// Which model.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Folder with config.json, tokenizer.json and safetensors files
    #[arg(required_unless_present = "shape", conflicts_with = "shape")]
    model: Option<PathBuf>,

    /// Make a model of this shape with random weights instead: deepseek-v3, glm-4.5-air, glm-4.7-flash,
    /// llama-3.1-8b, llama-3.2-1b, minimax-m2, olmo-2-7b, qwen3-30b-a3b, qwen3-32b, or the path of a
    /// config.json
    #[arg(long, value_name = "NAME|config.json")]
    shape: Option<String>,

    /// Bits a weight of the random model: 1 to 8, or 1.5, 2.5, 3.5 with mul1
    #[arg(long, value_name = "K", default_value = "4", conflicts_with = "model")]
    bits: Bits,

    /// Bits a weight of the random model's head
    #[arg(long, value_name = "K", default_value = "6", conflicts_with = "model")]
    head_bits: Bits,

    /// Codebook of the random model: 3inst, mcg or mul1
    #[arg(long, default_value = "mul1", conflicts_with = "model")]
    codebook: Codebook,

    /// Layers of the random model [default: as the shape says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "model")]
    layers: Option<u32>,
}

/// On which device.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DeviceArgs {
    /// Where to compute: cpu, or reference (plain code that defines what is right; slow)
    #[arg(long, value_enum, default_value_t = DeviceKind::Cpu)]
    device: DeviceKind,

    /// Threads of the cpu device [default: one a core]
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// How its caches store numbers.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CacheArgs {
    /// How the key-value cache stores numbers: f16, or 8, 6 or 4 bits (also -cq)
    #[arg(long, value_name = "f16|8|6|4", default_value = "f16", value_parser = cache_format)]
    pub(crate) kv_cache_dtype: Format,
}

/// A device to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceKind {
    /// Vector code on all cores.
    Cpu,
    /// Plain loops in f32.
    Reference,
}

impl ModelArgs {
    /// Opens the checkpoint, or describes the random model. No weight is read.
    pub(crate) fn open(&self, cache: Format) -> Result<Model> {
        let options = BuildOptions { cache };
        match (&self.model, &self.shape) {
            (Some(folder), _) => Ok(Model::open(folder, &options)?),
            (None, Some(shape)) => Ok(Model::synthetic(&self.shape(shape)?, &options)?),
            (None, None) => unreachable!("clap asks for one of the two"),
        }
    }

    fn shape(&self, name: &str) -> Result<Shape> {
        let is_path = name.ends_with(".json");
        let mut shape = if is_path { Shape::from_config(Path::new(name)) } else { Shape::named(name) }?;
        shape.bits = self.bits;
        shape.head_bits = self.head_bits;
        shape.codebook = self.codebook;
        Ok(match self.layers {
            Some(layers) => shape.with_layers(layers),
            None => shape,
        })
    }
}

impl DeviceArgs {
    /// The device, empty.
    ///
    /// # Errors
    /// If the device cannot be had on this machine.
    pub(crate) fn open(&self) -> Result<Box<dyn Device>> {
        Ok(match self.device {
            DeviceKind::Cpu => {
                Box::new(Cpu::new(CpuOptions { threads: self.threads.map(usize::from), simd: None })?)
            }
            DeviceKind::Reference => Box::new(Reference::new()),
        })
    }
}

/// Loads a model into a device, with a bar.
pub(crate) fn load(model: &Model, device: &mut dyn Device) -> Result<()> {
    let bar = progress::bytes("loading", model.weight_bytes());
    model.load(device, &mut |done| bar.set_position(done))?;
    bar.finish_and_clear();
    Ok(())
}

/// Loads a model into a device and builds an engine around it.
pub(crate) fn start(model: &Model, mut device: Box<dyn Device>, limits: Limits) -> Result<Engine> {
    load(model, &mut *device)?;
    Engine::new(device, &model.spec, limits).context("cannot prepare the model")
}

fn cache_format(text: &str) -> Result<Format, String> {
    match text {
        "f16" => Ok(Format::F16),
        "8" | "6" | "4" => {
            text.parse().map(Format::Quantised).map_err(|error: exl3::Error| error.to_string())
        }
        _ => Err("choose f16, 8, 6 or 4".into()),
    }
}
