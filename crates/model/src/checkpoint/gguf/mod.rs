//! GGUF files: a llama's weights, configuration, tokenizer and chat template in one.
//!
//! Plain numbers stay slices of the memory map; numbers in blocks are decoded to f16 when they are loaded, which
//! rounds them by 2^-11 at most, far less than the blocks did. A file is not trusted: every length is checked
//! against the file before it is used.

mod blocks;
mod config;
mod header;
mod metadata;
mod names;
mod reader;
mod tokenizer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use half::f16;
use program::{Catalogue, Dtype, HostTensor, Kind, ModelSpec, Storage};
use serde_json::Map;

use self::header::Entry;
use self::metadata::Metadata;
use self::names::Rows;
use super::folder;
use super::map::Map as FileMap;
use crate::config::Config;
use crate::source::Source;
use crate::tokenizer::Tokenizer;
use crate::{Error, Result};

/// What the names of these files end with.
const EXTENSION: &str = "gguf";
/// The embedding table.
const TABLE: &str = "token_embd.weight";

/// A GGUF file.
pub(crate) struct Gguf {
    path: PathBuf,
    map: FileMap,
    metadata: Metadata,
    tensors: BTreeMap<String, Entry>,
    config: Config,
    /// Rows of a head of queries and keys.
    dims: usize,
}

/// The GGUF file that a path names, or that a folder without a `config.json` holds; none if the path is one of
/// something else.
///
/// # Errors
/// If a folder holds several.
pub(crate) fn find(path: &Path) -> Result<Option<PathBuf>> {
    if path.is_file() {
        return Ok(is_gguf(path).then(|| path.into()));
    }
    if !path.is_dir() || path.join(folder::CONFIG).exists() {
        return Ok(None);
    }
    let io = |error: std::io::Error| Error::io(path, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io)? {
        files.extend(Some(entry.map_err(io)?.path()).filter(|file| is_gguf(file)));
    }
    files.sort();
    match files.as_slice() {
        [] => Ok(None),
        [file] => Ok(Some(file.clone())),
        [first, second, ..] => {
            let what = format!("holds several GGUF files ({}, {}, ...)", first.display(), second.display());
            Err(Error::file(path, format!("{what}; give the path of one of them")))
        }
    }
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(EXTENSION))
}

impl Gguf {
    /// Maps a file and checks its header.
    ///
    /// # Errors
    /// If it is damaged, or of an architecture that is not read from such files.
    pub(crate) fn open(path: &Path) -> Result<Gguf> {
        let map = FileMap::open(path)?;
        let header = header::read(path, map.bytes())?;
        let vocab = match header.tensors.get(TABLE).map(|entry| entry.shape.as_slice()) {
            Some([vocab, _]) => *vocab,
            _ => return Err(Error::file(path, format!("has no embedding table {TABLE} of two dimensions"))),
        };
        let tied = !header.tensors.contains_key("output.weight");
        let config = config::read(path, &header.metadata, vocab, tied)?;
        let dims = config.count("head_dim")? as usize;
        Ok(Gguf { path: path.into(), map, metadata: header.metadata, tensors: header.tensors, config, dims })
    }

