//! `--profile`: where a command's time or memory goes, by operation and by layer.
//!
//! A [`Watched`] device stands between a command and its device. It asks for the times of operations when a
//! program is prepared, and writes down what comes back; a device that is not watched does no such thing.

mod label;
mod ledger;
mod memory;
mod summary;
mod table;
mod times;
mod trace;
mod watched;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use clap::Args;
use model::Model;
use program::Device;
use serde::Serialize;

use self::ledger::Ledger;
use self::times::Times;
use self::watched::Watched;
use crate::report::note;

/// What is to be told.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Time every operation: tables on stderr, and a Chrome trace in a file [default: billfish-trace.json].
    /// --profile memory tells where memory goes instead [default: billfish-memory.json]; both can be asked for
    #[arg(
        long,
        value_name = "FILE|memory[:FILE]",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "billfish-trace.json"
    )]
    profile: Vec<Wanted>,
}

/// One kind of profile, and the file that takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Times(PathBuf),
    Memory(PathBuf),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        match text.split_once(':') {
            _ if text.is_empty() => Err("a file's name is needed".into()),
            _ if text == "memory" => Ok(Wanted::Memory("billfish-memory.json".into())),
            Some(("memory", file)) if !file.is_empty() => Ok(Wanted::Memory(file.into())),
            _ => Ok(Wanted::Times(text.into())),
        }
    }
}

/// A profile being made.
#[derive(Debug)]
pub(crate) struct Profile {
    wanted: Vec<Wanted>,
    log: Arc<Mutex<Log>>,
}

/// What has been written down so far.
#[derive(Debug, Default)]
struct Log {
    /// Of operations, if they are timed.
    times: Option<Times>,
    /// Of memory, if it is followed.
    ledger: Option<Ledger>,
}

impl ProfileArgs {
    /// Begins, before anything is opened.
    pub(crate) fn start(&self) -> Profile {
        let times = self.profile.iter().any(|wanted| matches!(wanted, Wanted::Times(_)));
        let memory = self.profile.iter().any(|wanted| matches!(wanted, Wanted::Memory(_)));
        let log = Log { times: times.then(Times::default), ledger: memory.then(Ledger::start) };
        Profile { wanted: self.profile.clone(), log: Arc::new(Mutex::new(log)) }
    }
}

impl Profile {
    /// The device with a watch on it, if a profile was asked for.
    pub(crate) fn watch(&self, model: &Model, device: Box<dyn Device>) -> Result<Box<dyn Device>> {
        if self.wanted.is_empty() {
            return Ok(device);
        }
        let mut log = locked(&self.log);
        if let Some(times) = &mut log.times {
            times.know(&model.spec, device.name());
        }
        if let Some(ledger) = &mut log.ledger {
            ledger.know(&model.spec, &*device)?;
        }
        Ok(Box::new(Watched::new(device, Arc::clone(&self.log))))
    }

    /// Prints the tables and writes the files.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut log = locked(&self.log);
        for wanted in &self.wanted {
            match wanted {
                Wanted::Times(path) => {
                    let Some(times) = &log.times else { continue };
                    let summary = summary::Summary::of(times);
                    summary.table().lines().for_each(note);
                    write(path, &trace::Trace::of(times, summary))?;
                }
                Wanted::Memory(path) => {
                    let Some(ledger) = &mut log.ledger else { continue };
                    ledger.end();
                    let report = memory::Report::of(ledger);
                    report.table().lines().for_each(note);
                    write(path, &report)?;
                }
            }
        }
        Ok(())
    }
}

fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let in_context = || format!("cannot write the profile {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(in_context)?);
    serde_json::to_writer(&mut file, value).map_err(std::io::Error::from).with_context(in_context)?;
    file.flush().with_context(in_context)?;
    note(&format!("the profile is in {}", path.display()));
    Ok(())
}

/// The log, even if a thread panicked that held it: it is told as far as it goes.
fn locked(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_read_from_the_value() {
        let read = |text: &str| text.parse::<Wanted>().unwrap();
        assert_eq!(read("memory"), Wanted::Memory("billfish-memory.json".into()));
        assert_eq!(read("memory:a.json"), Wanted::Memory("a.json".into()));
        assert_eq!(read("./memory"), Wanted::Times("./memory".into()));
        assert_eq!(read("C:trace.json"), Wanted::Times("C:trace.json".into()));
        assert!("".parse::<Wanted>().is_err());
    }
}
