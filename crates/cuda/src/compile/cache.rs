//! Compiled kernels on disk.
//!
//! A file is named by the SHA-256 of all that a cubin depends on, and holds the SHA-256 of its content before it. It
//! is written beside its place and renamed, so that another process sees all of it or nothing; a damaged file
//! counts as absent and is written anew.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io, process};

use sha2::{Digest, Sha256};

/// Bytes of a SHA-256.
const SUM: usize = 32;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub(crate) struct CubinCache {
    folder: PathBuf,
}

impl CubinCache {
    pub(crate) fn new(folder: &Path) -> CubinCache {
        CubinCache { folder: folder.to_owned() }
    }

    /// What was compiled from this source with these flags, if it is there and whole.
    pub(crate) fn get(&self, source: &str, flags: &[String]) -> Option<Vec<u8>> {
        let file = fs::read(self.path(source, flags)).ok()?;
        let (sum, cubin) = file.split_at_checked(SUM)?;
        (Sha256::digest(cubin).as_slice() == sum).then(|| cubin.to_vec())
    }

    /// Keeps what was compiled.
    ///
    /// # Errors
    /// If the folder cannot be made or written.
    pub(crate) fn put(&self, source: &str, flags: &[String], cubin: &[u8]) -> io::Result<()> {
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(&self.folder)?;
        let path = self.path(source, flags);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_extension(format!("{}-{number}.part", process::id()));
        fs::write(&beside, [Sha256::digest(cubin).as_slice(), cubin].concat())?;
        fs::rename(beside, path)
    }

    fn path(&self, source: &str, flags: &[String]) -> PathBuf {
        let mut key = Sha256::new();
        for part in flags.iter().map(String::as_str).chain([source]) {
            key.update((part.len() as u64).to_le_bytes());
            key.update(part);
        }
        let name: String = key.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.cubin"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubin_comes_back_for_the_same_source_and_flags_alone() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::new(&folder.path().join("new"));
        let flags = ["-a".to_owned(), "-b".to_owned()];
        assert_eq!(cache.get("source", &flags), None);
        cache.put("source", &flags, b"cubin").unwrap();
        assert_eq!(cache.get("source", &flags).as_deref(), Some(&b"cubin"[..]));
        assert_eq!(cache.get("other", &flags), None);
        assert_eq!(cache.get("source", &flags[..1]), None);
        assert_eq!(cache.get("source", &["-a-b".to_owned()]), None);
    }

    #[test]
    fn a_damaged_file_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::new(folder.path());
        cache.put("source", &[], b"cubin").unwrap();
        let path = cache.path("source", &[]);
        let whole = fs::read(&path).unwrap();
        for damaged in [&whole[..whole.len() - 1], &whole[..20], b""] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.get("source", &[]), None);
        }
        cache.put("source", &[], b"cubin").unwrap();
        assert!(cache.get("source", &[]).is_some());
    }
}
