//! `inspect`: a model's tensors, and what it takes in memory.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use engine::Limits;
use model::{Model, TensorFacts};
use serde::Serialize;

use super::Verdict;
use crate::memory::{self, Memory, size};
use crate::model_args::{CacheArgs, DeviceArgs, ModelArgs};

/// Shows a model's architecture, the bits, codebook and size of every tensor, what of the files is not
/// used, and what running it takes in memory. Reads headers only.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    model: ModelArgs,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    cache: CacheArgs,

    /// Context that memory is planned for [default: what the model was made for]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx_size: Option<u32>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
In the text, tensors that differ in a number of their name only share a line; the JSON has them one by one.

Examples:
  billfish inspect models/tiny-glm
  billfish inspect models/tiny-glm -c 1024 --kv-cache-dtype 8 --json
  billfish inspect --shape glm-4.7-flash --bits 4 -c 32768";

#[derive(Serialize)]
struct Inspection {
    architecture: String,
    parameters: u64,
    tensors: Vec<Tensor>,
    unused: Vec<Unused>,
    memory: Memory,
    context: u32,
}

#[derive(Serialize)]
struct Tensor {
    name: String,
    shape: Vec<u64>,
    bits: f32,
    codebook: &'static str,
    bytes: u64,
}

#[derive(Serialize)]
struct Unused {
    name: String,
    bytes: u64,
    why: String,
}

/// Runs the command.
pub(crate) fn run(args: &InspectArgs) -> Result<Verdict> {
    let model = args.model.open(args.cache.kv_cache_dtype)?;
    let context = args.ctx_size.unwrap_or(model.facts.context);
    let memory = memory::plan(&model, &*args.device.open()?, &Limits::one_sequence(context))?;
    let inspection = Inspection::of(&model, memory, context);
    let mut stdout = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut stdout, &inspection).map_err(io::Error::from)?;
        writeln!(stdout)?;
    } else {
        inspection.print(&mut stdout)?;
    }
    Ok(Verdict::Good)
}

impl Inspection {
    fn of(model: &Model, memory: Memory, context: u32) -> Inspection {
        let unused = model.unused().iter();
        Inspection {
            architecture: model.facts.architecture.clone(),
            parameters: model.spec.parameters(),
            tensors: model.tensors().into_iter().map(Tensor::from).collect(),
            unused: unused
                .map(|unused| Unused {
                    name: unused.name.clone(),
                    bytes: unused.bytes,
                    why: unused.why.to_string(),
                })
                .collect(),
            memory,
            context,
        }
    }

    fn print(&self, out: &mut impl Write) -> Result<()> {
        writeln!(out, "{}, {:.1} million parameters", self.architecture, self.parameters as f64 / 1e6)?;
        writeln!(out, "\n{:>5} {:<8} {:>12} {:>10}  tensor", "bits", "codebook", "shape", "bytes")?;
        for (name, count, tensor) in grouped(&self.tensors) {
            let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
            let times = if count > 1 { format!("  ({count} times)") } else { String::new() };
            writeln!(
                out,
                "{:>5} {:<8} {:>12} {:>10}  {name}{times}",
                tensor.bits,
                tensor.codebook,
                shape.join("x"),
                size(tensor.bytes * count)
            )?;
        }
        self.print_unused(out)?;
        let Memory { weights, cache, scratch, host, total } = self.memory;
        writeln!(out, "\nmemory for {} tokens of context", self.context)?;
        let rows =
            [("weights", weights), ("cache", cache), ("scratch", scratch), ("host", host), ("total", total)];
        for (what, bytes) in rows {
            writeln!(out, "{what:>8} {:>10}", size(bytes))?;
        }
        writeln!(out, "{} are available", size(memory::available()?))?;
        Ok(())
    }

    /// One line for each reason.
    fn print_unused(&self, out: &mut impl Write) -> io::Result<()> {
        let mut reasons: Vec<&str> = self.unused.iter().map(|unused| unused.why.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for reason in reasons {
            let of_reason = || self.unused.iter().filter(|unused| unused.why == reason);
            let bytes = of_reason().map(|unused| unused.bytes).sum();
            writeln!(out, "\nnot used: {} tensors, {} ({reason})", of_reason().count(), size(bytes))?;
        }
        Ok(())
    }
}

impl From<TensorFacts> for Tensor {
    fn from(facts: TensorFacts) -> Tensor {
        let TensorFacts { name, shape, bits, codebook, bytes } = facts;
        Tensor { name, shape, bits, codebook, bytes }
    }
}

/// Neighbours that differ in nothing but one number of their name (an expert's), with that number as `*`
/// and how many they are.
fn grouped(tensors: &[Tensor]) -> Vec<(String, u64, &Tensor)> {
    let mut groups: Vec<(String, u64, &Tensor)> = Vec::new();
    for tensor in tensors {
        let name = without_expert(&tensor.name);
        match groups.last_mut() {
            Some((last, count, first)) if *last == name && first.is_stored_as(tensor) => *count += 1,
            _ => groups.push((name, 1, tensor)),
        }
    }
    for (name, count, tensor) in &mut groups {
        if *count == 1 {
            name.clone_from(&tensor.name);
        }
    }
    groups
}

/// A name whose last number is replaced by `*`, if that number follows `experts`.
fn without_expert(name: &str) -> String {
    match name.split_once("experts.") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|character: char| character.is_ascii_digit());
            format!("{before}experts.*{rest}")
        }
        None => name.into(),
    }
}

impl Tensor {
    fn is_stored_as(&self, other: &Tensor) -> bool {
        (&self.shape, self.bits, self.codebook) == (&other.shape, other.bits, other.codebook)
    }
}
