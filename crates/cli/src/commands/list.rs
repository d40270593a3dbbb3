//! `list`: the models in the cache.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hub::CachedModel;
use serde::Serialize;

use super::Verdict;
use crate::fetch;
use crate::memory::size;
use crate::report::visible;

/// Shows the models from the hub that are on this machine, whatever program downloaded them.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const NOTES: &str = "\
Bits are those of a weight within the layers, on average over what is quantised there, by the files' headers.
Revisions of one model may share files; then each counts them. `billfish pull` completes a model that is not whole.

Examples:
  billfish list
  billfish list --json";

/// A model in the cache.
#[derive(Serialize)]
struct Listed {
    name: String,
    repository: String,
    revision: String,
    commit: String,
    path: PathBuf,
    bytes: u64,
    /// Of a weight; none if the model is not whole or its headers are damaged.
    bits: Option<f64>,
    /// Files that are still to be downloaded.
    missing: Vec<String>,
    /// What is wrong with the headers.
    problem: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &ListArgs) -> Result<Verdict> {
    let listed: Vec<Listed> = fetch::hub()?.cached()?.into_iter().map(Listed::from).collect();
    let mut stdout = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut stdout, &listed).map_err(io::Error::from)?;
        writeln!(stdout)?;
        return Ok(Verdict::Good);
    }
    let width = listed.iter().map(|model| model.name.chars().count()).max().unwrap_or(0);
    for model in listed {
        model.print(&mut stdout, width)?;
    }
    Ok(Verdict::Good)
}

impl From<CachedModel> for Listed {
    fn from(model: CachedModel) -> Listed {
        let CachedModel { name, commit, path, bytes, missing } = model;
        let bits = if missing.is_empty() { model::layer_bits(&path) } else { Ok(None) };
        let (bits, problem) = match bits {
            Ok(bits) => (bits, None),
            Err(error) => (None, Some(error.to_string())),
        };
        Listed {
            repository: name.repository().into(),
            revision: name.revision().into(),
            name: name.to_string(),
            commit,
            path,
            bytes,
            bits,
            missing,
            problem,
        }
    }
}

impl Listed {
    fn print(&self, out: &mut impl Write, width: usize) -> io::Result<()> {
        let bits = self.bits.map_or_else(|| "?".into(), |bits| format!("{bits:.2}"));
        let name = &self.name;
        write!(out, "{name:<width$}  {bits:>5} bits  {:>9}  ", size(self.bytes))?;
        writeln!(out, "{}", visible(&self.path.to_string_lossy()))?;
        if !self.missing.is_empty() {
            let all = self.missing.join(", ");
            writeln!(out, "  not whole: lacks {}; billfish pull {name} goes on", visible(&all))?;
        }
        if let Some(problem) = &self.problem {
            writeln!(out, "  damaged: {}", visible(problem))?;
        }
        Ok(())
    }
}
