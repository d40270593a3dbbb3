//! `model.safetensors.index.json`: which file each tensor is in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::Shard;
use crate::{Error, Result, config};

/// The file of each tensor.
#[derive(Debug)]
pub(super) struct Index(BTreeMap<String, String>);

impl Index {
    /// Reads the index.
    pub(super) fn open(path: &Path) -> Result<Index> {
        let json = std::fs::read_to_string(path).map_err(|error| Error::io(path, &error))?;
        let Some(Value::Object(map)) = config::object(path, &json)?.remove("weight_map") else {
            return Err(Error::file(path, "has no object weight_map"));
        };
        let file = |(name, file): (String, Value)| match file {
            // A plain name: a path could lead out of the folder.
            Value::String(file) if !file.contains(['/', '\\']) => Ok((name, file)),
            other => Err(Error::Tensor {
                path: path.into(),
                name,
                what: format!("is said to be in {other}, the name of a file in this folder is needed"),
            }),
        };
        Ok(Index(map.into_iter().map(file).collect::<Result<_>>()?))
    }

    /// The files, sorted.
    pub(super) fn files(&self) -> BTreeSet<&str> {
        self.0.values().map(String::as_str).collect()
    }

    /// Checks that every tensor is where the index says, and that the files have no others.
    pub(super) fn check(&self, path: &Path, shards: &[Shard]) -> Result<()> {
        let shard = |file: &str| shards.iter().find(|shard| shard.file == file);
        for (name, file) in &self.0 {
            if !shard(file).is_some_and(|shard| shard.entries.contains_key(name)) {
                let what = format!("is said to be in {file}, which does not have it; fetch both again");
                return Err(Error::Tensor { path: path.into(), name: name.clone(), what });
            }
        }
        for shard in shards {
            for name in shard.entries.keys() {
                if self.0.get(name) != Some(&shard.file) {
                    let what =
                        format!("is in {}, but not according to this index; fetch both again", shard.file);
                    return Err(Error::Tensor { path: path.into(), name: name.clone(), what });
                }
            }
        }
        Ok(())
    }
}
