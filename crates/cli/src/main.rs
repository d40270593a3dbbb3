//! The command `billfish`: the only room for flags, printed lines and exit codes.
//!
//! Text and JSON that somebody asked for go to stdout; bars, notes and errors go to stderr. Exit codes: 0
//! good, 1 an error (one sentence), 2 wrong usage, 3 a mismatch that `verify` was asked to find, or a bar that
//! `bench` was asked to reach.
#![forbid(unsafe_code)]

mod commands;
mod fetch;
mod machine;
mod memory;
mod model_args;
mod profile;
mod progress;
mod report;
mod traffic;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::commands::{Command, Verdict};

/// Runs language models with trellis-coded (EXL3) weights.
#[derive(Debug, Parser)]
#[command(name = "billfish", version, arg_required_else_help = true, after_help = notes())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  billfish run models/tiny-glm -p \"Once upon a time\"
  billfish inspect --shape glm-4.7-flash --bits 4 -c 8192
  billfish eval models/tiny-glm --text text.txt --window 512
  billfish bench --shape glm-4.7-flash --bits 4 -p 512 -n 64
  billfish verify models/tiny-glm --against reference
  billfish pull org/model-exl3@4.0bpw
  billfish list --json
  billfish completions bash > ~/.local/share/bash-completion/completions/billfish

MODEL is a folder or, where there is none of that name, organisation/repository@revision on the hub.";

fn notes() -> String {
    format!("{EXAMPLES}\n\n{}", fetch::VARIABLES)
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(spelled_out(std::env::args_os()));
    match cli.command.run() {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Mismatch) => ExitCode::from(3),
        Err(error) => report::exit_code(&error),
    }
}

/// Arguments as they are parsed. `-cq`, which users of other programs type, is the long option that it stands for: a
/// single dash with two letters would be read as `-c q`. `--profile memory` is one argument: the value of
/// `--profile` can be left out, so that no other word after it is taken for one.
fn spelled_out(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut spelled: Vec<OsString> = Vec::new();
    for argument in arguments {
        match spelled.last_mut() {
            Some(last) if *last == "--profile" && argument == "memory" => last.push("=memory"),
            _ if argument == "-cq" => spelled.push("--kv-cache-dtype".into()),
            _ => spelled.push(argument),
        }
    }
    spelled
}
