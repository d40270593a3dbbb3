//! A checkpoint: a folder of safetensors files, or a GGUF file, mapped into memory and checked before any work.

mod bits;
mod extras;
mod find;
pub(crate) mod folder;
pub(crate) mod gguf;
mod header;
mod index;
mod map;
mod read;
pub(crate) mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use program::{Catalogue, HostTensor, Kind, ModelSpec, Storage};

pub use bits::layer_bits;
pub use extras::{Unused, Why};

use self::header::Entry;
use self::map::Map;
use crate::block::Names;
use crate::source::Source;
use crate::{Error, Result};

/// The weights of a folder.
pub(crate) struct Checkpoint {
    folder: PathBuf,
    shards: Vec<Shard>,
    /// Which shard has each tensor.
    tensors: BTreeMap<String, usize>,
    names: Names,
}

/// One file.
pub(crate) struct Shard {
    /// Its name in the folder.
    file: String,
    map: Map,
    entries: BTreeMap<String, Entry>,
}

impl Checkpoint {
    /// Maps the files and checks their headers against each other and the index.
    pub(crate) fn open(folder: &Path) -> Result<Checkpoint> {
        let files = folder::weights(folder)?;
        let mut shards = Vec::with_capacity(files.names.len());
        for file in files.names {
            let path = folder.join(&file);
            let map = Map::open(&path)?;
            let entries = header::read(&path, map.bytes())?;
            shards.push(Shard { file, map, entries });
        }
        if let Some((path, index)) = &files.index {
            index.check(path, &shards)?;
        }
        let mut tensors = BTreeMap::new();
        for (number, shard) in shards.iter().enumerate() {
            for name in shard.entries.keys() {
                if let Some(other) = tensors.insert(name.clone(), number) {
                    let what = format!("is in {} too; only one of the two belongs here", shards[other].file);
                    return Err(Error::Tensor { path: folder.join(&shard.file), name: name.clone(), what });
                }
            }
        }
        if tensors.keys().any(|name| name.contains("__indices")) {
            return Err(folder::old_kind(folder));
        }
        let names = Names::ALL.into_iter().find(|names| {
            let table = names.trunk("embed_tokens.");
            tensors.range(table.clone()..).next().is_some_and(|(name, _)| name.starts_with(&table))
        });
        let names = names.unwrap_or(Names::PLAIN);
        Ok(Checkpoint { folder: folder.into(), shards, tensors, names })
    }

    /// Where the text model lies among the names.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The tensors that the model does not use, each with the reason; `drafts` are the layers after its
    /// own that predict the token after the next one.
    ///
    /// # Errors
    /// If one has no known reason: something of the model would be left out without a word.
    pub(crate) fn unused(&self, model: &ModelSpec, drafts: Range<u32>) -> Result<Vec<Unused>> {
        let mut used = BTreeSet::new();
        for weight in &model.weights {
            for part in &weight.parts {
                let tensors = self.tensors_of(&part.name, weight.kind);
                used.extend(tensors.map_err(|source| Error::Program { path: self.folder.clone(), source })?);
            }
        }
        let left = self.tensors.iter().filter(|(name, _)| !used.contains(*name));
        left.map(|(name, &shard)| {
            let shard = &self.shards[shard];
            match extras::why(name, &self.names, &drafts, |name| self.tensors.contains_key(name)) {
                Some(why) => {
                    Ok(Unused { name: name.clone(), bytes: shard.entries[name].bytes.len() as u64, why })
                }
                None => Err(Error::Tensor {
                    path: self.folder.join(&shard.file),
                    name: name.clone(),
                    what: "is no part of this architecture, and running without it would give wrong text"
                        .into(),
                }),
            }
        })
        .collect()
    }

    /// A tensor by its whole name, with the file it is in.
    fn entry(&self, name: &str) -> Option<(&Shard, &Entry)> {
        let shard = &self.shards[*self.tensors.get(name)?];
        Some((shard, &shard.entries[name]))
    }
}

impl Catalogue for Checkpoint {
    fn storage(&self, name: &str, kind: Kind) -> program::Result<Storage> {
        Ok(self.find(name, kind)?.storage())
    }

    fn has(&self, name: &str) -> bool {
        ["", ".weight", ".trellis"].iter().any(|suffix| self.tensors.contains_key(&format!("{name}{suffix}")))
    }
}

impl Source for Checkpoint {
    fn read(&self, name: &str, kind: Kind) -> program::Result<HostTensor> {
        self.find(name, kind)?.read(kind)
    }
}
