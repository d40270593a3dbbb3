//! What can keep a model from being there.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{ModelName, Origin};

/// Why a model could not be fetched or found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is no name of a model.
    #[error(
        "\"{text}\" is no model on the hub: {why}; \
         write organisation/repository or organisation/repository@revision"
    )]
    Name {
        /// The text found.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No variable tells where models are kept.
    #[error("there is no home folder to keep models in; set HF_HOME to a folder")]
    NoCacheFolder,
    /// A setting cannot be used.
    #[error("the {what} \"{value}\" cannot be used: {why}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// Its value; never a token's.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The hub does not accept the token, or the token does not permit what was asked.
    #[error(
        "the hub refused the token from {origin} for {name} ({said}); \
         make one that may read it at {endpoint}/settings/tokens, or remove it if the model is public"
    )]
    Token {
        /// The model asked for.
        name: ModelName,
        /// Where the token came from.
        origin: Origin,
        /// The status, and the hub's own words if it had any.
        said: String,
        /// The hub.
        endpoint: String,
    },
    /// The model's owner asks that conditions be accepted first.
    #[error(
        "{name} is gated: accept its conditions at {endpoint}/{}, then use a token of that account ({})",
        name.repository(), sent(origin.as_ref())
    )]
    Gated {
        /// The model asked for.
        name: ModelName,
        /// Where the token came from, if one was sent.
        origin: Option<Origin>,
        /// The hub.
        endpoint: String,
    },
    /// There is no such repository, or it may not be seen.
    #[error(
        "{endpoint} has no model {}, or it is private; \
         check the spelling, or use a token that may read it ({})",
        name.repository(), sent(origin.as_ref())
    )]
    MissingRepository {
        /// The model asked for.
        name: ModelName,
        /// Where the token came from, if one was sent.
        origin: Option<Origin>,
        /// The hub.
        endpoint: String,
    },
    /// The repository has no such branch, tag or commit.
    #[error("{} has no revision \"{}\"; it has {}", name.repository(), name.revision(), listed(existing))]
    MissingRevision {
        /// The model asked for.
        name: ModelName,
        /// The branches, then the tags, that there are.
        existing: Vec<String>,
    },
    /// The revision holds no weights in safetensors files, or no configuration.
    #[error(
        "{} holds no model at revision \"{}\" (a config.json and .safetensors files are needed); \
         the repository has the revisions {}",
        name.repository(), name.revision(), listed(existing)
    )]
    NoModel {
        /// The model asked for.
        name: ModelName,
        /// The branches, then the tags, that there are.
        existing: Vec<String>,
    },
    /// The hub could not be reached, broke off, or is too busy.
    #[error("{address} could not be reached ({why}); check the connection")]
    Unreachable {
        /// What was asked for.
        address: String,
        /// What happened.
        why: String,
    },
    /// No safe connection could be made.
    #[error(
        "{address} cannot be trusted ({why}); check the machine's date and its certificates \
         (the package ca-certificates, or a file named by SSL_CERT_FILE)"
    )]
    Untrusted {
        /// What was asked for.
        address: String,
        /// What is wrong with the connection or with the machine's own certificates.
        why: String,
    },
    /// The hub declined a request for a reason of its own.
    #[error("{address} was refused: {said}")]
    Refused {
        /// What was asked for.
        address: String,
        /// The status, and the hub's own words if it had any.
        said: String,
    },
    /// An answer is not what a hub says.
    #[error("{address} does not answer as a hub does: {what}; is the endpoint right?")]
    Answer {
        /// What was asked for.
        address: String,
        /// What was found.
        what: String,
    },
    /// The disk has no room for what is missing.
    #[error(
        "{} are still to be downloaded and {} should stay free, but {} has only {} left; \
         free some space or set HF_HUB_CACHE to a folder on a larger disk",
        Size(*missing), Size(*keep_free), folder.display(), Size(*free)
    )]
    DiskTooSmall {
        /// Bytes that are not in the cache yet.
        missing: u64,
        /// Bytes that must stay free afterwards.
        keep_free: u64,
        /// Bytes free now.
        free: u64,
        /// The folder of the cache.
        folder: PathBuf,
    },
    /// What arrived is not the file that the hub lists; it was thrown away.
    #[error("the download of {file} is damaged ({what}) and was thrown away; try again")]
    Damaged {
        /// The file's path in the repository.
        file: String,
        /// What was found and what is needed.
        what: String,
    },
    /// The cache has nothing of this revision and the hub may not be asked.
    #[error(
        "{name} is not in the cache {}, which has of this repository: {}; fetch it once while online",
        cache.display(), listed(cached)
    )]
    NotCached {
        /// The model asked for.
        name: ModelName,
        /// The folder of the cache.
        cache: PathBuf,
        /// The branches and tags of this repository that the cache does have.
        cached: Vec<String>,
    },
    /// The cache has only a part of this revision and the hub may not be asked.
    #[error(
        "{name} is not whole in the cache: {} lacks {}; fetch it again while online",
        path.display(), listed(missing)
    )]
    Incomplete {
        /// The model asked for.
        name: ModelName,
        /// The snapshot's folder.
        path: PathBuf,
        /// The files that are not there.
        missing: Vec<String>,
    },
    /// The watcher asked to stop.
    #[error("the download was stopped; what has arrived is kept, and the same command goes on from there")]
    Stopped,
    /// A file or folder of the cache could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// A result whose error is this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }
}

/// Bytes as people read them: decimal units, as disks are sold and as the hub shows them.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
        match units.into_iter().find(|(unit, _)| self.0 as f64 >= *unit) {
            Some((unit, name)) => write!(f, "{:.1} {name}", self.0 as f64 / unit),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

fn sent(origin: Option<&Origin>) -> String {
    match origin {
        Some(origin) => format!("the one from {origin} was sent"),
        None => "none was sent; set HF_TOKEN".into(),
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
