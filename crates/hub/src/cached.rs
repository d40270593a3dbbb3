//! What the cache holds.

use std::path::{Path, PathBuf};

use crate::listing::is_weights;
use crate::repository::{Repository, entries, files_below, length};
use crate::{ModelName, Result};

/// A model in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedModel {
    /// Its name. The revision is the branch or tag it was fetched as, or the commit if that has moved on.
    pub name: ModelName,
    /// The commit.
    pub commit: String,
    /// The folder of its files.
    pub path: PathBuf,
    /// Bytes of the files in it. Revisions may share files, and then each counts them.
    pub bytes: u64,
    /// The files that running it takes and that are not there: none, unless a download was stopped.
    pub missing: Vec<String>,
}

/// The models of a cache, sorted by name; whatever program put them there. Models without safetensors weights
/// are left out, as are data sets and repositories without an organisation.
pub(crate) fn models(cache: &Path) -> Result<Vec<CachedModel>> {
    let mut models = Vec::new();
    for (folder, _) in entries(cache)? {
        let Some(name) = Repository::name_of(&folder) else { continue };
        let Ok(any) = ModelName::parse(&name) else { continue };
        let repository = Repository::new(cache, &any);
        let mut revisions = Vec::new();
        for revision in repository.revisions()? {
            let Ok(name) = ModelName::parse(&format!("{name}@{revision}")) else { continue };
            if let Some(commit) = repository.commit(&name)? {
                revisions.push((name, commit));
            }
        }
        for commit in repository.commits()? {
            if revisions.iter().all(|(_, known)| *known != commit) {
                revisions.push((ModelName::parse(&format!("{name}@{commit}"))?, commit));
            }
        }
        for (name, commit) in revisions {
            models.extend(model(&repository, name, commit)?);
        }
    }
    models.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(models)
}

fn model(repository: &Repository, name: ModelName, commit: String) -> Result<Option<CachedModel>> {
    let path = repository.snapshot(&commit);
    let mut bytes = 0;
    let mut has_weights = false;
    for file in files_below(&path)? {
        has_weights |= is_weights(&file.to_string_lossy());
        bytes += length(&path.join(file))?.unwrap_or(0);
    }
    let of_model = match repository.listing(&commit)? {
        Some(listing) => path.is_dir() && listing.holds_model(),
        None => has_weights,
    };
    if !of_model {
        return Ok(None);
    }
    let missing = repository.missing(&commit)?;
    Ok(Some(CachedModel { name, commit, path, bytes, missing }))
}
