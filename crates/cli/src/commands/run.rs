//! `run`: continues a text.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use engine::{Engine, Finish, Limits, Report, Request, Sampling, Text, generate};
use model::{Model, Specials, Tokenizer};

use super::Verdict;
use crate::memory;
use crate::model_args::{self, CacheArgs, DeviceArgs, ModelArgs};

/// Continues a text: prints the continuation alone on stdout, as it comes, and one newline at its end.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    model: ModelArgs,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    cache: CacheArgs,

    /// Tokens of prompt and answer that fit [default: what the model was made for, or what fits in memory]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx_size: Option<u32>,

    /// The text to continue [default: stdin]
    #[arg(long, short, value_name = "TEXT", conflicts_with = "file")]
    prompt: Option<String>,

    /// A file with the text to continue
    #[arg(long, short)]
    file: Option<PathBuf>,

    /// Read special tokens such as <|user|> in the prompt as plain characters
    #[arg(long)]
    raw: bool,

    /// The longest answer
    #[arg(long, short = 'n', value_name = "N", default_value_t = 256)]
    max_tokens: usize,

    #[command(flatten)]
    sampling: SamplingArgs,

    /// Say on stderr how fast it was and how much memory it took
    #[arg(long, short)]
    verbose: bool,
}

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, Args)]
struct SamplingArgs {
    /// 0 takes the best token every time; 1 draws as the model predicts
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = at_least_zero)]
    temperature: f32,

    /// Draw from the K best tokens only; 0 keeps all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: u32,

    /// Draw from the best tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = probability)]
    top_p: f32,

    /// Leave out tokens less probable than P times the best one
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    min_p: f32,

    /// Makes a drawn answer repeatable [default: another one each time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

const NOTES: &str = "\
Without --temperature the answer is greedy: the same text gives the same answer. One newline at the end of
a prompt from a file or from stdin is left out. Ctrl-C ends the answer; a second one kills the program.

Examples:
  billfish run models/tiny-glm -p \"Once upon a time\"
  billfish run models/tiny-glm -f story.txt -n 100 --temperature 0.8 --top-p 0.95 --seed 1
  echo \"The ship sailed\" | billfish run models/tiny-glm --kv-cache-dtype 8 --verbose";

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> Result<Verdict> {
    let text = args.text()?;
    let model = args.model.open(args.cache.kv_cache_dtype)?;
    let tokenizer =
        model.tokenizer.as_ref().context("the model has no tokenizer.json, and a text needs one")?;
    let prompt = tokens(&model, tokenizer, &text, if args.raw { Specials::Plain } else { Specials::Parse })?;
    let device = args.device.open()?;
    let context = memory::context(&model, &*device, args.ctx_size)?;
    if prompt.len() > context as usize {
        return Err(engine::Error::PromptTooLong { prompt: prompt.len(), context }.into());
    }
    if args.ctx_size.is_none() && context < model.facts.context {
        note(&format!("memory allows {context} of the model's {} tokens of context", model.facts.context));
    }
    let limits = Limits::one_sequence(context);
    let planned = memory::plan(&model, &*device, &limits)?;
    let mut engine = model_args::start(&model, device, limits)?;
    let sampling = args.sampling.resolve();
    let cancel = cancelled_by_ctrl_c()?;
    let request = Request {
        prompt: &prompt,
        sampling,
        stop: &model.facts.eos,
        max_tokens: args.max_tokens,
        cancel: &cancel,
    };
    let report = stream(&mut engine, &request, tokenizer)?;
    if args.verbose {
        describe(&engine, &report, &sampling, &planned);
    }
    Ok(Verdict::Good)
}

impl RunArgs {
    /// The text to continue.
    fn text(&self) -> Result<String> {
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
}

impl SamplingArgs {
    fn resolve(&self) -> Sampling {
        // Where no seed was given any number will do, as long as it is another one each time.
        let seed = self.seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            u64::from(now.map_or(0, |now| now.subsec_nanos())) ^ u64::from(process::id()) << 32
        });
        let SamplingArgs { temperature, top_k, top_p, min_p, .. } = *self;
        Sampling { temperature, top_k, top_p, min_p, seed }
    }
}

/// The prompt's tokens, with what the model wants before every text.
fn tokens(model: &Model, tokenizer: &Tokenizer, text: &str, specials: Specials) -> Result<Vec<u32>> {
    let mut tokens = tokenizer.prefix().to_vec();
    let body = tokenizer.encode(text, specials)?;
    // A text that brings these tokens along does not get them twice.
    if !body.starts_with(&tokens) {
        tokens.extend(body);
    } else {
        tokens = body;
    }
    if tokens.is_empty() {
        match model.facts.bos {
            Some(bos) => tokens.push(bos),
            None => {
                bail!("the prompt is empty and the model has no token that begins a text: give it some text")
            }
        }
    }
    Ok(tokens)
}

/// Prints the answer while it is drawn.
fn stream(engine: &mut Engine, request: &Request<'_>, tokenizer: &Tokenizer) -> Result<Report> {
    let mut stdout = io::stdout().lock();
    let mut decoder = Text::default();
    let mut piece = String::new();
    let mut written = Ok(());
    let report = generate(engine, request, &mut |token| {
        piece.clear();
        decoder.push(tokenizer.token_bytes(token), &mut piece);
        written = stdout.write_all(piece.as_bytes()).and_then(|()| stdout.flush());
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    piece.clear();
    decoder.finish(&mut piece);
    writeln!(stdout, "{piece}")?;
    Ok(report)
}

/// A flag that the first Ctrl-C sets; the second kills the program.
fn cancelled_by_ctrl_c() -> Result<Arc<AtomicBool>> {
    /// What a shell reports of a program that SIGINT ended.
    const KILLED: i32 = 130;
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            process::exit(KILLED);
        }
    })
    .context("cannot watch for Ctrl-C")?;
    Ok(cancel)
}

fn describe(engine: &Engine, report: &Report, sampling: &Sampling, planned: &memory::Memory) {
    let rate = |tokens: usize, time: Duration| {
        format!(
            "{tokens} tokens in {:.2} s, {:.1} tokens/s",
            time.as_secs_f64(),
            tokens as f64 / time.as_secs_f64()
        )
    };
    let ended = match report.finish {
        Finish::Stop => "the model ended it",
        Finish::Length => "as long as asked for",
        Finish::Context => "the context is full",
        Finish::Cancelled => "cancelled",
    };
    note(&format!("device: {}", engine.device()));
    note(&format!("prompt: {}", rate(report.prompt_tokens, report.prompt_time)));
    // The first token comes with the prompt's last chunk.
    note(&format!("answer: {} ({ended})", rate(report.tokens.saturating_sub(1), report.answer_time)));
    if sampling.temperature > 0.0 {
        note(&format!("seed: {}", sampling.seed));
    }
    let peak =
        memory::peak().map_or_else(String::new, |peak| format!(", {} at most so far", memory::size(peak)));
    note(&format!("memory: {} planned{peak}", memory::size(planned.total)));
}

#[expect(clippy::print_stderr, reason = "notes go to stderr")]
fn note(text: &str) {
    eprintln!("{text}");
}

fn at_least_zero(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("a number of at least 0 is needed".into()),
    }
}

fn probability(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err("a number from 0 to 1 is needed".into()),
    }
}
