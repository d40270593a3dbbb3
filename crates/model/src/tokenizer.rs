//! The tokenizer: text to ids and back.
//!
//! Encoding is the `tokenizers` crate's. Decoding goes by bytes: each id stands for a few bytes, which need
//! not be whole characters, and a text is the concatenation of them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Map, Value};
use tokenizers::{Model, NormalizedString, Normalizer, OffsetType, PreTokenizedString, PreTokenizer};

use crate::{Error, Result, config};

/// A tokenizer, as read from `tokenizer.json`.
#[derive(Debug)]
pub struct Tokenizer {
    /// The file, for messages.
    path: PathBuf,
    parsing: tokenizers::Tokenizer,
    /// The bytes of all ids, end to end.
    bytes: Vec<u8>,
    /// Where the bytes of each id end, and whether it is a special token.
    ends: Vec<(u32, Special)>,
    /// What the tokenizer puts before a text.
    prefix: Vec<u32>,
}

/// How added tokens, special or not, that are written out in a text are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// As the tokens that they name: for templates and other text of one's own.
    Parse,
    /// As the characters that they are: for text of others.
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Yes,
    No,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// If it cannot be read, or turns ids into text in a way that is not known.
    pub fn open(path: &Path) -> Result<Tokenizer> {
        let json = std::fs::read_to_string(path).map_err(|error| Error::io(path, &error))?;
        Tokenizer::parse(path, &json)
    }

    /// A tokenizer of 256 ids, one for each byte: for models that have none.
    pub(crate) fn of_bytes() -> Result<Tokenizer> {
        Tokenizer::parse(Path::new("tokenizer.json"), &byte_tokenizer())
    }

    /// Reads the text of a `tokenizer.json`; `path` is for messages.
    pub(crate) fn parse(path: &Path, json: &str) -> Result<Tokenizer> {
        let malformed = |error: tokenizers::Error| Error::file(path, format!("is no tokenizer: {error}"));
        let spelling = Spelling::read(path, &config::object(path, json)?)?;
        let mut parsing = tokenizers::Tokenizer::from_bytes(json).map_err(malformed)?;
        // Whoever saved the file may have left these on; a prompt is taken as it is.
        parsing.with_truncation(None).map_err(malformed)?.with_padding(None);
        let added = parsing.get_added_tokens_decoder();
        let mut pieces: Vec<(Vec<u8>, Special)> = Vec::new();
        for (token, id) in parsing.get_vocab(true) {
            let id = id as usize;
            if pieces.len() <= id {
                pieces.resize(id + 1, (Vec::new(), Special::No));
            }
            pieces[id] = match added.get(&(id as u32)) {
                Some(added) if added.special => (token.into_bytes(), Special::Yes),
                Some(_) => (token.into_bytes(), Special::No),
                None => (spelling.bytes(&token), Special::No),
            };
        }
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(pieces.len());
        for (piece, special) in pieces {
            bytes.extend(piece);
            ends.push((bytes.len() as u32, special));
        }
        let with = parsing.encode("a", true).map_err(malformed)?;
        let without = parsing.encode("a", false).map_err(malformed)?;
        let before = with.get_ids().windows(without.len().max(1)).position(|ids| ids == without.get_ids());
        let prefix = with.get_ids()[..before.unwrap_or(0)].to_vec();
        Ok(Tokenizer { path: path.into(), parsing, bytes, ends, prefix })
    }

    /// The ids of a text, and nothing before or after them.
    ///
    /// # Errors
    /// If the text cannot be written with the tokens there are.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>> {
        let ids = match specials {
            Specials::Parse => {
                self.parsing.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec())
            }
            Specials::Plain => self.encode_plain(text),
        };
        ids.map_err(|error| Error::file(&self.path, format!("cannot encode the text: {error}")))
    }

    /// The ids of a text by the model alone, which added tokens are no part of.
    ///
    /// Some vocabularies hold the added tokens too, and merges might lead there: then each character is encoded
    /// by itself.
    fn encode_plain(&self, text: &str) -> tokenizers::Result<Vec<u32>> {
        let ids = self.encode_by_model(text)?;
        let added = self.parsing.get_added_vocabulary().get_added_tokens_decoder();
        if ids.iter().all(|id| !added.contains_key(id)) {
            return Ok(ids);
        }
        let characters = text.char_indices().map(|(at, character)| &text[at..at + character.len_utf8()]);
        let ids: tokenizers::Result<Vec<Vec<u32>>> =
            characters.map(|character| self.encode_by_model(character)).collect();
        Ok(ids?.concat())
    }

    fn encode_by_model(&self, text: &str) -> tokenizers::Result<Vec<u32>> {
        let mut normalized = NormalizedString::from(text);
        if let Some(normalizer) = self.parsing.get_normalizer() {
            normalizer.normalize(&mut normalized)?;
        }
        let mut pieces = PreTokenizedString::from(normalized);
        if let Some(pre_tokenizer) = self.parsing.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        pieces.tokenize(|piece| self.parsing.get_model().tokenize(piece.get()))?;
        Ok(pieces.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
    }

    /// The texts of the added tokens, special or not: those that are read as one token wherever they stand.
    pub fn added_tokens(&self) -> impl Iterator<Item = String> {
        self.parsing.get_added_tokens_decoder().into_values().map(|token| token.content)
    }

    /// What the tokenizer puts before every text: the token that begins a sequence, or nothing.
    pub fn prefix(&self) -> &[u32] {
        &self.prefix
    }

    /// The highest id plus one.
    pub fn vocab(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The id of a token by its whole name, special or not.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.parsing.token_to_id(token)
    }

    /// The bytes that an id stands for, perhaps a part of a character; empty for an id that is not known.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&(end, _)) = self.ends.get(id) else { return &[] };
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before].0);
        &self.bytes[start as usize..end as usize]
    }

    /// Whether an id is a special token: one that structures a text and is no part of it.
    pub fn is_special(&self, id: u32) -> bool {
        self.ends.get(id as usize).is_some_and(|&(_, special)| special == Special::Yes)
    }

    /// The text of some ids, special tokens written out; bytes that are no whole character become U+FFFD. Where
    /// tokens spell their leading spaces, a text begins with one.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.token_bytes(id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// How tokens of the vocabulary spell bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// Each character is a byte, by GPT-2's table.
    ByteLevel,
    /// Characters are themselves but for `▁`, a space; `<0x0A>` is a byte.
    Metaspace,
}

