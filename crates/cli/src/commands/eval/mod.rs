//! `eval`: perplexity on a text, and the divergence from a better model.

mod divergence;
mod documents;
mod windows;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use engine::score::{self, Window};
use engine::{Engine, Limits};
use indicatif::ProgressBar;
use model::{BuildOptions, Model};
use program::Device;
use serde::Serialize;

use self::divergence::{Divergence, Summary, log_softmax};
use super::Verdict;
use crate::model_args::{self, CacheArgs, DeviceArgs, FormArgs, ModelArgs};
use crate::profile::ProfileArgs;
use crate::report::Usage;
use crate::{fetch, memory, progress};

/// Measures how well a model predicts a text. The text is cut into windows; within one, each token is
/// predicted from those before it.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    model: ModelArgs,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    cache: CacheArgs,

    #[command(flatten)]
    form: FormArgs,

    /// The text; lines <|endoftext|> divide it into documents
    #[arg(long, value_name = "FILE")]
    text: PathBuf,

    /// Tokens read in one window
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    window: u32,

    /// Tokens from the beginning of one window to that of the next; where windows overlap only what is new
    /// counts [default: the window]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stride: Option<u32>,

    /// Feed a window through the cache so many rows at a time [default: in one go]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: Option<u32>,

    /// Predict at most so many tokens
    #[arg(long, value_name = "N", default_value_t = 204_800, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,

    /// Also tell how far the predictions are from those of this model, a folder or org/repo@revision
    #[arg(long, value_name = "BETTER")]
    against: Option<PathBuf>,

    #[command(flatten)]
    profile: ProfileArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const NOTES: &str = "\
Documents are stripped, encoded (special tokens as plain characters), and each is followed by the token
<|endoftext|>. Perplexity is exp of the mean negative log-probability over all predicted tokens. The divergence is
KL(BETTER, MODEL) in nats over the whole vocabulary, at every predicted token.

Examples:
  billfish eval models/tiny-glm --text text.txt --window 512 --json
  billfish eval models/tiny-glm --text text.txt --chunk 64 --kv-cache-dtype 4
  billfish eval models/tiny-glm --text text.txt --against source-model";

#[derive(Serialize)]
struct Evaluation {
    perplexity: f64,
    tokens: usize,
    window: u32,
    stride: u32,
    seconds: f64,
    #[serde(flatten)]
    divergence: Option<Summary>,
}

/// Runs the command.
pub(crate) fn run(args: &EvalArgs) -> Result<Verdict> {
    let stride = args.stride.unwrap_or(args.window);
    if stride > args.window {
        let what = format!("a stride of {stride} would leave tokens out between windows of {}", args.window);
        return Err(Usage(what).into());
    }
    let text = std::fs::read_to_string(&args.text).with_context(|| args.text.display().to_string())?;
    ensure!(!text.trim().is_empty(), "{}: holds nothing but white space", args.text.display());
    let profile = args.profile.start();
    let model = args.model.open(args.cache.kv_cache_dtype)?;
    let tokens = documents::tokens(&text, &model, args.max_tokens as usize)?;
    let predicted = tokens.len().saturating_sub(1).min(args.max_tokens as usize);
    ensure!(predicted > 0, "{}: a text of at least two tokens is needed", args.text.display());
    let mut engine = args.start(&model, profile.watch(&model, args.device.open()?)?)?;
    let mut better = args.start_better(&model, &text, &tokens)?;

    let start = Instant::now();
    let bar = progress::tokens("reading", predicted as u64);
    let mut totals = Totals::default();
    for window in windows::windows(predicted, args.window as usize, stride as usize) {
        let read = &tokens[window.inputs.start..=window.inputs.end];
        let read = Window { tokens: read, first: window.first };
        match &mut better {
            None => totals.add(&mut engine, read)?,
            Some(better) => totals.compare(&mut engine, better, read)?,
        }
        totals.show(&bar);
    }
    bar.finish_and_clear();
    let evaluation = Evaluation {
        perplexity: totals.perplexity(),
        tokens: totals.tokens,
        window: args.window,
        stride,
        seconds: start.elapsed().as_secs_f64(),
        divergence: better.is_some().then(|| totals.divergence.summary()),
    };
    ensure!(evaluation.perplexity.is_finite(), "the model gives no finite probability to some token");
    evaluation.print(args.json)?;
    profile.finish()?;
    Ok(Verdict::Good)
}

