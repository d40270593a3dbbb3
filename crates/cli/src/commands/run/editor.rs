//! The line that a user types: history, keys as in other shells, several lines.

use anyhow::{Context, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Helper};

use super::input;

/// An editor of lines, which remembers those typed before until the program ends.
pub(super) struct Editor(rustyline::Editor<Commands, DefaultHistory>);

/// What came of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// It was typed to its end.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
}

impl Editor {
    pub(super) fn new() -> Result<Editor> {
        let config = Config::builder().auto_add_history(true).history_ignore_space(true).build();
        let mut editor = rustyline::Editor::with_config(config).context("cannot use this terminal")?;
        editor.set_helper(Some(Commands));
        Ok(Editor(editor))
    }

    /// Reads a line, or several if the first is left open.
    pub(super) fn read(&mut self, prompt: &str) -> Result<Typed> {
        match self.0.readline(prompt) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(error).context("cannot read from the terminal"),
        }
    }
}

/// What the editor knows of commands and open lines.
struct Commands;

impl Completer for Commands {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let names = input::NAMES.iter().filter(|name| !typed.is_empty() && name.starts_with(typed));
        Ok((0, names.map(|name| (*name).to_owned()).collect()))
    }
}

impl Validator for Commands {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let open = input::is_open(context.input());
        Ok(if open { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Hinter for Commands {
    type Hint = String;
}

impl Highlighter for Commands {}

impl Helper for Commands {}
