//! The first part of a file, as far as it has arrived.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::repository::make_folder_of;
use crate::{Error, Result};

/// Bytes that are read or received at once.
pub(crate) const CHUNK: usize = 256 << 10;

/// A file on the disk that holds the first part of a content, and the digest of what it holds.
///
/// Each piece is written as it arrives and nothing is held back, so whatever ends the process leaves a file
/// from which the next one can go on.
pub(crate) struct Partial {
    path: PathBuf,
    file: File,
    length: u64,
    digest: Sha256,
}

impl Partial {
    /// Takes up what an earlier download left, or begins.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        make_folder_of(&path)?;
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|error| Error::io("open", &path, error))?;
        let mut partial = Self { path, file, length: 0, digest: Sha256::new() };
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = partial.file.read(&mut chunk);
            match read.map_err(|error| Error::io("read", &partial.path, error))? {
                0 => return Ok(partial),
                count => partial.take(&chunk[..count]),
            }
        }
    }

    /// Bytes that have arrived.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Appends what has arrived.
    pub(crate) fn write(&mut self, chunk: &[u8]) -> Result<()> {
        self.file.write_all(chunk).map_err(|error| Error::io("write", &self.path, error))?;
        self.take(chunk);
        Ok(())
    }

    /// Begins anew.
    pub(crate) fn restart(&mut self) -> Result<()> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map_err(|error| Error::io("empty", &self.path, error))?;
        self.length = 0;
        self.digest = Sha256::new();
        Ok(())
    }

    /// The SHA-256 of what has arrived, in hexadecimal digits.
    pub(crate) fn sha256(&self) -> String {
        self.digest.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Gives the whole content its place at once. It is on the disk by then, so that no power cut can leave
    /// a place without its content.
    pub(crate) fn publish(self, place: &Path) -> Result<()> {
        self.file.sync_all().map_err(|error| Error::io("write", &self.path, error))?;
        fs::rename(&self.path, place).map_err(|error| Error::io("write", place, error))
    }

    /// Throws away what has arrived.
    pub(crate) fn discard(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|error| Error::io("remove", &self.path, error))
    }

    fn take(&mut self, chunk: &[u8]) {
        self.length += chunk.len() as u64;
        self.digest.update(chunk);
    }
}
