//! `verify`: a device against the reference, operation by operation.

use std::io::{self, Write};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use engine::Limits;
use model::Model;
use program::compare::{Comparison, Difference, OPERATION, Report};
use program::random::SplitMix64;
use program::reference::Reference;
use program::{CacheSize, Device, Format, Output, PAGE_TOKENS, PageId, Sequence, Size, Step, Token, Want};
use serde::Serialize;

use super::Verdict;
use crate::memory;
use crate::model_args::{self, DeviceArgs, ModelArgs};
use crate::profile::ProfileArgs;

/// Runs every operation of a model on the device from the reference's inputs, for a prompt of random
/// tokens and one token after it, and names the first operation that differs.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    model: ModelArgs,

    #[command(flatten)]
    device: DeviceArgs,

    /// What the device is compared with
    #[arg(long, value_enum)]
    against: Oracle,

    /// Tokens of the prompt; more than 64 take a second page of the cache
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,

    #[command(flatten)]
    profile: ProfileArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What can be right by definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Oracle {
    /// Plain loops in f32.
    Reference,
}

const NOTES: &str = "\
An operation differs when its result is off by more than 0.002 relative to the reference's (Frobenius norm over
all rows), or when a router chooses experts that are no near tie. The exit code is then 3.

Examples:
  billfish verify models/tiny-glm --against reference
  billfish verify --shape qwen3-30b-a3b --layers 2 --bits 3 --codebook mcg --against reference --json";

/// Where the random prompt begins; any number would do.
const SEED: u64 = 1;

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs) -> Result<Verdict> {
    let Oracle::Reference = args.against;
    let profile = args.profile.start();
    let model = args.model.open(Format::F16)?;
    let (tokens, context) = (args.tokens, model.facts.context);
    ensure!(
        tokens < context,
        "the model was made for {context} tokens of context, {tokens} and one after them are too many"
    );
    let mut device = profile.watch(&model, args.device.open()?)?;
    // Both devices hold the whole model.
    let limits = Limits::one_window(tokens + 1, tokens);
    let planned = [&*device, &Reference::new()].map(|device| memory::plan(&model, device, &limits));
    let planned = planned.into_iter().map(|plan| plan.map(|memory| memory.total)).sum::<Result<u64>>()?;
    memory::require(planned, "fewer --layers of a --shape take less")?;
    model_args::load(&model, &mut *device)?;
    let verification = Verification::of(&model, &mut *device, tokens)?;
    verification.print(args.json)?;
    profile.finish()?;
    Ok(verification.verdict())
}

/// What the two steps gave.
struct Verification {
    device: String,
    tokens: u32,
    /// Of the prompt, then of the token after it.
    steps: [Report; 2],
}

impl Verification {
    /// Compares a device that holds the model's weights with a reference that gets them now.
    fn of(model: &Model, device: &mut dyn Device, tokens: u32) -> Result<Verification> {
        let mut reference = Reference::new();
        model_args::load(model, &mut reference)?;
        let pages = (tokens + 1).div_ceil(PAGE_TOKENS);
        let caches = CacheSize { pages: pages + 1, slots: 1 };
        reference.reserve(&model.spec.caches, caches)?;
        device.reserve(&model.spec.caches, caches)?;
        let name = device.name().to_owned();
        let size = Size { tokens, outputs: tokens, sequences: 1 };
        let mut comparison = Comparison::new(&model.spec, size, &mut reference, device)?;
        let known = model.tokenizer.as_ref().map_or(model.facts.vocab, |tokenizer| tokenizer.vocab());
        let mut random = SplitMix64::new(SEED);
        let mut compare = |cached: u32, rows: u32| {
            let ids: Vec<Token> = (0..rows).map(|_| Token::Id(random.below(known))).collect();
            comparison.op_by_op(&Step {
                tokens: &ids,
                positions: &Vec::from_iter(cached..cached + rows),
                sequences: &[Sequence { rows: 0..rows, cached, pages: 0..pages, slot: 0 }],
                // The pages in descending order, so that a page table is needed.
                pages: &Vec::from_iter((1..=pages).rev().map(PageId)),
                outputs: &Vec::from_iter((0..rows).map(|row| Output { row, want: Want::Logits })),
            })
        };
        let steps = [compare(0, tokens)?, compare(tokens, 1)?];
        Ok(Verification { device: name, tokens, steps })
    }

    fn first_difference(&self) -> Option<&Difference> {
        self.steps.iter().find_map(|report| report.first_difference(OPERATION))
    }

    fn verdict(&self) -> Verdict {
        if self.first_difference().is_some() { Verdict::Mismatch } else { Verdict::Good }
    }

