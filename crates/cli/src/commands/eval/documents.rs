//! A text as one stream of tokens.

use anyhow::{Context, Result};
use model::{Model, Specials, Tokenizer};

/// A line of its own that ends a document.
const SEPARATOR: &str = "<|endoftext|>";

/// The tokens of `text`, at most about `most` of them.
///
/// Lines `<|endoftext|>` divide a text into documents: each is stripped of white space at both ends, encoded,
/// and followed by that token (or by the model's own that ends a text, if it has no such token). A text
/// without such lines is one document and nothing follows it. Special tokens are read as plain characters.
pub(super) fn tokens(text: &str, model: &Model, most: usize) -> Result<Vec<u32>> {
    let tokenizer =
        model.tokenizer.as_ref().context("the model has no tokenizer.json, and a text needs one")?;
    if !text.lines().any(|line| line == SEPARATOR) {
        return Ok(tokenizer.encode(text, Specials::Plain)?);
    }
    let end = end_of_document(tokenizer, model)?;
    let mut tokens = Vec::new();
    for document in documents(text) {
        if tokens.len() > most {
            break;
        }
        tokens.extend(tokenizer.encode(document, Specials::Plain)?);
        tokens.push(end);
    }
    Ok(tokens)
}

fn end_of_document(tokenizer: &Tokenizer, model: &Model) -> Result<u32> {
    let end = tokenizer.id(SEPARATOR).or_else(|| model.facts.eos.first().copied());
    end.context("the text has several documents, and the model has no token that ends one")
}

/// The documents of a text, stripped; empty ones are left out.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut seen = 0;
        for line in rest.split_inclusive('\n') {
            let start = seen;
            seen += line.len();
            if line.trim_end_matches(['\r', '\n']) == SEPARATOR {
                let document = &rest[..start];
                rest = &rest[seen..];
                return Some(document);
            }
        }
        Some(std::mem::take(&mut rest))
    })
    .map(str::trim)
    .filter(|document| !document.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_end_at_lines_that_hold_the_separator_alone() {
        let text =
            "one\ntwo <|endoftext|> two\n\n<|endoftext|>\n three \n<|endoftext|>\r\n\n<|endoftext|>\nfour";
        let found: Vec<&str> = documents(text).collect();
        assert_eq!(found, ["one\ntwo <|endoftext|> two", "three", "four"]);
    }
}
