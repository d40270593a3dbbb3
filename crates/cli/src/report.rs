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

/// Says something on stderr that is neither an error nor what was asked for.
#[expect(clippy::print_stderr, reason = "notes go to stderr")]
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// A text of others in which control characters are written out, since a terminal would obey them.
pub(crate) fn visible(text: &str) -> String {
    let escape = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escape).collect()
}

/// An error and its causes on one line, without control characters. A cause that the message before it quotes
/// already is left out.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut sentence = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if sentence.is_empty() {
            sentence = cause;
        } else if !sentence.ends_with(&cause) {
            sentence = format!("{sentence}: {cause}");
        }
    }
    visible(&sentence.split_whitespace().collect::<Vec<_>>().join(" "))
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

    #[test]
    fn control_characters_are_written_out_and_all_others_are_left() {
        assert_eq!(visible("a\u{1b}[2J\u{7f}\u{9b}\n\"é\\ 語"), r#"a\u{1b}[2J\u{7f}\u{9b}\n"é\ 語"#);
        assert_eq!(sentence(&anyhow!("tensor \u{1b}[31m")), r"tensor \u{1b}[31m");
    }
}