    /// What its metadata says in the words of a `config.json`.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Its tokenizer.
    ///
    /// # Errors
    /// If it is of a kind that is not read from such files, or contradicts itself.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::parse(&self.path, &tokenizer::json(&self.metadata)?)
    }

    /// The key of its chat template and the template, if it has one.
    ///
    /// # Errors
    /// If it is no text.
    pub(crate) fn chat_template(&self) -> Result<Option<(&'static str, &str)>> {
        let key = "tokenizer.chat_template";
        Ok(self.metadata.optional_text(key)?.map(|text| (key, text)))
    }

    /// The variables that every chat template may use.
    ///
    /// # Errors
    /// If an id is none.
    pub(crate) fn special_tokens(&self) -> Result<Map<String, serde_json::Value>> {
        tokenizer::special_tokens(&self.metadata)
    }

    /// Checks that the model uses every tensor.
    ///
    /// # Errors
    /// If it leaves one out.
    pub(crate) fn check_used(&self, model: &ModelSpec) -> Result<()> {
        let parts = model.weights.iter().flat_map(|weight| &weight.parts);
        let used: BTreeSet<String> =
            parts.filter_map(|part| names::place(&part.name)).map(|place| place.name).collect();
        let what = match self.tensors.keys().find(|name| !used.contains(*name)) {
            None => return Ok(()),
            Some(name) if name == "rope_freqs.weight" => {
                (name, "scales rotary embeddings, which is not read from GGUF files; use safetensors files")
            }
            Some(name) => {
                (name, "is no part of this architecture, and running without it would give wrong text")
            }
        };
        Err(Error::Tensor { path: self.path.clone(), name: what.0.clone(), what: what.1.into() })
    }

    /// The tensor of a weight, whose shape is that of `kind`.
    fn tensor(&self, weight: &str, kind: Kind) -> program::Result<(Rows, &str, &Entry)> {
        let missing = |what: &str| program::Error::Weight { name: weight.into(), what: what.into() };
        if matches!(kind, Kind::Linear { bias: true, .. }) {
            return Err(missing("has a bias, which is not read from GGUF files"));
        }
        let place = names::place(weight).ok_or_else(|| missing("has no name in GGUF files"))?;
        let Some((name, entry)) = self.tensors.get_key_value(&place.name) else {
            return Err(missing(&format!("is missing: the file has no {}", place.name)));
        };
        let (rows, columns) = kind.shape();
        let needed: Vec<usize> = match kind {
            Kind::Vector { len } => vec![len as usize],
            _ => vec![rows as usize, columns as usize],
        };
        if entry.shape != needed {
            return Err(missing(&format!("as {name} has the shape {:?}, {needed:?} is needed", entry.shape)));
        }
        if place.rows != Rows::Plain && !(rows as usize).is_multiple_of(self.dims) {
            return Err(missing(&format!("as {name} has {rows} rows, no whole heads of {}", self.dims)));
        }
        Ok((place.rows, name, entry))
    }
}

impl Catalogue for Gguf {
    fn storage(&self, name: &str, kind: Kind) -> program::Result<Storage> {
        let (_, _, entry) = self.tensor(name, kind)?;
        Ok(Storage::Dense(entry.blocks.plain().unwrap_or(Dtype::F16)))
    }

    fn has(&self, name: &str) -> bool {
        names::place(name).is_some_and(|place| self.tensors.contains_key(&place.name))
    }
}

impl Source for Gguf {
    fn read(&self, weight: &str, kind: Kind) -> program::Result<HostTensor> {
        let (rows, name, entry) = self.tensor(weight, kind)?;
        let plain = entry.blocks.plain();
        self.map.make_resident(entry.bytes.clone());
        if let (Some(dtype), Rows::Plain, false) = (plain, rows, matches!(kind, Kind::Vector { .. })) {
            let data = self.map.slice(entry.bytes.clone());
            return Ok(HostTensor::Dense { kind, dtype, data, bias: None });
        }
        let dtype = plain.unwrap_or(Dtype::F16);
        let columns = kind.shape().1 as usize;
        let row_bytes = columns / entry.blocks.numbers() * entry.blocks.bytes();
        let bytes = &self.map.bytes()[entry.bytes.clone()];
        let mut numbers = vec![0.0; columns];
        let mut data = Vec::with_capacity(kind.shape().0 as usize * columns * dtype.bytes());
        for row in 0..kind.shape().0 as usize {
            let place = if rows == Rows::Plain { row } else { names::paired(row, self.dims) };
            let row = &bytes[place * row_bytes..][..row_bytes];
            entry.blocks.decode(row, &mut numbers);
            match plain {
                Some(_) => data.extend_from_slice(row),
                None => data.extend(numbers.iter().flat_map(|&number| f16::from_f32(number).to_le_bytes())),
            }
            // A number that f16 does not hold is no weight.
            let bad = |number: &&f32| !number.is_finite() || number.abs() > f16::MAX.to_f32();
            if let Some(number) = numbers.iter().find(bad) {
                let what =
                    format!("holds the number {number} in {name}; the file is damaged, fetch it again");
                return Err(program::Error::Weight { name: weight.into(), what });
            }
        }
        Ok(HostTensor::Dense { kind, dtype, data: data.into(), bias: None })
    }
}
