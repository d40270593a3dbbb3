//! One file a command.

mod bench;
mod completions;
mod eval;
mod inspect;
mod list;
mod pull;
mod run;
mod verify;

use anyhow::Result;
use clap::Subcommand;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk to a model, ask it one thing, or let it continue a text
    Run(Box<run::RunArgs>),
    /// Show a model's tensors and what it takes in memory
    Inspect(inspect::InspectArgs),
    /// Measure perplexity, and the divergence from a better model
    Eval(eval::EvalArgs),
    /// Measure speed and memory, of a model or of one operation
    Bench(Box<bench::BenchArgs>),
    /// Compare a device with the reference, operation by operation
    Verify(verify::VerifyArgs),
    /// Download a model from the hub
    Pull(pull::PullArgs),
    /// Show the models that were downloaded
    List(list::ListArgs),
    /// Print a shell's completions of commands and flags
    Completions(completions::CompletionsArgs),
}

/// How a command that ran to its end turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As it should.
    Good,
    /// Two things that should be equal are not, or a measurement missed a bar.
    Mismatch,
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<Verdict> {
        match self {
            Command::Run(args) => run::run(&args),
            Command::Inspect(args) => inspect::run(&args),
            Command::Eval(args) => eval::run(&args),
            Command::Bench(args) => bench::run(&args),
            Command::Verify(args) => verify::run(&args),
            Command::Pull(args) => pull::run(&args),
            Command::List(args) => list::run(&args),
            Command::Completions(args) => completions::run(&args),
        }
    }
}
