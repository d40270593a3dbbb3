//! From a model's name to a folder of its files.

use std::path::PathBuf;

use crate::api::Api;
use crate::cached::{self, CachedModel};
use crate::download::Download;
use crate::event::tell;
use crate::listing::{Entry, Listing};
use crate::repository::{Repository, make_folder};
use crate::settings::Network;
use crate::{Error, Event, ModelName, Result, Settings, Watch};

/// What a revision is now.
struct Current {
    commit: String,
    listing: Listing,
}

/// The hub and the cache of what came from it.
pub struct Hub {
    settings: Settings,
    api: Api,
}

impl Hub {
    /// Prepares to use the cache and to ask the hub; nothing is sent or read yet.
    ///
    /// # Errors
    /// [`Error::Setting`] if the endpoint or the proxy is no address.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Self { api: Api::new(&settings)?, settings })
    }

    /// The folder with the files of a model, downloaded as far as they are missing: configuration, tokenizer,
    /// chat templates and safetensors weights, and nothing else of the repository.
    ///
    /// Online, the hub is asked what the revision is now (unless it is a commit that the cache knows). If it
    /// cannot be reached and the cache has the revision whole as it was last seen, that is given, and
    /// [`Event::Unreachable`] says so. Several processes may fetch the same model at the same time. Stopped at
    /// any moment, by [`Watch`] or by the end of the process, the next call goes on from there.
    ///
    /// # Errors
    /// [`Error::Token`], [`Error::Gated`], [`Error::MissingRepository`], [`Error::MissingRevision`] or
    /// [`Error::NoModel`] if the hub does not give such a model; [`Error::Unreachable`] after
    /// [`TRIES`](crate::TRIES) tries without a byte; [`Error::DiskTooSmall`] before anything is downloaded;
    /// [`Error::Damaged`] if what arrived is not what the hub lists; [`Error::NotCached`] and
    /// [`Error::Incomplete`] offline; [`Error::Stopped`] if `watch` said so; [`Error::Io`] for the disk.
    pub fn snapshot(&self, name: &ModelName, watch: &mut Watch<'_>) -> Result<PathBuf> {
        let repository = Repository::new(&self.settings.cache, name);
        if self.settings.network == Network::Offline {
            return self.last_seen(&repository, name);
        }
        match self.current(&repository, name, watch) {
            Ok(current) => self.complete(&repository, name, &current, watch),
            Err(error @ Error::Unreachable { .. }) => {
                let Ok(path) = self.last_seen(&repository, name) else { return Err(error) };
                tell(watch, Event::Unreachable { error: &error, path: &path })?;
                Ok(path)
            }
            Err(error) => Err(error),
        }
    }

    /// The models in the cache, sorted by name; whatever program put them there.
    ///
    /// # Errors
    /// [`Error::Io`] if a folder of the cache cannot be read. A cache that does not exist is empty.
    pub fn cached(&self) -> Result<Vec<CachedModel>> {
        cached::models(&self.settings.cache)
    }

    /// The snapshot of a revision as it was last seen, if it is whole.
    fn last_seen(&self, repository: &Repository, name: &ModelName) -> Result<PathBuf> {
        let commit = repository.commit(name)?;
        let Some(commit) = commit.filter(|commit| repository.snapshot(commit).is_dir()) else {
            let cached = repository.revisions()?;
            return Err(Error::NotCached { name: name.clone(), cache: self.settings.cache.clone(), cached });
        };
        let path = repository.snapshot(&commit);
        let missing = repository.missing(&commit)?;
        if missing.is_empty() {
            Ok(path)
        } else {
            Err(Error::Incomplete { name: name.clone(), path, missing })
        }
    }

    /// The commit that the revision is now, and its files.
    fn current(&self, repository: &Repository, name: &ModelName, watch: &mut Watch<'_>) -> Result<Current> {
        let commit = match name.commit() {
            Some(commit) => commit.into(),
            None => self.api.commit(name, watch)?,
        };
        let listing = match repository.listing(&commit)? {
            Some(listing) => listing,
            None => self.api.files(name, &commit, watch)?,
        };
        if !listing.holds_model() {
            return Err(Error::NoModel { name: name.clone(), existing: self.api.revisions(name, watch)? });
        }
        Ok(Current { commit, listing })
    }

    /// Downloads what the cache lacks of a commit.
    fn complete(
        &self,
        repository: &Repository,
        name: &ModelName,
        Current { commit, listing }: &Current,
        watch: &mut Watch<'_>,
    ) -> Result<PathBuf> {
        let path = repository.snapshot(commit);
        let lacking = repository.lacking(commit, listing)?;
        if !lacking.is_empty() {
            self.plan(repository, &lacking, watch)?;
            make_folder(&path)?;
            repository.keep_listing(commit, listing)?;
            // A first download can be seen from its beginning on; a later one replaces what the revision was
            // only when it is whole.
            if repository.commit(name)?.is_none() {
                repository.set_commit(name, commit)?;
            }
            let download = Download { api: &self.api, settings: &self.settings, repository, name, commit };
            for (path, entry) in lacking {
                download.fetch(path, entry, watch)?;
            }
        }
        repository.set_commit(name, commit)?;
        Ok(path)
    }

    /// Tells what will be downloaded, if the disk has room for it.
    fn plan(&self, repository: &Repository, files: &[(&str, &Entry)], watch: &mut Watch<'_>) -> Result<()> {
        let (mut bytes, mut present) = (0_u64, 0_u64);
        for (_, entry) in files {
            bytes = bytes.saturating_add(entry.bytes());
            present = present.saturating_add(repository.present(entry)?);
        }
        let folder = &self.settings.cache;
        make_folder(folder)?;
        let free =
            fs4::available_space(folder).map_err(|error| Error::io("measure the disk of", folder, error))?;
        let (missing, keep_free) = (bytes - present, self.settings.keep_free);
        if missing.saturating_add(keep_free) > free {
            return Err(Error::DiskTooSmall { missing, keep_free, free, folder: folder.clone() });
        }
        tell(watch, Event::Planned { files: files.len(), bytes, present })
    }
}
