//! `run`: continues a text, answers a question, or holds a conversation.

mod args;
mod chat;
mod conversation;
mod editor;
mod input;
mod prompt;
mod sampling;
mod screen;
mod session;

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};
use model::Tokenizer;

pub(crate) use self::args::RunArgs;
use self::args::Template;
use self::conversation::Conversation;
use self::sampling::Use;
use self::screen::{Screen, Shown};
use self::session::Session;
use super::Verdict;
use crate::profile::Profile;
use crate::report::{self, Usage};

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> Result<Verdict> {
    let profile = args.profile.start();
    respond(args, &profile)?;
    profile.finish()?;
    Ok(Verdict::Good)
}

/// Prints what the model has to say.
fn respond(args: &RunArgs, profile: &Profile) -> Result<()> {
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let text = if terminal && !args.has_prompt() { None } else { Some(args.text()?) };
    let model = args.model.open(args.cache.kv_cache_dtype)?;
    let tokenizer =
        model.tokenizer.as_ref().context("the model has no tokenizer.json, and a text needs one")?;
    let Some(template) = args.template(&model, tokenizer)? else {
        return continue_text(args, text, (&model, tokenizer), profile);
    };
    let mut conversation = Conversation::new(template, tokenizer, args)?;
    let screen = Screen::new(args.reasoning.unwrap_or_else(Shown::usual), &io::stdout());
    match text {
        Some(text) => {
            let prompt = conversation.ask(text)?;
            let tokens = &prompt.tokens;
            let mut session = Session::start(args, (&model, tokenizer), tokens, Use::Answered, profile)?;
            let mut stdout = io::stdout().lock();
            chat::answer(&mut session, &mut conversation, &prompt, (screen, &mut stdout))?;
        }
        None => {
            let session = Session::start(args, (&model, tokenizer), &[], Use::Answered, profile)?;
            chat::talk(session, conversation, screen)?;
        }
    }
    Ok(())
}

/// Prints the continuation of a text alone, as it comes, and one newline at its end.
fn continue_text(
    args: &RunArgs,
    text: Option<String>,
    (model, tokenizer): (&model::Model, &Tokenizer),
    profile: &Profile,
) -> Result<()> {
    if let Some(flag) = args.chat_flag() {
        let what = match args.template {
            Template::None => "a text is continued without a chat template",
            _ => "the model has no chat template (--chat-template FILE gives it one)",
        };
        return Err(Usage(format!("{flag} is for conversations, and {what}")).into());
    }
    let text = match text {
        Some(text) => text,
        None => {
            report::note("type a text to continue, then Ctrl-D on a line of its own");
            args.text()?
        }
    };
    let prompt = prompt::tokens(model, tokenizer, &text, args.specials())?;
    let mut session = Session::start(args, (model, tokenizer), &prompt, Use::Continued, profile)?;
    let mut stdout = io::stdout().lock();
    let report = session
        .answer(&prompt, &mut |piece| stdout.write_all(piece.as_bytes()).and_then(|()| stdout.flush()))?;
    writeln!(stdout)?;
    session.describe(&report);
    Ok(())
}
