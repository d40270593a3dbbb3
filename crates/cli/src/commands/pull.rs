//! `pull`: a model from the hub into the cache.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use hub::ModelName;

use super::Verdict;
use crate::fetch;

/// Downloads what the cache lacks of a model on the hub, and prints the folder of its files. Stopped at any
/// moment (Ctrl-C), the same command goes on from there.
#[derive(Debug, Args)]
#[command(after_help = notes())]
pub(crate) struct PullArgs {
    /// organisation/repository or organisation/repository@revision; models with several widths have one in each
    /// revision
    #[arg(value_parser = name)]
    model: ModelName,
}

const EXAMPLES: &str = "\
Examples:
  billfish pull org/model-exl3@4.0bpw
  billfish run org/model-exl3@4.0bpw -p \"Once upon a time\"";

fn notes() -> String {
    format!("{}\n\n{EXAMPLES}", fetch::VARIABLES)
}

/// Runs the command.
pub(crate) fn run(args: &PullArgs) -> Result<Verdict> {
    let folder = fetch::snapshot(&fetch::hub()?, &args.model)?;
    writeln!(io::stdout().lock(), "{}", folder.display())?;
    Ok(Verdict::Good)
}

fn name(text: &str) -> Result<ModelName, String> {
    ModelName::parse(text).map_err(|error| error.to_string())
}