    fn print(&self, json: bool) -> Result<()> {
        let mut stdout = io::stdout().lock();
        if json {
            serde_json::to_writer_pretty(&mut stdout, &Summary::of(self)).map_err(io::Error::from)?;
            writeln!(stdout)?;
            return Ok(());
        }
        match self.first_difference() {
            Some(difference) => write!(stdout, "{} differs from the reference\n{difference}", self.device)?,
            None => {
                writeln!(stdout, "{} agrees with the reference in every operation", self.device)?;
                writeln!(stdout, "{:>12} {:>6}  largest error", "operation", "count")?;
                for Kind { op, count, largest_error } in Kind::all(self) {
                    writeln!(stdout, "{op:>12} {count:>6}  {largest_error:.1e}")?;
                }
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Summary<'a> {
    device: &'a str,
    against: &'static str,
    tokens: u32,
    tolerance: f64,
    agrees: bool,
    kinds: Vec<Kind>,
    first_difference: Option<Mismatch<'a>>,
}

/// All operations of one name.
#[derive(Serialize)]
struct Kind {
    op: &'static str,
    count: usize,
    largest_error: f64,
}

#[derive(Serialize)]
struct Mismatch<'a> {
    index: usize,
    op: &'static str,
    weights: &'a [String],
    error: f64,
    text: &'a str,
}

impl<'a> Summary<'a> {
    fn of(verification: &'a Verification) -> Summary<'a> {
        let mismatch = |difference: &'a Difference| Mismatch {
            index: difference.index,
            op: difference.op,
            weights: &difference.weights,
            error: difference.error,
            text: &difference.text,
        };
        Summary {
            device: &verification.device,
            against: "reference",
            tokens: verification.tokens,
            tolerance: OPERATION,
            agrees: verification.verdict() == Verdict::Good,
            kinds: Kind::all(verification),
            first_difference: verification.first_difference().map(mismatch),
        }
    }
}

impl Kind {
    /// In the order in which they first occur. An error that is no number is the largest.
    fn all(verification: &Verification) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Vec::new();
        for difference in verification.steps.iter().flat_map(|report| &report.differences) {
            let index = kinds.iter().position(|kind| kind.op == difference.op).unwrap_or_else(|| {
                kinds.push(Kind { op: difference.op, count: 0, largest_error: 0.0 });
                kinds.len() - 1
            });
            let kind = &mut kinds[index];
            kind.count += 1;
            if difference.error.is_nan() || difference.error > kind.largest_error {
                kind.largest_error = difference.error;
            }
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use model::BuildOptions;
    use program::{
        HostTensor, Memory, ModelSpec, Options, Outcome, Program, ProgramId, Ticket, Val, WeightId,
    };

    use super::*;

    /// A device that got another number than the model has in one weight.
    struct Planted {
        device: Reference,
        weight: WeightId,
    }

    impl Device for Planted {
        fn name(&self) -> &str {
            "planted"
        }

        fn plan(&self, model: &ModelSpec, options: &Options, caches: CacheSize) -> program::Result<Memory> {
            self.device.plan(model, options, caches)
        }

        fn upload(&mut self, id: WeightId, part: u32, mut tensor: HostTensor) -> program::Result<()> {
            if let HostTensor::Exl3 { svh, .. } = &mut tensor
                && (id, part) == (self.weight, 0)
            {
                svh[5] = -svh[5];
            }
            self.device.upload(id, part, tensor)
        }

        fn reserve(&mut self, caches: &[program::CacheSpec], size: CacheSize) -> program::Result<()> {
            self.device.reserve(caches, size)
        }

        fn prepare(&mut self, program: &Program, options: &Options) -> program::Result<ProgramId> {
            self.device.prepare(program, options)
        }

        fn submit(&mut self, program: ProgramId, step: &Step<'_>) -> program::Result<Ticket> {
            self.device.submit(program, step)
        }

        fn wait(&mut self, ticket: Ticket) -> program::Result<Outcome<'_>> {
            self.device.wait(ticket)
        }

        fn read(&mut self, program: ProgramId, value: Val, out: &mut [f32]) -> program::Result<()> {
            self.device.read(program, value, out)
        }

        fn write(&mut self, program: ProgramId, value: Val, rows: &[f32]) -> program::Result<()> {
            self.device.write(program, value, rows)
        }
    }

    #[test]
    fn one_wrong_sign_in_one_weight_is_a_mismatch_that_names_the_weight() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-glm");
        let model = Model::open(&folder, &BuildOptions { cache: Format::F16 }).unwrap();
        let name = "model.layers.2.self_attn.o_proj";
        let weight = model.spec.weights.iter().position(|weight| weight.parts[0].name == name).unwrap();
        let mut device = Planted { device: Reference::new(), weight: WeightId(weight as u32) };
        model.load(&mut device, &mut |_| {}).unwrap();
        let verification = Verification::of(&model, &mut device, 3).unwrap();
        assert_eq!(verification.verdict(), Verdict::Mismatch);
        let difference = verification.first_difference().unwrap();
        assert_eq!((difference.op, &difference.weights[..]), ("linear", &[name.to_owned()][..]));
        let summary = serde_json::to_value(Summary::of(&verification)).unwrap();
        assert_eq!(
            (&summary["agrees"], &summary["first_difference"]["op"]),
            (&false.into(), &"linear".into())
        );
    }
}
