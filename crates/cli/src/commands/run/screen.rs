//! How an answer looks: what the model thinks apart from what it says, and nothing that moves the cursor.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use clap::ValueEnum;
use engine::text::Voice;

use crate::report;

/// What the user sees of a model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Shown {
    /// All of it, dimmed, or between tags where there are no colours.
    Show,
    /// One line that says how long it took.
    Fold,
    /// Nothing.
    Hide,
}

impl Shown {
    /// All of it where a person looks, nothing where a program reads.
    pub(super) fn usual() -> Shown {
        if io::stdout().is_terminal() { Shown::Show } else { Shown::Hide }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Shown::Show => "shown",
            Shown::Fold => "folded",
            Shown::Hide => "hidden",
        })
    }
}

/// How text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) reasoning: Shown,
    surface: Surface,
}

/// What text is written on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surface {
    /// A file or another program: text as it is.
    File,
    /// A terminal without colours.
    Plain,
    /// A terminal with colours.
    Colours,
}

const DIM: &str = "\x1b[2m";
const NORMAL: &str = "\x1b[0m";

impl Screen {
    /// Colours are for terminals that can and users who want (<https://no-color.org>).
    pub(super) fn new(reasoning: Shown, stdout: &impl IsTerminal) -> Screen {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let surface = match stdout.is_terminal() {
            false => Surface::File,
            true if set("NO_COLOR") || dumb => Surface::Plain,
            true => Surface::Colours,
        };
        Screen { reasoning, surface }
    }

    /// Writes something that is no answer, dimmed where there are colours.
    pub(super) fn aside(&self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        match self.surface {
            Surface::Colours => write!(out, "{DIM}{text}{NORMAL}"),
            Surface::Plain | Surface::File => write!(out, "{text}"),
        }
    }

    /// A text of the model's as it may be written: a terminal would obey its control characters.
    fn harmless(&self, text: &str) -> String {
        let written = |character: char| match character {
            '\n' | '\t' => character.to_string(),
            _ => report::visible(character.encode_utf8(&mut [0; 4])),
        };
        match self.surface {
            Surface::File => text.to_owned(),
            Surface::Plain | Surface::Colours => text.chars().map(written).collect(),
        }
    }
}

/// An answer under way on the screen.
pub(super) struct Page<'a> {
    screen: Screen,
    out: &'a mut dyn Write,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Blank,
    Thinking { since: Instant },
    Saying,
}

impl<'a> Page<'a> {
    pub(super) fn new(screen: Screen, out: &'a mut dyn Write) -> Page<'a> {
        Page { screen, out, state: State::Blank }
    }

    /// Writes a piece.
    pub(super) fn write(&mut self, voice: Voice, text: &str) -> io::Result<()> {
        let text = self.screen.harmless(text);
        match (voice, self.state) {
            (Voice::Thinks, State::Blank) => {
                self.state = State::Thinking { since: Instant::now() };
                self.begin_thoughts()?;
            }
            (Voice::Says, State::Thinking { since }) => {
                self.state = State::Saying;
                self.end_thoughts(since)?;
            }
            (Voice::Says, State::Blank) => self.state = State::Saying,
            _ => {}
        }
        match voice {
            Voice::Says => write!(self.out, "{text}")?,
            Voice::Thinks if self.screen.reasoning == Shown::Show => self.screen.aside(self.out, &text)?,
            Voice::Thinks => {}
        }
        self.out.flush()
    }

    /// Ends the answer and its last line.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self.state {
            State::Thinking { since } => self.end_thoughts(since),
            State::Blank | State::Saying => writeln!(self.out),
        }?;
        self.out.flush()
    }

    fn begin_thoughts(&mut self) -> io::Result<()> {
        match (self.screen.reasoning, self.screen.surface) {
            (Shown::Show, Surface::Plain | Surface::File) => writeln!(self.out, "<think>"),
            (Shown::Fold, Surface::Plain | Surface::Colours) => self.screen.aside(self.out, "[thinking"),
            _ => Ok(()),
        }
    }

    fn end_thoughts(&mut self, since: Instant) -> io::Result<()> {
        match (self.screen.reasoning, self.screen.surface) {
            (Shown::Show, Surface::Colours) => write!(self.out, "\n\n"),
            (Shown::Show, Surface::Plain | Surface::File) => write!(self.out, "\n</think>\n\n"),
            (Shown::Fold, Surface::Plain | Surface::Colours) => {
                let text = format!(" for {:.1} s]", since.elapsed().as_secs_f64());
                self.screen.aside(self.out, &text)?;
                write!(self.out, "\n\n")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reasoning: Shown, surface: Surface) -> String {
        let mut out = Vec::new();
        let mut page = Page::new(Screen { reasoning, surface }, &mut out);
        for (voice, text) in [(Voice::Thinks, "Hm"), (Voice::Thinks, "."), (Voice::Says, "Yes\x1b[2J\n.")] {
            page.write(voice, text).unwrap();
        }
        page.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn reasoning_is_dimmed_or_between_tags() {
        assert_eq!(
            written(Shown::Show, Surface::Colours),
            "\x1b[2mHm\x1b[0m\x1b[2m.\x1b[0m\n\nYes\\u{1b}[2J\n.\n"
        );
        assert_eq!(written(Shown::Show, Surface::Plain), "<think>\nHm.\n</think>\n\nYes\\u{1b}[2J\n.\n");
    }

    #[test]
    fn folded_reasoning_is_one_line_and_hidden_reasoning_none() {
        assert_eq!(written(Shown::Fold, Surface::Plain), "[thinking for 0.0 s]\n\nYes\\u{1b}[2J\n.\n");
        assert_eq!(written(Shown::Hide, Surface::Plain), "Yes\\u{1b}[2J\n.\n");
    }

    #[test]
    fn a_file_gets_the_answer_as_it_is() {
        for reasoning in [Shown::Fold, Shown::Hide] {
            assert_eq!(written(reasoning, Surface::File), "Yes\x1b[2J\n.\n");
        }
    }
}
