//! A model that is loaded and ready to answer.

use std::io;
use std::ops::ControlFlow;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use engine::{Ending, Finish, Limits, Report, Request, Sampling, Scheduler, Settings, generate};
use model::{Model, Tokenizer};

use super::args::RunArgs;
use super::sampling::Use;
use crate::memory;
use crate::model_args;
use crate::profile::Profile;
use crate::report::note;

/// The model, whose cache is kept from one answer to the next.
pub(super) struct Session<'a> {
    scheduler: Scheduler,
    tokenizer: &'a Tokenizer,
    sampling: Sampling,
    ending: Ending,
    planned: memory::Memory,
    cancel: Arc<AtomicBool>,
    verbose: bool,
}

impl<'a> Session<'a> {
    /// Loads the model. `prompt` is the first one, if it is known already: one that does not fit is refused before
    /// anything is loaded.
    pub(super) fn start(
        args: &RunArgs,
        (model, tokenizer): (&Model, &'a Tokenizer),
        prompt: &[u32],
        usage: Use,
        profile: &Profile,
    ) -> Result<Session<'a>> {
        let sampling = args.sampling.resolve(&model.facts, usage)?;
        let ending = args.ending.resolve(&model.facts, usage)?;
        let device = profile.watch(model, args.device.open()?)?;
        let context = memory::context(model, &*device, args.ctx_size)?;
        if prompt.len() > context as usize {
            return Err(engine::Error::PromptTooLong { prompt: prompt.len(), context }.into());
        }
        if args.ctx_size.is_none() && context < model.facts.context {
            note(&format!(
                "memory allows {context} of the model's {} tokens of context",
                model.facts.context
            ));
        }
        let limits = Limits { deterministic: args.form.deterministic, ..Limits::one_sequence(context) };
        let planned = memory::plan(model, &*device, &limits)?;
        let scheduler = Scheduler::new(model_args::start(model, device, limits)?, Settings::default())?;
        let cancel = cancelled_by_ctrl_c()?;
        Ok(Session { scheduler, tokenizer, sampling, ending, planned, cancel, verbose: args.verbose })
    }

    /// Tokens that fit.
    pub(super) fn context(&self) -> u32 {
        self.scheduler.engine().limits().context
    }

    /// Answers a prompt, of which full pages that a text before began with are not computed again, and writes each
    /// piece of the answer as it comes.
    ///
    /// # Errors
    /// If the prompt is empty or does not fit, the engine fails, or nothing can be written.
    pub(super) fn answer(
        &mut self,
        prompt: &[u32],
        write: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<Report> {
        let tokenizer = self.tokenizer;
        let token_bytes = |token| tokenizer.token_bytes(token);
        let request = Request::new(prompt.to_vec(), self.sampling.clone(), self.ending.clone());
        let mut written = Ok(());
        let report = generate(&mut self.scheduler, request, &token_bytes, &self.cancel, &mut |event| {
            let text = event.text();
            if !text.is_empty() {
                written = write(text);
            }
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        written?;
        Ok(report)
    }

    /// Forgets that Ctrl-C was pressed before.
    pub(super) fn go_on(&self) {
        self.cancel.store(false, Ordering::Relaxed);
    }

    /// Says on stderr how an answer went, if the user wants to know.
    pub(super) fn describe(&self, report: &Report) {
        if !self.verbose {
            return;
        }
        let rate = |tokens: usize, time: Duration| {
            format!("{:.2} s, {:.1} tokens/s", time.as_secs_f64(), tokens as f64 / time.as_secs_f64())
        };
        let ended = match report.finish {
            Finish::Stop => "the model ended it",
            Finish::Length => "as long as asked for",
            Finish::Context => "the context is full",
            Finish::Cancelled => "cancelled",
            Finish::Deadline => "its time was up",
        };
        note(&format!("device: {}", self.scheduler.engine().device()));
        let cached = match report.cached_tokens {
            0 => String::new(),
            cached => format!("{cached} of them cached, "),
        };
        let new = report.prompt_tokens - report.cached_tokens;
        note(&format!("prompt: {} tokens, {cached}{}", report.prompt_tokens, rate(new, report.prompt_time)));
        // The first token comes with the prompt's last chunk.
        let later = report.tokens.saturating_sub(1);
        note(&format!("answer: {later} tokens in {} ({ended})", rate(later, report.answer_time)));
        if report.taken_back > 0 {
            note(&format!("taken back: {} tokens of banned texts", report.taken_back));
        }
        if self.sampling.temperature > 0.0 {
            note(&format!("seed: {}", self.sampling.seed));
        }
        let peak = memory::peak()
            .map_or_else(String::new, |peak| format!(", {} at most so far", memory::size(peak)));
        note(&format!("memory: {} planned{peak}", memory::size(self.planned.total)));
    }
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
