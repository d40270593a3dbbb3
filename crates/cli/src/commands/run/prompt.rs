//! The prompt of a text that is continued.

use anyhow::{Result, bail};
use model::{Model, Specials, Tokenizer};

/// The prompt's tokens, with what the model wants before every text.
pub(super) fn tokens(
    model: &Model,
    tokenizer: &Tokenizer,
    text: &str,
    specials: Specials,
) -> Result<Vec<u32>> {
    let mut tokens = tokenizer.prefix().to_vec();
    let body = tokenizer.encode(text, specials)?;
    // A text that brings these tokens along does not get them twice.
    if !body.starts_with(&tokens) {
        tokens.extend(body);
    } else {
        tokens = body;
    }
    if tokens.is_empty() {
        match model.facts.bos {
            Some(bos) => tokens.push(bos),
            None => {
                bail!("the prompt is empty and the model has no token that begins a text: give it some text")
            }
        }
    }
    Ok(tokens)
}