impl EvalArgs {
    /// An engine for one window at a time.
    fn start(&self, model: &Model, device: Box<dyn Device>) -> Result<Engine> {
        if self.window > model.facts.context {
            let context = model.facts.context;
            bail!(
                "the model was made for {context} tokens of context, a window of {} is too long",
                self.window
            );
        }
        let limits = Limits {
            deterministic: self.form.deterministic,
            ..Limits::one_window(self.window, self.chunk.unwrap_or(self.window))
        };
        let planned = memory::plan(model, &*device, &limits)?.total;
        memory::require(planned, "a smaller --chunk or --window takes less")?;
        model_args::start(model, device, limits)
    }

    /// An engine for the better model, if there is one; its cache is not compressed.
    fn start_better(&self, model: &Model, text: &str, tokens: &[u32]) -> Result<Option<Engine>> {
        let Some(folder) = &self.against else { return Ok(None) };
        let better = Model::open(&fetch::path(folder)?, &BuildOptions { cache: program::Format::F16 })?;
        let same = better.facts.vocab == model.facts.vocab
            && documents::tokens(text, &better, self.max_tokens as usize)? == tokens;
        ensure!(
            same,
            "{}: its tokens are not the model's, so that the two cannot be compared",
            folder.display()
        );
        self.start(&better, self.device.open()?).map(Some)
    }
}

/// Sums over all windows so far.
#[derive(Default)]
struct Totals {
    tokens: usize,
    log_probability: f64,
    divergence: Divergence,
}

impl Totals {
    /// Scores one window.
    fn add(&mut self, engine: &mut Engine, window: Window<'_>) -> Result<()> {
        Ok(score::log_probabilities(engine, window, &mut |score| self.add_token(f64::from(score)))?)
    }

    /// Scores one window and compares its rows of logits with the better model's.
    fn compare(&mut self, engine: &mut Engine, better: &mut Engine, window: Window<'_>) -> Result<()> {
        let mut wanted = Vec::new();
        score::logits(better, window, &mut |row| wanted.push(row.to_vec()))?;
        let mut rows = wanted.iter().zip(&window.tokens[window.first + 1..]);
        Ok(score::logits(engine, window, &mut |row| {
            if let Some((wanted, next)) = rows.next() {
                let row = log_softmax(row);
                self.divergence.add(&log_softmax(wanted), &row);
                self.add_token(row[*next as usize]);
            }
        })?)
    }

    fn add_token(&mut self, log_probability: f64) {
        self.tokens += 1;
        self.log_probability += log_probability;
    }

    fn perplexity(&self) -> f64 {
        (-self.log_probability / self.tokens as f64).exp()
    }

    fn show(&self, bar: &ProgressBar) {
        bar.set_position(self.tokens as u64);
        bar.set_message(format!("perplexity {:.4}", self.perplexity()));
    }
}

impl Evaluation {
    fn print(&self, json: bool) -> Result<()> {
        let mut stdout = io::stdout().lock();
        if json {
            serde_json::to_writer_pretty(&mut stdout, self).map_err(io::Error::from)?;
            writeln!(stdout)?;
            return Ok(());
        }
        writeln!(stdout, "perplexity {:.4} over {} tokens", self.perplexity, self.tokens)?;
        if let Some(Summary { kl_mean, kl_p95, kl_max, top1_agreement }) = self.divergence {
            writeln!(
                stdout,
                "KL divergence {kl_mean:.6} on average, {kl_p95:.6} at 95 %, {kl_max:.6} at most"
            )?;
            writeln!(stdout, "the same best token at {:.2} % of the positions", top1_agreement * 100.0)?;
        }
        Ok(())
    }
}
