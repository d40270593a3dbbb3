//! The flags that all commands share: which model, on which device, with which cache.

use std::env;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use cpu::{Cpu, CpuOptions, SimdLevel};
use cuda::{Cuda, CudaOptions};
use engine::{Engine, Limits};
use exl3::{Bits, Codebook};
use model::{BuildOptions, Model, Shape};
use program::reference::Reference;
use program::{Device, Format};

use crate::report::Usage;
use crate::{fetch, machine, progress};

/// Which model.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Folder with config.json, tokenizer.json and safetensors files, or GGUF file, or org/repo@revision on the hub
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

    /// Experts of a layer of the random model that have numbers of their own; the others are these again and take
    /// no memory [default: all]
    #[arg(long, value_name = "N", conflicts_with = "model")]
    distinct_experts: Option<NonZero<u32>>,
}

/// On which device.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeviceArgs {
    /// Where to compute: cpu, cuda or cuda:N (an NVIDIA GPU, counted from 0), or reference (plain code that
    /// defines what is right; slow)
    #[arg(long, value_name = "cpu|cuda[:N]|reference", default_value = "cpu", value_parser = device_kind)]
    device: DeviceKind,

    /// NVIDIA's compiler library (libnvrtc) for the cuda device, or a folder that has it [default: looked for in
    /// CUDA_PATH, Python's packages, and where the loader looks]
    #[arg(long, value_name = "PATH")]
    nvrtc: Option<PathBuf>,

    /// Threads of the cpu device [default: one a core]
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Vector instructions of the cpu device; auto is the best that this processor has
    #[arg(long, value_enum, value_name = "auto|scalar|avx2|avx512|neon", hide_possible_values = true)]
    #[arg(default_value_t = Level::Auto)]
    simd: Level,
}

/// Which of the forms that differ by rounding may be used.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FormArgs {
    /// Keep to forms whose bits do not depend on how a text is cut into steps (--chunk, a kept cache): prompts
    /// are slower
    #[arg(long)]
    pub(crate) deterministic: bool,
}

/// How its caches store numbers.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CacheArgs {
    /// How the key-value cache stores numbers: f16, or 8, 6 or 4 bits (also -cq)
    #[arg(long, value_name = "f16|8|6|4", default_value = "f16", value_parser = cache_format)]
    pub(crate) kv_cache_dtype: Format,
}

/// A device to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    /// Vector code on all cores.
    Cpu,
    /// The NVIDIA GPU of this number.
    Cuda(u32),
    /// Plain loops in f32.
    Reference,
}

/// A level of vector instructions to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Level {
    Auto,
    Scalar,
    Avx2,
    Avx512,
    Neon,
}

impl From<Level> for Option<SimdLevel> {
    fn from(level: Level) -> Option<SimdLevel> {
        match level {
            Level::Auto => None,
            Level::Scalar => Some(SimdLevel::Scalar),
            Level::Avx2 => Some(SimdLevel::Avx2),
            Level::Avx512 => Some(SimdLevel::Avx512),
            Level::Neon => Some(SimdLevel::Neon),
        }
    }
}

impl ModelArgs {
    /// Opens the checkpoint, downloading it first if it is on the hub, or describes the random model. No weight
    /// is read.
    pub(crate) fn open(&self, cache: Format) -> Result<Model> {
        let options = BuildOptions { cache };
        match (&self.model, &self.shape) {
            (Some(model), _) => Ok(Model::open(&fetch::path(model)?, &options)?),
            (None, Some(shape)) => Ok(Model::synthetic(&self.shape(shape)?, &options)?),
            (None, None) => unreachable!("clap asks for one of the two"),
        }
    }

    /// What it is called in records: the shape, or the model as it was asked for.
    pub(crate) fn name(&self) -> String {
        let model = self.model.as_ref().map(|model| model.display().to_string());
        model.or_else(|| self.shape.clone()).unwrap_or_default()
    }

    /// Bits a weight and codebook of a random model; none of a checkpoint.
    pub(crate) fn made_up(&self) -> Option<(Bits, Codebook)> {
        self.shape.as_ref().map(|_| (self.bits, self.codebook))
    }

    /// How many experts of a layer of a random model have numbers of their own, if not all.
    pub(crate) fn distinct_experts(&self) -> Option<u32> {
        self.distinct_experts.map(NonZero::get)
    }

    fn shape(&self, name: &str) -> Result<Shape> {
        let mut shape = match name.ends_with(".json") {
            true => Shape::from_config(Path::new(name))?,
            false => Shape::named(name).map_err(|error| Usage(format!("--shape {error}")))?,
        };
        for bits in [self.bits, self.head_bits] {
            if !self.codebook.allows(bits) {
                let error = exl3::Error::CodebookBits { codebook: self.codebook, bits };
                return Err(Usage(error.to_string()).into());
            }
        }
        shape.bits = self.bits;
        shape.head_bits = self.head_bits;
        shape.codebook = self.codebook;
        shape.distinct_experts = self.distinct_experts;
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
            DeviceKind::Cpu => Box::new(Cpu::new(CpuOptions {
                threads: self.threads.map(usize::from),
                simd: self.simd.into(),
                ..CpuOptions::default()
            })?),
            DeviceKind::Cuda(gpu) => {
                let options = CudaOptions::from_variables(gpu, &|name| env::var_os(name));
                Box::new(Cuda::new(CudaOptions { nvrtc: self.nvrtc.clone(), ..options })?)
            }
            DeviceKind::Reference => Box::new(Reference::new()),
        })
    }

    /// Threads of this machine that it computes with.
    pub(crate) fn threads(&self) -> usize {
        match self.device {
            DeviceKind::Cpu => self.threads.map_or_else(machine::threads, usize::from),
            DeviceKind::Cuda(_) | DeviceKind::Reference => 1,
        }
    }

    /// Bytes a second that the device could read from its memory at most, measured now; none if it has memory
    /// of its own.
    pub(crate) fn read_bandwidth(&self) -> Option<f64> {
        match self.device {
            DeviceKind::Cpu | DeviceKind::Reference => Some(machine::read_bandwidth(self.threads())),
            DeviceKind::Cuda(_) => None,
        }
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

fn device_kind(text: &str) -> Result<DeviceKind, String> {
    match text.split_once(':') {
        None if text == "cpu" => Ok(DeviceKind::Cpu),
        None if text == "cuda" => Ok(DeviceKind::Cuda(0)),
        None if text == "reference" => Ok(DeviceKind::Reference),
        Some(("cuda", number)) => {
            number.parse().map(DeviceKind::Cuda).map_err(|_| format!("{number:?} is no number of a GPU"))
        }
        _ => Err("choose cpu, cuda, cuda:N or reference".into()),
    }
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
