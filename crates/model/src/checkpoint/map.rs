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
        // Asked before opening: opening a pipe waits for somebody to write into it.
        if !std::fs::metadata(path).map_err(|error| Error::io(path, &error))?.is_file() {
            return Err(Error::file(path, "is no regular file"));
        }
        let file = File::open(path).map_err(|error| Error::io(path, &error))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of its own with these bytes.
    fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("map-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_slice_keeps_the_map_alive() {
        let path = file("slice", b"0123456789");
        let slice = Map::open(&path).unwrap().slice(3..6);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(slice, b"345"[..]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn pages_are_in_memory_once_made_resident() {
        let path = file("resident", &vec![7; 4 << 20]);
        let map = Map::open(&path).unwrap();
        let resident = || {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let of_file = maps.split_once(path.to_str().unwrap()).unwrap().1;
            let line = of_file.lines().find(|line| line.starts_with("Rss:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
        };
        assert_eq!(resident(), 0);
        map.make_resident(1 << 20..3 << 20);
        // The system may map more pages around those.
        assert!(resident() >= 2048, "{} KiB", resident());
        map.make_resident(0..4 << 20);
        assert_eq!(resident(), 4096);
        std::fs::remove_file(&path).unwrap();
    }
}
