//! What a folder holds: the files of a checkpoint, or something else that is told by name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::index::Index;
use crate::{Error, Result};

/// The configuration's file name.
pub(crate) const CONFIG: &str = "config.json";
/// The single weights file of a small checkpoint.
pub(crate) const WEIGHTS: &str = "model.safetensors";
/// What says which file each tensor is in.
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// The weights files of a checkpoint.
pub(super) struct Files {
    /// Their names, sorted.
    pub(super) names: Vec<String>,
    /// The index and its path, where there is one.
    pub(super) index: Option<(PathBuf, Index)>,
}

/// Checks that a folder is one of a checkpoint that can be read.
///
/// # Errors
/// If it is no folder, has no configuration, or is of another kind.
pub(crate) fn check(folder: &Path) -> Result<()> {
    let names = names(folder)?;
    let has = |name: &str| names.contains(name);
    if has("quantization_index.json")
        || has("layer_0000")
        || names.iter().any(|name| name.contains("__indices"))
    {
        return Err(old_kind(folder));
    }
    if !has(CONFIG) {
        return Err(Error::file(folder, "has no config.json; the folder of a whole checkpoint is needed"));
    }
    Ok(())
}

/// The refusal of the folders of an older quantiser, which look alike but hold no trellis codes.
pub(super) fn old_kind(folder: &Path) -> Error {
    Error::file(
        folder,
        "is a folder of the old \"trellis_v2\" kind, which is no trellis code; quantise the original model again",
    )
}

/// Finds the weights files: those that the index names; without one `model.safetensors`, or all of
/// `model-00001-of-0000N.safetensors`. Other files may lie beside them.
pub(super) fn weights(folder: &Path) -> Result<Files> {
    let names = names(folder)?;
    if names.contains(INDEX) {
        let path = folder.join(INDEX);
        let index = Index::open(&path)?;
        let files: Vec<String> = index.files().into_iter().map(String::from).collect();
        if let Some(absent) = files.iter().find(|file| !names.contains(*file)) {
            return Err(Error::file(&path, format!("names the file {absent}, which is not there; fetch it")));
        }
        return Ok(Files { names: files, index: Some((path, index)) });
    }
    if names.contains(WEIGHTS) {
        return Ok(Files { names: vec![WEIGHTS.into()], index: None });
    }
    let shards: Vec<String> = names.iter().filter(|name| shard_number(name).is_some()).cloned().collect();
    let Some(total) = shards.first().and_then(|name| shard_number(name)).map(|(_, total)| total) else {
        return Err(Error::file(
            folder,
            "has no model.safetensors and no shards; weights in safetensors files are needed",
        ));
    };
    if shards.len() as u64 != total {
        let what = format!("has {} of {total} shards and no {INDEX}; fetch the others", shards.len());
        return Err(Error::file(folder, what));
    }
    Ok(Files { names: shards, index: None })
}

/// Number and total of `model-NNNNN-of-NNNNN.safetensors`.
fn shard_number(name: &str) -> Option<(u64, u64)> {
    let (number, total) = name.strip_prefix("model-")?.strip_suffix(".safetensors")?.split_once("-of-")?;
    Some((number.parse().ok()?, total.parse().ok()?))
}

fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let io = |error: std::io::Error| Error::io(folder, &error);
    if folder.is_file() {
        return Err(Error::file(folder, "is a file; the folder of a checkpoint is needed"));
    }
    let entries = std::fs::read_dir(folder).map_err(io)?;
    entries.map(|entry| Ok(entry.map_err(io)?.file_name().to_string_lossy().into_owned())).collect()
}
