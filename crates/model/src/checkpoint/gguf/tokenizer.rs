//! The tokenizer of a GGUF file, as a `tokenizer.json`.

use serde_json::{Map, Value as Json, json};

use super::metadata::{Metadata, Value};
use crate::Result;

const TOKENS: &str = "tokenizer.ggml.tokens";
const KINDS: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";

/// The kind of a token that structures a text.
const CONTROL: u64 = 3;
/// The kind of a token that is read whole wherever it stands, and is text.
const USER_DEFINED: u64 = 4;

/// The `tokenizer.json` of byte-level pairs with `SmolLM`'s rules of where a text is cut first: digits one by one,
/// then as GPT-2 does.
///
/// # Errors
/// If it is of another kind, or contradicts itself.
pub(super) fn json(metadata: &Metadata) -> Result<String> {
    for (key, known) in [("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "smollm")] {
        let found = metadata.text(key)?;
        if found != known {
            let what = format!(
                "{found:?} is not read from GGUF files, only {known:?} is; use the model's safetensors files, which \
                 have a tokenizer.json"
            );
            return Err(metadata.error(key, what));
        }
    }
    let key = "tokenizer.ggml.add_space_prefix";
    if metadata.flag(key)? {
        return Err(metadata.error(key, "is true, which tokenizers of this kind have no use for"));
    }
    let tokens = metadata.texts(TOKENS)?;
    let vocab: Map<String, Json> =
        tokens.iter().enumerate().map(|(id, token)| ((*token).to_owned(), id.into())).collect();
    if vocab.len() != tokens.len() {
        return Err(metadata.error(TOKENS, "holds a token twice"));
    }
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    });
    let digits = json!({ "type": "Digits", "individual_digits": true });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": added(metadata, &tokens)?,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [digits, byte_level] },
        "post_processor": beginning(metadata, &tokens)?,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab,
            "merges": merges(metadata, &tokens)?,
        },
    });
    Ok(tokenizer.to_string())
}

/// The names that templates have for tokens, and the tokens.
///
/// # Errors
/// If an id is none.
pub(super) fn special_tokens(metadata: &Metadata) -> Result<Map<String, Json>> {
    let tokens = metadata.texts(TOKENS)?;
    let mut special = Map::new();
    for (name, key) in [("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")] {
        if let Some(id) = token(metadata, &format!("tokenizer.ggml.{key}_token_id"), &tokens)? {
            special.insert(format!("{name}_token"), tokens[id].into());
        }
    }
    Ok(special)
}

/// The id under a key, which must be one.
fn token(metadata: &Metadata, key: &str, tokens: &[&str]) -> Result<Option<usize>> {
    match metadata.optional_whole(key)? {
        Some(id) if id >= tokens.len() as u64 => {
            Err(metadata.error(key, format!("is {id}, but there are {} tokens", tokens.len())))
        }
        id => Ok(id.map(|id| id as usize)),
    }
}

/// The tokens that no pairs lead to.
fn added(metadata: &Metadata, tokens: &[&str]) -> Result<Vec<Json>> {
    let kinds = metadata.list(KINDS)?;
    if kinds.len() != tokens.len() {
        return Err(metadata.error(KINDS, format!("has {} values for {} tokens", kinds.len(), tokens.len())));
    }
    let added = kinds.iter().zip(tokens).enumerate().filter_map(|(id, (kind, token))| {
        let special = match kind {
            Value::Whole(CONTROL) => true,
            Value::Whole(USER_DEFINED) => false,
            _ => return None,
        };
        Some(json!({
            "id": id, "content": token, "special": special, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false,
        }))
    });
    Ok(added.collect())
}

/// The pairs, each of which is two tokens and makes a third.
fn merges<'m>(metadata: &'m Metadata, tokens: &[&str]) -> Result<Vec<&'m str>> {
    let known: std::collections::HashSet<&str> = tokens.iter().copied().collect();
    let merges = metadata.texts(MERGES)?;
    let right = |merge: &str| {
        let pair = merge.split_once(' ');
        pair.is_some_and(|(a, b)| {
            known.contains(a) && known.contains(b) && known.contains(&*format!("{a}{b}"))
        })
    };
    match merges.iter().find(|merge| !right(merge)) {
        Some(merge) => {
            Err(metadata.error(MERGES, format!("holds {merge:?}, which is no pair of tokens that makes one")))
        }
        None => Ok(merges),
    }
}

/// What puts the token that begins a text before it, if the file asks for it.
fn beginning(metadata: &Metadata, tokens: &[&str]) -> Result<Json> {
    if !metadata.flag("tokenizer.ggml.add_bos_token")? {
        return Ok(Json::Null);
    }
    let key = "tokenizer.ggml.bos_token_id";
    let Some(id) = token(metadata, key, tokens)? else {
        return Err(metadata.error(key, "is absent, but add_bos_token asks for it"));
    };
    let begin = tokens[id];
    let (text, special) = (json!({ "id": "A", "type_id": 0 }), json!({ "id": begin, "type_id": 0 }));
    Ok(json!({
        "type": "TemplateProcessing",
        "single": [{ "SpecialToken": special }, { "Sequence": text }],
        "pair": [{ "SpecialToken": special }, { "Sequence": text }, { "Sequence": { "id": "B", "type_id": 1 } }],
        "special_tokens": { begin: { "id": begin, "ids": [id], "tokens": [begin] } },
    }))
}
