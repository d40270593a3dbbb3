//! From what is typed as MODEL to where its files are: a path, or a model on the hub.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hub::{Event, Hub, ModelName, Settings};
use indicatif::ProgressBar;

use crate::progress;
use crate::report::{note, visible};

/// The variables that say where models are kept and how the hub is asked; for `--help`.
pub(crate) const VARIABLES: &str = "\
Models on the hub, and the variables that its other programs know too:
  HF_HOME         folder of cache and token [default: ~/.cache/huggingface]
  HF_HUB_CACHE    folder of the cache alone [default: hub in HF_HOME]
  HF_HUB_OFFLINE  1 uses what the cache has and sends nothing
  HF_TOKEN        access token, for private and gated models [default: the file token in HF_HOME]
  HF_ENDPOINT     address of the hub [default: https://huggingface.co]";

/// The hub and the cache that the environment names.
///
/// # Errors
/// If a variable cannot be used.
pub(crate) fn hub() -> Result<Hub> {
    let settings = Settings::from_variables(&|name| std::env::var(name).ok())?;
    Ok(Hub::new(settings)?)
}

/// Where the files of MODEL are. What exists is a path; anything else of the form `org/repo@revision` is a
/// model on the hub, and is downloaded as far as the cache lacks it. Ctrl-C may end the process meanwhile:
/// the next call goes on from there.
///
/// # Errors
/// If it is neither, or the hub's model cannot be had; the message says what was understood.
pub(crate) fn path(model: &Path) -> Result<PathBuf> {
    let typed = model.to_string_lossy();
    // What can only be a path is left to whoever opens it, and says there what is wrong with it.
    if model.exists() || typed.starts_with(['/', '.', '~']) || model.is_absolute() {
        return Ok(model.into());
    }
    let name = ModelName::parse(&typed).with_context(|| format!("there is no folder {typed}"))?;
    let understood = || format!("there is no folder {typed}, so it was read as the model {name} on the hub");
    hub().and_then(|hub| snapshot(&hub, &name)).with_context(understood)
}

/// The folder of a model on the hub, with a bar while it is downloaded.
///
/// # Errors
/// Those of [`Hub::snapshot`].
pub(crate) fn snapshot(hub: &Hub, name: &ModelName) -> Result<PathBuf> {
    let mut show = Show::new();
    let folder = hub.snapshot(name, &mut |event| {
        show.event(&event);
        ControlFlow::Continue(())
    });
    show.bar.finish_and_clear();
    Ok(folder?)
}

/// What is shown of a download.
struct Show {
    bar: ProgressBar,
    /// Bytes of the files before this one.
    before: u64,
    /// The file that is being downloaded, and its size.
    file: (String, u64),
    /// The file that another process was last seen to download.
    waiting: String,
}

impl Show {
    fn new() -> Show {
        Show { bar: ProgressBar::hidden(), before: 0, file: (String::new(), 0), waiting: String::new() }
    }

    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Planned { bytes, .. } => self.bar = progress::bytes("downloading", bytes),
            Event::File { file, bytes, present } => {
                // The same file again begins anew.
                if self.file.0 != file {
                    self.before += self.file.1;
                    self.file = (file.to_owned(), bytes);
                }
                self.bar.set_message(visible(file));
                self.bar.set_position(self.before + present);
            }
            Event::Received { bytes } => self.bar.inc(bytes),
            Event::Waiting { file } => {
                if self.waiting != file {
                    file.clone_into(&mut self.waiting);
                    self.note(&format!("another process is downloading {}, waiting for it", visible(file)));
                }
            }
            Event::Retrying { error, pause } => {
                self.note(&format!("{error}; trying again in {} s", pause.as_secs_f32()));
            }
            Event::Unreachable { error, path } => {
                self.note(&format!("{error}; using what is in the cache: {}", path.display()));
            }
        }
    }

    fn note(&self, text: &str) {
        self.bar.suspend(|| note(text));
    }
}
