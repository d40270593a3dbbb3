//! What can be wrong with a checkpoint.

use std::path::{Path, PathBuf};

/// Why a model cannot be opened, described or loaded.
///
/// Every message is one sentence that names the file, the tensor or key in it, and what is needed instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder is absent, unreadable, or not what it should be.
    #[error("{}: {what}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it and what to do.
        what: String,
    },
    /// A key of a configuration is absent, malformed, or asks for what is not supported.
    #[error("{}: {key}: {what}", path.display())]
    Config {
        /// The configuration file.
        path: PathBuf,
        /// The key, with the objects around it.
        key: String,
        /// What was found and what is needed.
        what: String,
    },
    /// A tensor of a file is no part of the model, or contradicts the file.
    #[error("{}: {name}: {what}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor's whole name.
        name: String,
        /// What is wrong with it and what to do.
        what: String,
    },
    /// A chat template is malformed, or fails on a conversation.
    #[error("{}: {within}line {line}: {what}", path.display())]
    Template {
        /// The file with the template.
        path: PathBuf,
        /// Where in the file, with a colon and a space after it; empty if the template is all of it.
        within: String,
        /// The line of the template, counted from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The chat template itself objects to a conversation; the message is its author's.
    #[error("the model's chat template refuses this conversation: {message}")]
    Refused {
        /// Why, as the template says it.
        message: String,
    },
    /// A conversation that cannot be made a prompt of with this model.
    #[error("{what}")]
    Conversation {
        /// Which message it is, what is wrong with it and what to do.
        what: String,
    },
    /// The program could not be recorded with the weights that there are, or a device refused one.
    #[error("{}: {source}", path.display())]
    Program {
        /// The folder or configuration that the model was read from.
        path: PathBuf,
        /// What is wrong; it names the weight.
        source: program::Error,
    },
}

impl Error {
    /// A file that could not be read or written, with the operating system's reason.
    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Error {
        let what = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file or folder".into(),
            std::io::ErrorKind::PermissionDenied => {
                "permission denied; make it readable for this user".into()
            }
            _ => error.to_string(),
        };
        Error::file(path, what)
    }

    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Error {
        Error::File { path: path.into(), what: what.into() }
    }
}

/// A result whose error is this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
