//! `bench`: how fast a model is, or one operation.

mod bars;
mod kernel;
mod moe;
mod output;
mod statistics;
mod whole;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::Verdict;

/// Measures how fast a model reads prompts and writes answers, and what memory it takes: of a checkpoint, or of a
/// shape with random weights that need not be downloaded.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = NOTES)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    part: Option<Part>,

    #[command(flatten)]
    whole: whole::WholeArgs,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// One operation alone, over sizes
    Kernel(kernel::KernelArgs),
    /// A layer of experts alone, over batch sizes, with its memory
    Moe(moe::MoeArgs),
}

const NOTES: &str = "\
Tests are called pp512 (a prompt of 512 tokens is read), tg128 (128 tokens are written), tg128 b8 (for each of 8
sequences at once), pp512 @ d1024 (with 1024 tokens remembered before). Tokens a second are those of all sequences
together. The tokens are the same in every run. The roofline is what memory could deliver: bytes that a token has
to read, over the bandwidth measured with as many threads. docs/profiling.md says more.

Examples:
  billfish bench models/tiny-glm
  billfish bench --shape glm-4.7-flash --bits 4 -p 512 -n 64 -r 3 -o json
  billfish bench models/tiny-glm -p 0 -n 64 --batch 1,8 -d 0,512 --at-least tg64=500";

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> Result<Verdict> {
    match &args.part {
        None => whole::run(&args.whole),
        Some(Part::Kernel(args)) => kernel::run(args),
        Some(Part::Moe(args)) => moe::run(args),
    }
}
