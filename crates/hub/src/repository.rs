//! One model's folder in the cache, laid out as the hub's other clients lay it out.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::event::tell;
use crate::listing::{CONFIG, Entry, INDEX, Listing, is_weights};
use crate::name::is_commit;
use crate::{Error, Event, ModelName, Result, Watch};

/// How often another process's lock is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// What every model's folder begins with.
const PREFIX: &str = "models--";

/// One model's folder in the cache.
///
/// | path | what it is |
/// |---|---|
/// | `blobs/<hash>` | a file's content, under the git hash, or under the SHA-256 if it is large |
/// | `blobs/<hash>.incomplete` | the first part of one |
/// | `snapshots/<commit>/<path>` | the files of a commit: links to blobs |
/// | `refs/<revision>` | the commit that a branch or tag was when it was last seen |
/// | `trees/<commit>.json` | what files the commit has |
/// | `../.locks/<folder>/<hash>.lock` | held while a blob is written |
pub(crate) struct Repository {
    folder: PathBuf,
    locks: PathBuf,
}

impl Repository {
    pub(crate) fn new(cache: &Path, name: &ModelName) -> Self {
        let folder = format!("{PREFIX}{}", name.repository().replace('/', "--"));
        Self { locks: cache.join(".locks").join(&folder), folder: cache.join(folder) }
    }

    /// `organisation/repository` of a folder in the cache, if it is one of a model.
    pub(crate) fn name_of(folder: &str) -> Option<String> {
        let (organisation, repository) = folder.strip_prefix(PREFIX)?.split_once("--")?;
        Some(format!("{organisation}/{repository}"))
    }

    /// The folder of a commit's files.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Where a file's content goes.
    pub(crate) fn blob(&self, entry: &Entry) -> PathBuf {
        self.folder.join("blobs").join(entry.blob())
    }

    /// Where the first part of a file's content is, until it is whole.
    pub(crate) fn partial(&self, entry: &Entry) -> PathBuf {
        self.folder.join("blobs").join(format!("{}.incomplete", entry.blob()))
    }

    /// Whether a file's content is there, with the right size.
    pub(crate) fn has_blob(&self, entry: &Entry) -> Result<bool> {
        Ok(length(&self.blob(entry))? == Some(entry.bytes()))
    }

    /// Bytes of a file that earlier downloads left.
    pub(crate) fn present(&self, entry: &Entry) -> Result<u64> {
        if self.has_blob(entry)? {
            return Ok(entry.bytes());
        }
        Ok(length(&self.partial(entry))?.filter(|length| *length <= entry.bytes()).unwrap_or(0))
    }

    /// The commit that a revision was when it was last seen.
    pub(crate) fn commit(&self, name: &ModelName) -> Result<Option<String>> {
        if let Some(commit) = name.commit() {
            return Ok(Some(commit.into()));
        }
        let text = read(&self.reference(name.revision()))?;
        Ok(text.map(|text| text.trim().into()).filter(|commit: &String| is_commit(commit)))
    }

    /// Keeps what a revision is now. A commit needs no such note.
    pub(crate) fn set_commit(&self, name: &ModelName, commit: &str) -> Result<()> {
        if self.commit(name)?.as_deref() == Some(commit) {
            return Ok(());
        }
        self.write(&self.reference(name.revision()), commit.as_bytes())
    }

    /// The revisions that the cache has notes of, sorted.
    pub(crate) fn revisions(&self) -> Result<Vec<String>> {
        let refs = self.folder.join("refs");
        let names = files_below(&refs)?.into_iter().map(|path| path.to_string_lossy().into_owned());
        Ok(names.collect())
    }

    /// The commits that the cache has files of, sorted.
    pub(crate) fn commits(&self) -> Result<Vec<String>> {
        let snapshots = self.folder.join("snapshots");
        let mut names: Vec<String> = entries(&snapshots)?.into_iter().map(|(name, _)| name).collect();
        names.retain(|name| is_commit(name));
        names.sort();
        Ok(names)
    }

    /// What files a commit has, if that was kept.
    pub(crate) fn listing(&self, commit: &str) -> Result<Option<Listing>> {
        Ok(read(&self.tree(commit))?.and_then(|text| Listing::parse(&text)))
    }

    /// Keeps what files a commit has.
    pub(crate) fn keep_listing(&self, commit: &str, listing: &Listing) -> Result<()> {
        self.write(&self.tree(commit), &listing.to_json())
    }

