//! One file from the hub into the cache.

use std::io::Read;

use crate::api::Api;
use crate::event::tell;
use crate::listing::Entry;
use crate::partial::{CHUNK, Partial};
use crate::repository::Repository;
use crate::retries::Retries;
use crate::{Error, Event, ModelName, Result, Settings, Watch};

/// Fetches the files of one commit.
pub(crate) struct Download<'a> {
    pub(crate) api: &'a Api,
    pub(crate) settings: &'a Settings,
    pub(crate) repository: &'a Repository,
    pub(crate) name: &'a ModelName,
    pub(crate) commit: &'a str,
}

impl Download<'_> {
    /// Brings a file into the snapshot, from where an earlier download stopped. Only one process at a time
    /// does this for a content; the others wait, then find it there.
    pub(crate) fn fetch(&self, path: &str, entry: &Entry, watch: &mut Watch<'_>) -> Result<()> {
        let _lock = self.repository.lock(path, entry, watch)?;
        let present = self.repository.present(entry)?;
        tell(watch, Event::File { file: path, bytes: entry.bytes(), present })?;
        if !self.repository.has_blob(entry)? {
            let mut partial = Partial::open(self.repository.partial(entry))?;
            match self.fill(&mut partial, path, entry, watch) {
                Ok(()) => partial.publish(&self.repository.blob(entry))?,
                Err(error @ Error::Damaged { .. }) => {
                    partial.discard()?;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        self.repository.link(self.commit, path, entry)
    }

    /// Receives until the content is whole and is what the hub lists. A connection that breaks after
    /// something came of it is not counted as a failure.
    fn fill(&self, partial: &mut Partial, path: &str, entry: &Entry, watch: &mut Watch<'_>) -> Result<()> {
        if partial.length() > entry.bytes() {
            partial.restart()?;
        }
        let mut retries = Retries::new(self.settings.first_pause);
        while partial.length() < entry.bytes() {
            let before = partial.length();
            if let Err(error) = self.receive(partial, path, entry, watch) {
                if partial.length() > before {
                    retries.reset();
                }
                retries.wait(error, watch)?;
            }
        }
        let damaged = |what| Error::Damaged { file: path.into(), what };
        if partial.length() != entry.bytes() {
            return Err(damaged(format!("it is longer than the {} bytes that the hub lists", entry.bytes())));
        }
        match &entry.lfs_sha256 {
            Some(needed) if partial.sha256() != *needed => {
                Err(damaged(format!("its SHA-256 is {}, not {needed}", partial.sha256())))
            }
            _ => Ok(()),
        }
    }

    /// Receives over one connection.
    fn receive(&self, partial: &mut Partial, path: &str, entry: &Entry, watch: &mut Watch<'_>) -> Result<()> {
        let mut content = self.api.open(self.name, self.commit, path, partial.length())?;
        if content.start != partial.length() {
            partial.restart()?;
            tell(watch, Event::File { file: path, bytes: entry.bytes(), present: 0 })?;
        }
        let mut chunk = vec![0; CHUNK];
        while partial.length() <= entry.bytes() {
            let read = content.body.read(&mut chunk);
            let broken = |why: String| Error::Unreachable { address: content.address.clone(), why };
            match read.map_err(|error| broken(error.to_string()))? {
                0 if partial.length() < entry.bytes() => return Err(broken("it ended early".into())),
                0 => break,
                count => {
                    partial.write(&chunk[..count])?;
                    tell(watch, Event::Received { bytes: count as u64 })?;
                }
            }
        }
        Ok(())
    }
}
