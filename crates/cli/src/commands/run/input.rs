//! What a user types in a conversation: text for the model, or a command.

use std::path::PathBuf;

use clap::ValueEnum;

use super::screen::Shown;

/// A complete input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing but white space.
    Nothing,
    /// Text for the model.
    Text(String),
    /// A command.
    Command(Command),
    /// Something that looks like a command, and why it is none.
    Wrong(String),
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Lists commands.
    Help,
    /// Forgets the conversation.
    Reset,
    /// Shows the system's message, or changes it.
    System(Option<String>),
    /// Writes the conversation to a file.
    Save(PathBuf),
    /// Prints the last reasoning, or chooses how it is shown.
    Reasoning(Option<Shown>),
    /// Leaves.
    Quit,
}

/// The commands' names, for completion.
pub(super) const NAMES: [&str; 6] = ["/help", "/quit", "/reasoning", "/reset", "/save", "/system"];

pub(super) const HELP: &str = "\
/help               this list
/reset              begin a new conversation; the system's message stays
/system [TEXT]      show what the model is to be, or change it; - leaves it out
/save FILE          write the conversation to FILE, as JSON
/reasoning          print what the model thought before its last answer
/reasoning HOW      show, fold or hide it from now on
/quit               leave; so does Ctrl-D

Ctrl-C stops the answer. A line that ends with \\, or text between \"\"\" and \"\"\", goes on over several lines.
A message that begins with / is typed with //.";

/// What marks both ends of a text of several lines.
const QUOTES: &str = "\"\"\"";

/// Whether a text is to be continued on the next line.
pub(super) fn is_open(typed: &str) -> bool {
    match typed.trim_start().strip_prefix(QUOTES) {
        Some(rest) => !rest.contains(QUOTES),
        None => typed.ends_with('\\'),
    }
}

/// Reads what was typed.
pub(super) fn read(typed: &str) -> Input {
    let trimmed = typed.trim();
    if let Some(rest) = trimmed.strip_prefix(QUOTES) {
        let text = rest.split(QUOTES).next().unwrap_or_default();
        let text = text.strip_prefix('\n').unwrap_or(text);
        let text = text.strip_suffix('\n').unwrap_or(text);
        return if text.trim().is_empty() { Input::Nothing } else { Input::Text(text.into()) };
    }
    if trimmed.is_empty() {
        return Input::Nothing;
    }
    match trimmed.strip_prefix('/') {
        Some(rest) if !rest.starts_with('/') => command(rest),
        Some(rest) => Input::Text(rest.replace("\\\n", "\n")),
        None => Input::Text(trimmed.replace("\\\n", "\n")),
    }
}

fn command(text: &str) -> Input {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let command = match (name, rest) {
        ("help" | "?", "") => Command::Help,
        ("reset" | "clear", "") => Command::Reset,
        ("quit" | "exit" | "bye", "") => Command::Quit,
        ("system", "") => Command::System(None),
        ("system", "-") => Command::System(Some(String::new())),
        ("system", text) => Command::System(Some(text.replace("\\\n", "\n"))),
        ("save", "") => return Input::Wrong("/save needs the name of a file".into()),
        ("save", file) => Command::Save(file.into()),
        ("reasoning", "") => Command::Reasoning(None),
        ("reasoning", how) => match Shown::from_str(how, true) {
            Ok(shown) => Command::Reasoning(Some(shown)),
            Err(_) => return Input::Wrong("/reasoning takes show, fold or hide".into()),
        },
        ("help" | "reset" | "clear" | "quit" | "exit" | "bye", _) => {
            return Input::Wrong(format!("/{name} takes nothing after it"));
        }
        _ => return Input::Wrong(format!("there is no command /{name}; /help lists those there are")),
    };
    Input::Command(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Input {
        Input::Text(text.into())
    }

    #[test]
    fn text_goes_on_over_lines_after_a_backslash_and_between_quotes() {
        for open in ["a\\", "\"\"\"a", "\"\"\"\na\nb", "a\\\nb\\"] {
            assert!(is_open(open), "{open}");
        }
        for closed in ["a", "a\\\nb", "\"\"\"a\nb\"\"\"", "/help"] {
            assert!(!is_open(closed), "{closed}");
        }
        assert_eq!(read("a\\\nb"), text("a\nb"));
        assert_eq!(read("\"\"\"\n  a\n/b\n\"\"\""), text("  a\n/b"));
        assert_eq!(read("\"\"\"a\"\"\""), text("a"));
    }

    #[test]
    fn commands_begin_with_a_slash_and_text_with_two() {
        assert_eq!(read("/reset"), Input::Command(Command::Reset));
        assert_eq!(read("/system Be brief."), Input::Command(Command::System(Some("Be brief.".into()))));
        assert_eq!(read("/save a b.json"), Input::Command(Command::Save("a b.json".into())));
        assert_eq!(read("/reasoning FOLD"), Input::Command(Command::Reasoning(Some(Shown::Fold))));
        assert_eq!(read("//etc is a folder"), text("/etc is a folder"));
        for wrong in ["/rest", "/save", "/reasoning loud", "/reset all"] {
            assert!(matches!(read(wrong), Input::Wrong(_)), "{wrong}");
        }
        assert_eq!(read(" \n "), Input::Nothing);
    }
}
