//! The files of a commit.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::name::{is_commit, is_hex};

/// The version of the stored form below; other clients write and read it too.
const FORMAT: u32 = 1;

/// Every file of a commit by its path in the repository. A commit never changes, so neither does this; it is
/// kept in the cache, and tells without the hub whether a snapshot is whole.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    format_version: u32,
    files: BTreeMap<String, Entry>,
}

/// What the hub says of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Bytes of the file, or of the pointer that stands for it in git.
    pub(crate) size: u64,
    /// The git hash of the file or pointer.
    pub(crate) blob_id: String,
    /// The hash of the content, of a large file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lfs_sha256: Option<String>,
    /// The bytes of the content, of a large file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lfs_size: Option<u64>,
    /// The hash by which the hub's other transport knows the content; unused here, kept for other clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) xet_hash: Option<String>,
}

impl Entry {
    /// Bytes of the content.
    pub(crate) fn bytes(&self) -> u64 {
        self.lfs_size.unwrap_or(self.size)
    }

    /// The name of the content among the cache's blobs: what the hub sends as its `ETag`.
    pub(crate) fn blob(&self) -> &str {
        self.lfs_sha256.as_deref().unwrap_or(&self.blob_id)
    }
}

impl Listing {
    /// Checks what names files and folders.
    ///
    /// # Errors
    /// A sentence's end, if a path could lead out of its folder or a hash is none.
    pub(crate) fn new(files: BTreeMap<String, Entry>) -> Result<Self, String> {
        for (path, entry) in &files {
            let plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
            if !plain || !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(format!("it lists a file {path:?}, which is no path within a repository"));
            }
            let lfs = entry.lfs_sha256.as_ref().is_none_or(|hash| is_hex(hash, 64));
            let xet = entry.xet_hash.as_ref().is_none_or(|hash| is_hex(hash, 64));
            if !(is_commit(&entry.blob_id) && lfs && xet) {
                return Err(format!("the hashes of {path} are no hashes"));
            }
        }
        Ok(Self { format_version: FORMAT, files })
    }

    /// Reads the stored form; nothing if it is of another version or damaged, since it can be asked for again.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let stored: Self = serde_json::from_str(text).ok()?;
        (stored.format_version == FORMAT).then(|| Self::new(stored.files).ok()).flatten()
    }

    /// The stored form.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a map with names as keys has a JSON form")
    }

    /// The files that running the model takes, by path.
    pub(crate) fn needed(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.files.iter().map(|(path, entry)| (path.as_str(), entry)).filter(|(path, _)| is_needed(path))
    }

    /// Whether a configuration and weights are among the files.
    pub(crate) fn holds_model(&self) -> bool {
        self.files.contains_key(CONFIG) && self.needed().any(|(path, _)| is_weights(path))
    }
}

/// The file without which a folder is no model.
pub(crate) const CONFIG: &str = "config.json";
/// What says which file each tensor is in.
pub(crate) const INDEX: &str = "model.safetensors.index.json";
/// Where further chat templates lie, by the convention of the hub's libraries.
const TEMPLATES: &str = "additional_chat_templates/";

/// Whether a file holds weights that can be read. `consolidated.*` are the same weights a second time, in the
/// form of their makers' own runtime.
pub(crate) fn is_weights(path: &str) -> bool {
    path.ends_with(".safetensors") && !path.contains('/') && !path.starts_with("consolidated")
}

/// Whether running a model takes this file: weights, and everything JSON beside them (configuration, index,
/// tokenizer, generation defaults) and the chat templates.
fn is_needed(path: &str) -> bool {
    let beside = |path: &str| !path.contains('/') && (path.ends_with(".json") || path.ends_with(".jinja"));
    is_weights(path) || beside(path) || path.strip_prefix(TEMPLATES).is_some_and(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { size: 7, blob_id: "a".repeat(40), lfs_sha256: None, lfs_size: None, xet_hash: None }
    }

    fn listing(paths: &[&str]) -> Result<Listing, String> {
        Listing::new(paths.iter().map(|path| (String::from(*path), entry())).collect())
    }

    #[test]
    fn only_what_running_a_model_takes_is_needed() {
        let needed = [
            "additional_chat_templates/tools.jinja",
            "chat_template.jinja",
            "config.json",
            "generation_config.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "quantization_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
        ];
        let other = [
            "README.md",
            "LICENSE",
            ".gitattributes",
            "consolidated.safetensors",
            "consolidated-00001-of-00002.safetensors",
            "pytorch_model.bin",
            "model.gguf",
            "original/consolidated.00.pth",
            "original/params.json",
            "onnx/model.safetensors",
        ];
        let listing = listing(&[&needed[..], &other[..]].concat()).unwrap();
        let found: Vec<&str> = listing.needed().map(|(path, _)| path).collect();
        assert_eq!(found, needed);
    }

    #[test]
    fn a_model_needs_a_configuration_and_weights() {
        assert!(listing(&["config.json", "model.safetensors"]).unwrap().holds_model());
        assert!(!listing(&["config.json", "pytorch_model.bin"]).unwrap().holds_model());
        assert!(!listing(&["model.safetensors", "README.md"]).unwrap().holds_model());
    }

    #[test]
    fn paths_and_hashes_that_could_lead_elsewhere_are_refused() {
        for path in ["../x.json", "/etc/x.json", "a//b.json", "a/./b.json", "a/../../b.json", ""] {
            assert!(listing(&[path]).is_err(), "{path:?} was accepted");
        }
        for hash in ["../../../../../../../../../../etc/passwd", "", "A"] {
            let wrong = Entry { blob_id: hash.into(), ..entry() };
            assert!(Listing::new([("config.json".into(), wrong)].into()).is_err());
            let wrong = Entry { lfs_sha256: Some(hash.into()), ..entry() };
            assert!(Listing::new([("config.json".into(), wrong)].into()).is_err());
        }
    }

    /// The text is what the official client writes, in its documented form.
    #[test]
    fn the_stored_form_is_the_official_clients() {
        let (git, sha, xet) = ("a".repeat(40), "b".repeat(64), "c".repeat(64));
        let text = format!(
            r#"{{"format_version": 1, "files": {{
            "config.json": {{"size": 519, "blob_id": "{git}"}},
            "model.safetensors":
            {{"size": 1234, "blob_id": "{git}", "lfs_sha256": "{sha}", "lfs_size": 1234, "xet_hash": "{xet}"}}}}}}"#
        );
        let listing = Listing::parse(&text).unwrap();
        let files: Vec<_> =
            listing.needed().map(|(path, entry)| (path, entry.bytes(), entry.blob())).collect();
        assert_eq!(files, [("config.json", 519, git.as_str()), ("model.safetensors", 1234, sha.as_str())]);
        let value = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
        assert_eq!(value(&listing.to_json()), value(text.as_bytes()));
        assert!(Listing::parse(&text.replace("\"format_version\": 1", "\"format_version\": 2")).is_none());
        assert!(Listing::parse(&text.replace("config.json", "../config.json")).is_none());
        assert!(Listing::parse("{").is_none());
    }
}