impl Spelling {
    /// Tells the spelling by the decoder.
    fn read(path: &Path, tokenizer: &Map<String, Value>) -> Result<Spelling> {
        let decoder = tokenizer.get("decoder").unwrap_or(&Value::Null);
        let kind = |decoder: &Value| decoder["type"].as_str().unwrap_or("none").to_owned();
        let kinds: Vec<String> = match &decoder["decoders"] {
            Value::Array(decoders) => decoders.iter().map(kind).collect(),
            _ => vec![kind(decoder)],
        };
        let all = |known: &[&str]| kinds.iter().all(|kind| known.contains(&kind.as_str()));
        if all(&["ByteLevel"]) {
            Ok(Spelling::ByteLevel)
        } else if all(&["Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"]) {
            Ok(Spelling::Metaspace)
        } else {
            let what = format!(
                "the decoder {} is not supported; known are ByteLevel, ByteFallback and Metaspace",
                kinds.join(" + ")
            );
            Err(Error::file(path, what))
        }
    }

    /// The bytes of a token.
    fn bytes(self, token: &str) -> Vec<u8> {
        match self {
            Spelling::ByteLevel => {
                let bytes: Option<Vec<u8>> = token.chars().map(byte).collect();
                bytes.unwrap_or_else(|| token.as_bytes().to_vec())
            }
            Spelling::Metaspace => {
                let byte = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
                match byte.filter(|digits| digits.len() == 2).map(|digits| u8::from_str_radix(digits, 16)) {
                    Some(Ok(byte)) => vec![byte],
                    _ => token.replace('▁', " ").into_bytes(),
                }
            }
        }
    }
}

/// The character that stands for a byte in GPT-2's table: itself where it is printable and no space, else
/// one of those from U+0100 on, in order.
fn character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&byte| !printable(byte)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character stands for.
fn byte(character_: char) -> Option<u8> {
    static TABLE: OnceLock<std::collections::HashMap<char, u8>> = OnceLock::new();
    TABLE
        .get_or_init(|| (0..=u8::MAX).map(|byte| (character(byte), byte)).collect())
        .get(&character_)
        .copied()
}

/// The `tokenizer.json` of [`Tokenizer::of_bytes`].
pub(crate) fn byte_tokenizer() -> String {
    let vocab: Map<String, Value> =
        (0..=u8::MAX).map(|byte| (character(byte).to_string(), byte.into())).collect();
    let byte_level = serde_json::json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
    });
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": [],
        },
    });
    tokenizer.to_string()
}
