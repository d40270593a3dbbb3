//! `completions`: what a shell has to know to complete commands and flags.

use std::io::{self, Write};

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Verdict;
use crate::Cli;

/// Prints a script that makes a shell complete the commands and flags of billfish.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  billfish completions bash > ~/.local/share/bash-completion/completions/billfish
  billfish completions zsh > \"${fpath[1]}/_billfish\"
  billfish completions fish > ~/.config/fish/completions/billfish.fish";

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs) -> Result<Verdict> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(Verdict::Good)
}
