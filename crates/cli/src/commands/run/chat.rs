//! Turns of a conversation, one or as many as the user likes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use engine::text::{Reasoning, Voice};
use engine::{Finish, Report};
use model::chat::REASONING;

use super::conversation::{Conversation, Prompt};
use super::editor::{Editor, Typed};
use super::input::{self, Command, Input};
use super::screen::{Page, Screen};
use super::session::Session;
use crate::report;

/// What the model thought and said in one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    thoughts: String,
    answer: String,
}

/// Writes the answer to a prompt as it comes, and adds it to the conversation.
///
/// # Errors
/// If there is none. The conversation is then as it was before the question.
pub(super) fn answer(
    session: &mut Session<'_>,
    conversation: &mut Conversation<'_>,
    prompt: &Prompt,
    (screen, out): (Screen, &mut dyn Write),
) -> Result<(Turn, Report)> {
    let mut turn = Turn::default();
    let mut page = Page::new(screen, out);
    let mut reasoning = Reasoning::new(&REASONING, prompt.open_reasoning);
    let mut hand_on = |voice: Voice, text: &str| {
        match voice {
            Voice::Thinks => turn.thoughts.push_str(text),
            Voice::Says => turn.answer.push_str(text),
        }
        page.write(voice, text)
    };
    let mut written = Ok(());
    let mut last = Ok(());
    let report = session.answer(&prompt.tokens, &mut |piece| {
        reasoning.push(piece, &mut |voice, text| {
            if written.is_ok() {
                written = hand_on(voice, text);
            }
        });
        std::mem::replace(&mut written, Ok(()))
    });
    let report = report.inspect_err(|_| conversation.take_back())?;
    reasoning.finish(&mut |voice, text| last = hand_on(voice, text));
    last?;
    page.finish()?;
    match report.finish {
        // Stopped before anything came: the question was not asked.
        Finish::Cancelled if report.tokens == 0 => conversation.take_back(),
        _ => conversation.answered(&turn.thoughts, &turn.answer),
    }
    session.describe(&report);
    Ok((turn, report))
}

/// Holds a conversation in a terminal until the user leaves.
///
/// # Errors
/// If the terminal cannot be used. What goes wrong within a turn is said, and the conversation goes on.
pub(super) fn talk(session: Session<'_>, conversation: Conversation<'_>, screen: Screen) -> Result<()> {
    let mut chat = Chat { session, conversation, screen, last: Turn::default() };
    let mut editor = Editor::new()?;
    let banner =
        format!("{} tokens of context; /help lists commands, Ctrl-D leaves\n", chat.session.context());
    chat.aside(&banner)?;
    let mut interrupted = false;
    loop {
        match editor.read(">>> ")? {
            Typed::Line(line) => {
                interrupted = false;
                if chat.take(&line)? == Then::Leave {
                    return Ok(());
                }
            }
            Typed::Interrupted if interrupted => return Ok(()),
            Typed::Interrupted => {
                interrupted = true;
                chat.aside("Ctrl-C again, Ctrl-D or /quit leaves\n")?;
            }
            Typed::End => return Ok(()),
        }
    }
}

/// A conversation in a terminal.
struct Chat<'a> {
    session: Session<'a>,
    conversation: Conversation<'a>,
    screen: Screen,
    /// The last turn, whose reasoning can be printed later.
    last: Turn,
}

/// What is to be done after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Stay,
    Leave,
}

impl Chat<'_> {
    fn take(&mut self, line: &str) -> Result<Then> {
        match input::read(line) {
            Input::Nothing => {}
            Input::Wrong(what) => self.aside(&format!("{what}\n"))?,
            Input::Text(text) => {
                if let Err(error) = self.turn(text) {
                    // A terminal that is gone ends everything; all else is said.
                    if error.is::<io::Error>() {
                        return Err(error);
                    }
                    self.aside(&format!("error: {}\n", report::sentence(&error)))?;
                }
            }
            Input::Command(Command::Quit) => return Ok(Then::Leave),
            Input::Command(command) => {
                let said = self.obey(command);
                self.aside(&format!("{said}\n"))?;
            }
        }
        Ok(Then::Stay)
    }

    fn turn(&mut self, text: String) -> Result<()> {
        let prompt = self.conversation.ask(text)?;
        self.session.go_on();
        let mut stdout = io::stdout().lock();
        let answer = answer(&mut self.session, &mut self.conversation, &prompt, (self.screen, &mut stdout));
        drop(stdout);
        self.session.go_on();
        let (turn, report) = answer?;
        self.last = turn;
        match report.finish {
            Finish::Cancelled | Finish::Deadline => self.aside("[stopped]\n"),
            Finish::Context => {
                let context = self.session.context();
                self.aside(&format!("[the context of {context} tokens is full: /reset begins anew]\n"))
            }
            Finish::Stop | Finish::Length => Ok(()),
        }
    }

    /// Does what a command says, and gives what there is to say.
    fn obey(&mut self, command: Command) -> String {
        match command {
            Command::Help => input::HELP.into(),
            Command::Reset => {
                self.conversation.reset();
                self.last = Turn::default();
                "a new conversation".into()
            }
            Command::System(None) => match self.conversation.system() {
                Some(text) => text.into(),
                None => "there is no system's message; /system TEXT sets one".into(),
            },
            Command::System(Some(text)) => {
                self.conversation.set_system(&text);
                if text.is_empty() { "no system's message from now on" } else { "from now on" }.into()
            }
            Command::Save(file) => match save(&file, &self.conversation.to_json()) {
                Ok(()) => format!("{} messages in {}", self.conversation.length(), file.display()),
                Err(error) => format!("error: {}", report::sentence(&error)),
            },
            Command::Reasoning(None) if self.last.thoughts.is_empty() => {
                "the last answer came without reasoning".into()
            }
            Command::Reasoning(None) => self.last.thoughts.clone(),
            Command::Reasoning(Some(shown)) => {
                self.screen.reasoning = shown;
                format!("reasoning is {shown} from now on")
            }
            Command::Quit => String::new(),
        }
    }

    fn aside(&self, text: &str) -> Result<()> {
        let mut stdout = io::stdout().lock();
        self.screen.aside(&mut stdout, text)?;
        Ok(stdout.flush()?)
    }
}

/// Writes a file that must not be there yet.
fn save(file: &Path, text: &str) -> Result<()> {
    let written = File::create_new(file).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| file.display().to_string())
}