    /// The files that running the model takes and that a snapshot lacks, by a list of the commit's files.
    pub(crate) fn lacking<'l>(
        &self,
        commit: &str,
        listing: &'l Listing,
    ) -> Result<Vec<(&'l str, &'l Entry)>> {
        let snapshot = self.snapshot(commit);
        let mut lacking = Vec::new();
        for (path, entry) in listing.needed() {
            if length(&snapshot.join(path))? != Some(entry.bytes()) {
                lacking.push((path, entry));
            }
        }
        Ok(lacking)
    }

    /// The files that running the model takes and that a snapshot lacks, as far as the cache can tell.
    ///
    /// Where it has no list of the commit's files (clients write it only lately) they are the configuration and
    /// the weights that the index names, or some weights if there is no index.
    pub(crate) fn missing(&self, commit: &str) -> Result<Vec<String>> {
        if let Some(listing) = self.listing(commit)? {
            return Ok(self.lacking(commit, &listing)?.into_iter().map(|(path, _)| path.into()).collect());
        }
        let snapshot = self.snapshot(commit);
        let mut needed = vec![CONFIG.to_owned()];
        match read(&snapshot.join(INDEX))? {
            Some(index) => needed.extend(shards(&snapshot.join(INDEX), &index)?),
            None if entries(&snapshot)?.iter().any(|(name, _)| is_weights(name)) => {}
            None => needed.push("model.safetensors".into()),
        }
        let mut missing = Vec::new();
        for path in needed {
            if length(&snapshot.join(&path))?.is_none() {
                missing.push(path);
            }
        }
        Ok(missing)
    }

    /// Waits until no other process writes this content. The lock goes with the value, or with the process.
    pub(crate) fn lock(&self, path: &str, entry: &Entry, watch: &mut Watch<'_>) -> Result<File> {
        let place = self.locks.join(format!("{}.lock", entry.blob()));
        make_folder_of(&place)?;
        let file = File::options().write(true).create(true).truncate(false).open(&place);
        let file = file.map_err(|error| Error::io("open the lock", &place, error))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => {
                    tell(watch, Event::Waiting { file: path })?;
                    std::thread::sleep(LOOK);
                }
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &place, error)),
            }
        }
    }

    /// Makes a content visible in a commit's folder.
    pub(crate) fn link(&self, commit: &str, path: &str, entry: &Entry) -> Result<()> {
        let place = self.snapshot(commit).join(path);
        if length(&place)? == Some(entry.bytes()) {
            return Ok(());
        }
        make_folder_of(&place)?;
        match fs::remove_file(&place) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("replace", &place, error));
            }
            _ => {}
        }
        make_link(&self.blob(entry), &place, path.split('/').count() + 1)
            .map_err(|error| Error::io("make the link", &place, error))
    }

    fn reference(&self, revision: &str) -> PathBuf {
        self.folder.join("refs").join(revision)
    }

    fn tree(&self, commit: &str) -> PathBuf {
        self.folder.join("trees").join(format!("{commit}.json"))
    }

    /// Writes a small file so that readers see the old or the new content and nothing between.
    fn write(&self, path: &Path, content: &[u8]) -> Result<()> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let fresh = self.folder.join(format!(".{}-{number}.tmp", process::id()));
        make_folder_of(path)?;
        fs::write(&fresh, content).map_err(|error| Error::io("write", &fresh, error))?;
        fs::rename(&fresh, path).map_err(|error| Error::io("write", path, error))
    }
}

/// The files that an index names.
fn shards(path: &Path, text: &str) -> Result<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let index: Index = serde_json::from_str(text)
        .map_err(|error| Error::io("read the index", path, std::io::Error::other(error)))?;
    let mut files: Vec<String> = index.weight_map.into_values().collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// A link that still holds when the whole cache is moved: `up` folders up from where it is, then to the blob.
#[cfg(unix)]
fn make_link(blob: &Path, place: &Path, up: usize) -> std::io::Result<()> {
    let mut target: PathBuf = std::iter::repeat_n("..", up).collect();
    target.push("blobs");
    target.extend(blob.file_name());
    std::os::unix::fs::symlink(target, place)
}

/// A second name of the blob, where making a symbolic link takes rights that users do not have.
#[cfg(not(unix))]
fn make_link(blob: &Path, place: &Path, _up: usize) -> std::io::Result<()> {
    fs::hard_link(blob, place)
}

/// The size of a file, through links; nothing if there is none.
pub(crate) fn length(path: &Path) -> Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
        Ok(_) => Ok(None),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Error::io("look at", path, error)),
    }
}

/// Names and paths of what is in a folder; none if there is no such folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let failed = |error| Error::io("list", folder, error);
    match fs::read_dir(folder) {
        Ok(found) => found
            .map(|entry| entry.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())))
            .collect::<std::io::Result<_>>()
            .map_err(failed),
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

/// The files below a folder, relative to it and sorted; none if there is no such folder.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (name, path) in entries(folder)? {
        if path.is_dir() {
            files.extend(files_below(&path)?.into_iter().map(|file| Path::new(&name).join(file)));
        } else {
            files.push(name.into());
        }
    }
    files.sort();
    Ok(files)
}

pub(crate) fn make_folder_of(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), make_folder)
}

/// Makes a folder and those above it, unless they are there.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, error))
}

fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
