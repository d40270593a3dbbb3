//! Bars that a measurement has to reach, for scripts: exit code 3 tells that one was missed.

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::output::Record;
use crate::commands::Verdict;
use crate::memory::size;
use crate::report::{Usage, note};

/// What has to be reached.
#[derive(Clone, Debug, Args)]
pub(super) struct BarsArgs {
    /// Exit with code 3 if a test gives fewer tokens a second: tg64=4.0,pp512=25
    #[arg(long, value_name = "TEST=TS", value_delimiter = ',')]
    at_least: Vec<String>,

    /// Exit with code 3 if the process takes more memory at its peak
    #[arg(long, value_name = "BYTES")]
    budget_bytes: Option<u64>,
}

/// The same, read.
pub(super) struct Bars {
    at_least: Vec<(String, f64)>,
    budget_bytes: Option<u64>,
}

impl BarsArgs {
    /// Reads the bars and checks that there are such tests.
    ///
    /// # Errors
    /// Wrong usage, if there are not.
    pub(super) fn parse(&self, tests: &[String]) -> Result<Bars> {
        let bar = |text: &String| {
            let (test, least) = text.rsplit_once('=')?;
            let least: f64 = least.parse().ok()?;
            tests.iter().any(|known| known == test).then(|| (test.to_owned(), least))
        };
        let read = |text: &String| {
            bar(text).ok_or_else(|| {
                let what =
                    format!("--at-least {text}: TEST=NUMBER is needed, of the tests {}", tests.join(", "));
                Usage(what).into()
            })
        };
        let at_least = self.at_least.iter().map(read).collect::<Result<_>>()?;
        Ok(Bars { at_least, budget_bytes: self.budget_bytes })
    }
}

impl Bars {
    /// Says on stderr which bars were missed.
    pub(super) fn verdict(&self, records: &[Record]) -> Result<Verdict> {
        let mut missed = Vec::new();
        for record in records {
            for (test, least) in &self.at_least {
                let found = record.get("avg_ts").and_then(Value::as_f64).unwrap_or(0.0);
                // A rate that is no number misses every bar.
                let reached = found >= *least;
                if record.get("test").and_then(Value::as_str) == Some(test) && !reached {
                    missed.push(format!("{test}: {found:.2} tokens/s, at least {least} were asked for"));
                }
            }
        }
        let peak = records.iter().filter_map(|record| record.get("peak_memory_bytes")?.as_u64()).max();
        missed.extend(over_budget(peak, self.budget_bytes)?);
        Ok(verdict(&missed))
    }
}

/// What to say if more memory was taken than allowed.
///
/// # Errors
/// If there is a budget, and the system does not tell what was taken.
pub(super) fn over_budget(peak: Option<u64>, budget: Option<u64>) -> Result<Option<String>> {
    let Some(budget) = budget else { return Ok(None) };
    let Some(peak) = peak else { anyhow::bail!("this system does not tell how much memory a process took") };
    Ok((peak > budget).then(|| format!("memory: {} at the peak, the budget is {}", size(peak), size(budget))))
}

/// Says what was missed.
pub(super) fn verdict(missed: &[String]) -> Verdict {
    missed.iter().for_each(|missed| note(&format!("missed: {missed}")));
    if missed.is_empty() { Verdict::Good } else { Verdict::Mismatch }
}
