//! What is said when something went wrong.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Flags that contradict each other; reported as clap reports its own, with exit code 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Says one sentence on stderr and gives the exit code. A reader of our output that went away is no error.
#[expect(clippy::print_stderr, reason = "this is where errors are printed")]
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    let is_broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {}", sentence(error));
    if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// An error and its causes on one line. A cause that the message before it quotes already is left out.
fn sentence(error: &anyhow::Error) -> String {
    let mut sentence = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if sentence.is_empty() {
            sentence = cause;
        } else if !sentence.ends_with(&cause) {
            sentence = format!("{sentence}: {cause}");
        }
    }
    sentence.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn causes_are_joined_on_one_line_and_said_once() {
        let error = anyhow!("no such\nfile").context("config.json: no such\nfile").context("cannot open it");
        assert_eq!(sentence(&error), "cannot open it: config.json: no such file");
    }
}
