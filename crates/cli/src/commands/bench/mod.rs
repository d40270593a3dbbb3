//! `bench`: how fast a model is, or one operation.

mod kernel;
mod output;
mod statistics;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::Verdict;

/// Measures speed and memory: of a model, of a model that is not here, or of one operation.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// One operation alone, over sizes
    Kernel(kernel::KernelArgs),
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> Result<Verdict> {
    match &args.part {
        Part::Kernel(args) => kernel::run(args),
    }
}
