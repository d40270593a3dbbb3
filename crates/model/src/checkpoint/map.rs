//! A file in memory, without reading it: the one place with unsafe code.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::Mmap;

use crate::{Error, Result};

/// A read-only memory map of a whole file.
#[derive(Clone, Debug)]
pub(crate) struct Map(Arc<Mmap>);

impl Map {
    /// Maps a file.
    ///
    /// # Errors
    /// If it cannot be opened or mapped.
    pub(crate) fn open(path: &Path) -> Result<Map> {
        let file = File::open(path).map_err(|error| Error::io(path, &error))?;
        if !file.metadata().map_err(|error| Error::io(path, &error))?.is_file() {
            return Err(Error::file(path, "is no regular file"));
        }
        #[expect(unsafe_code, reason = "the bytes of a file can only be had without copying by mapping it")]
        // SAFETY: the map is read-only and private to readers of bytes; a program that changes the file
        // meanwhile can change numbers or end this process with SIGBUS, as for every user of mapped weights,
        // but every byte pattern is a valid byte.
        let map = unsafe { Mmap::map(&file) };
        Ok(Map(Arc::new(map.map_err(|error| Error::io(path, &error))?)))
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A part of the file that keeps the map alive.
    ///
    /// # Panics
    /// If the range reaches past the end.
    pub(crate) fn slice(&self, range: Range<usize>) -> Bytes {
        Bytes::from_owner(self.clone()).slice(range)
    }

    /// Reads a part of the file into memory now, so that neither the first token waits for it nor memory
    /// grows later.
    pub(crate) fn make_resident(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if self.0.advise_range(memmap2::Advice::PopulateRead, range.start, range.len()).is_ok() {
            return;
        }
        // Older kernels and other systems: touch one byte of every page.
        const PAGE: usize = 4096;
        for byte in self.0[range].iter().step_by(PAGE) {
            std::hint::black_box(*byte);
        }
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}
