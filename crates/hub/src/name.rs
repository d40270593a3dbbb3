//! What a model on the hub is called.

use std::fmt;

use crate::{Error, Result};

/// The branch that is meant when a name has no `@`.
const MAIN: &str = "main";
/// Most characters of `organisation/repository` that the hub allows.
const LONGEST_REPOSITORY: usize = 96;

/// A model on the hub at one of its revisions: `organisation/repository@revision`.
///
/// A revision is a branch, a tag or a commit. Quantised models often keep one width a branch, so
/// `org/model-exl3@4.0bpw` is a usual name. Without `@` the branch `main` is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelName {
    repository: String,
    revision: String,
}

impl ModelName {
    /// Reads `organisation/repository` or `organisation/repository@revision`.
    ///
    /// ```
    /// let name = hub::ModelName::parse("org/model-exl3@4.0bpw")?;
    /// assert_eq!((name.repository(), name.revision()), ("org/model-exl3", "4.0bpw"));
    /// assert_eq!(hub::ModelName::parse("org/model")?.revision(), "main");
    /// # Ok::<(), hub::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Name`] if the text cannot be the name of a repository and a revision. Both become names of
    /// folders and parts of addresses, so nothing passes that could mean another place in either.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |why| Error::Name { text: text.into(), why };
        let (repository, revision) = text.split_once('@').unwrap_or((text, MAIN));
        let Some((organisation, model)) = repository.split_once('/') else {
            return Err(refuse("a model is named by its organisation and its repository"));
        };
        if ![organisation, model].into_iter().all(is_repository_part) || repository.len() > LONGEST_REPOSITORY
        {
            return Err(refuse(
                "both halves have letters, digits, '-', '_' and '.', do not begin or end with '-' or '.', \
                 and hold neither \"--\" nor \"..\"",
            ));
        }
        if !revision.split('/').all(is_revision_part) {
            return Err(refuse("what follows '@' can be no branch, tag or commit"));
        }
        Ok(Self { repository: repository.into(), revision: revision.into() })
    }

    /// `organisation/repository`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The branch, tag or commit.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The commit that the revision is, where it is a whole one: such a revision never moves.
    pub(crate) fn commit(&self) -> Option<&str> {
        is_commit(&self.revision).then_some(&self.revision)
    }
}

/// As it is parsed; `@main` is left out.
impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.revision.as_str() {
            MAIN => write!(f, "{}", self.repository),
            revision => write!(f, "{}@{revision}", self.repository),
        }
    }
}

/// Whether a text is the whole name of a git commit: 40 lower-case hexadecimal digits.
pub(crate) fn is_commit(text: &str) -> bool {
    is_hex(text, 40)
}

/// Whether a text is `digits` lower-case hexadecimal digits.
pub(crate) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_repository_part(part: &str) -> bool {
    let edge = |c: char| c == '-' || c == '.';
    !part.is_empty()
        && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && !part.starts_with(edge)
        && !part.ends_with(edge)
        && !part.contains("--")
        && !part.contains("..")
}

/// The rules of git for a part of a reference's name.
fn is_revision_part(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('.')
        && !part.ends_with('.')
        && !part.contains("..")
        && !part.chars().any(|c| c.is_control() || c.is_whitespace() || "~^:?*[\\@".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_as_it_is_parsed() {
        for text in ["org/model", "org/model@4.0bpw", "Org_1/a.b-c@refs/pr/7"] {
            assert_eq!(ModelName::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(ModelName::parse("org/model@main").unwrap().to_string(), "org/model");
    }

    #[test]
    fn only_forty_hexadecimal_digits_are_a_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(ModelName::parse(&format!("org/model@{commit}")).unwrap().commit(), Some(commit));
        assert_eq!(ModelName::parse("org/model@0123456").unwrap().commit(), None);
    }

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        let outside = [
            "model",
            "",
            "/",
            "org/",
            "/model",
            "a/b/c",
            "../model",
            "org/..",
            "org/a--b",
            "org/.a",
            "org/a b",
            "org/model@",
            "org/model@../x",
            "org/model@/x",
            "org/model@x/",
            "org/model@a//b",
            "org/model@a\\b",
            "org/model@a b",
            "org/model@.hidden",
            "org/model@a@b",
            "org/model@a?b",
            "org/m\u{e9}",
        ];
        for text in outside {
            assert!(matches!(ModelName::parse(text), Err(Error::Name { .. })), "{text:?} was accepted");
        }
        assert!(ModelName::parse(&format!("org/{}", "a".repeat(93))).is_err());
    }
}
