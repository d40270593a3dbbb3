//! Who is asking.

use std::fmt;
use std::path::PathBuf;

/// An access token, and where it came from: a refusal has to say which of several places to look at.
#[derive(Clone)]
pub struct Token {
    /// What is sent to the hub (and to no other host).
    pub value: String,
    /// Where it was found.
    pub origin: Origin,
}

/// The value stays out of logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token from {}", self.origin)
    }
}

/// Where a token was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An environment variable.
    Variable(&'static str),
    /// A file, such as the one that `hf auth login` writes.
    File(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "the variable {name}"),
            Self::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}
