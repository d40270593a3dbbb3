//! The flags of `run`.

use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use model::chat::ChatTemplate;
use model::{Model, Specials, Tokenizer};

use super::sampling::{EndingArgs, SamplingArgs};
use super::screen::Shown;
use crate::model_args::{CacheArgs, DeviceArgs, FormArgs, ModelArgs};
use crate::profile::ProfileArgs;
use crate::report::Usage;

/// Talks to a model, asks it one thing, or lets it continue a text.
///
/// A model with a chat template is talked to: without a prompt in a terminal as long as you like, with -p, -f or a
/// pipe for one answer. A model without one, or any with --raw, continues the text. The answer alone goes to stdout, as
/// it comes, with one newline at its end.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) model: ModelArgs,

    #[command(flatten)]
    pub(super) device: DeviceArgs,

    #[command(flatten)]
    pub(super) cache: CacheArgs,

    #[command(flatten)]
    pub(super) form: FormArgs,

    /// Tokens of prompt and answer that fit [default: what the model was made for, or what fits in memory]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) ctx_size: Option<u32>,

    /// What to ask, or the text to continue [default: stdin, or a conversation in a terminal]
    #[arg(long, short, value_name = "TEXT", conflicts_with = "file")]
    prompt: Option<String>,

    /// A file with it
    #[arg(long, short)]
    file: Option<PathBuf>,

    /// Continue the text as it is: no chat template, and special tokens such as <|user|> in it are plain characters
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    pub(super) profile: ProfileArgs,

    /// Say on stderr how fast it was and how much memory it took
    #[arg(long, short)]
    pub(super) verbose: bool,

    /// What the model is to be, before the first question
    #[arg(long, value_name = "TEXT", help_heading = "Conversation", conflicts_with = "raw")]
    pub(super) system: Option<String>,

    /// Ask the template for an answer without reasoning, by `enable_thinking`
    #[arg(long, help_heading = "Conversation", conflicts_with = "raw")]
    pub(super) no_thinking: bool,

    /// What of its reasoning you see: all (dimmed), one line, or nothing [default: show in a terminal, else hide]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Conversation", conflicts_with = "raw")]
    pub(super) reasoning: Option<Shown>,

    /// A Jinja file to use instead of the model's chat template; `none` continues the text, special tokens read
    #[arg(
        long = "chat-template",
        value_name = "FILE|none",
        default_value = "own",
        hide_default_value = true,
        value_parser = template,
        help_heading = "Conversation",
        conflicts_with = "raw"
    )]
    pub(super) template: Template,

    #[command(flatten)]
    pub(super) ending: EndingArgs,

    #[command(flatten)]
    pub(super) sampling: SamplingArgs,
}

/// Which chat template to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Template {
    /// The model's, if it has one.
    Own,
    /// That of a file.
    File(PathBuf),
    /// None.
    None,
}

const NOTES: &str = "\
In a conversation: /help lists commands, Ctrl-C stops the answer, Ctrl-D leaves. A line that ends with \\, or text
between \"\"\" and \"\"\", goes on over several lines.

How tokens are drawn: in a conversation as the model's generation_config.json recommends, or else at temperature 1;
a text is continued greedily. Flags go before both. The order is: logit bias; repetition, presence and frequency
penalties; DRY; temperature; top-n-sigma; typical; top-k; top-p; min-p; XTC. One --seed always gives the same answer.

One newline at the end of a prompt from a file or from stdin is left out. Ctrl-C ends the answer; a second one kills
the program.

Examples:
  billfish run models/tiny-glm -p \"Once upon a time\"
  billfish run models/tiny-glm -f story.txt -n 100 --temperature 0.8 --top-p 0.95 --seed 1
  echo \"The ship sailed\" | billfish run models/tiny-glm --kv-cache-dtype 8 --verbose
  billfish run path/to/chat-model --system \"Answer in one sentence.\"
  billfish run path/to/chat-model -p \"What is a trellis code?\" --no-thinking > answer.txt
  billfish run path/to/chat-model -p \"List three fish\" --stop \"4.\" --ban salmon --dry-multiplier 0.8";

impl RunArgs {
    /// Whether the command line says where the prompt is.
    pub(super) fn has_prompt(&self) -> bool {
        self.prompt.is_some() || self.file.is_some()
    }

    /// What to ask or to continue.
    pub(super) fn text(&self) -> Result<String> {
        if let Some(prompt) = &self.prompt {
            return Ok(prompt.clone());
        }
        let mut text = match &self.file {
            Some(path) => std::fs::read_to_string(path).with_context(|| path.display().to_string())?,
            None => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).context("cannot read the prompt from stdin")?;
                text
            }
        };
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }

    /// The chat template, or none if the text is to be continued.
    pub(super) fn template(&self, model: &Model, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        if self.raw {
            return Ok(None);
        }
        match (&self.template, model.folder()) {
            (Template::None, _) | (Template::Own, None) => Ok(None),
            (Template::Own, Some(folder)) => Ok(ChatTemplate::find(folder, tokenizer)?),
            (Template::File(file), Some(folder)) => Ok(Some(ChatTemplate::open(file, folder, tokenizer)?)),
            (Template::File(_), None) => {
                Err(Usage("a model made by --shape has no tokens that a chat template could use".into())
                    .into())
            }
        }
    }

    /// How added tokens that are written out in a text to be continued are read.
    pub(super) fn specials(&self) -> Specials {
        if self.raw { Specials::Plain } else { Specials::Parse }
    }

    /// A flag that only conversations have, if one was given.
    pub(super) fn chat_flag(&self) -> Option<&'static str> {
        let given = [
            ("--system", self.system.is_some()),
            ("--no-thinking", self.no_thinking),
            ("--reasoning", self.reasoning.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

fn template(text: &str) -> Result<Template, String> {
    Ok(match text {
        "own" => Template::Own,
        "none" => Template::None,
        file => Template::File(file.into()),
    })
}
