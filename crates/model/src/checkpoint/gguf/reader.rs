//! Reads the primitive values of a GGUF header, little endian, and never past the end.

use std::path::Path;

use crate::{Error, Result};

/// Bytes that are read one after the other.
pub(super) struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    position: usize,
}

/// The longest text that is read, in bytes; chat templates have some 10,000.
const LONGEST_TEXT: u64 = 16 << 20;

impl<'a> Reader<'a> {
    /// Reads from the beginning; `path` is for messages.
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Reader<'a> {
        Reader { path, bytes, position: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some(array) = self.bytes[self.position..].first_chunk() else {
            return Err(self.damaged("the file ends within its header"));
        };
        self.position += N;
        Ok(*array)
    }

    /// A 32-bit number.
    pub(super) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A 64-bit number.
    pub(super) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text: its length in bytes as a 64-bit number, then UTF-8.
    pub(super) fn text(&mut self) -> Result<String> {
        let length = self.u64()?;
        if length > LONGEST_TEXT {
            return Err(self.damaged(&format!("a text of its header has {length} bytes")));
        }
        let Some(bytes) = self.bytes[self.position..].get(..length as usize) else {
            return Err(self.damaged("the file ends within a text of its header"));
        };
        self.position += bytes.len();
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.into()),
            Err(_) => Err(self.damaged("a text of its header is no UTF-8")),
        }
    }

    /// The refusal of a header that contradicts itself or the file.
    pub(super) fn damaged(&self, what: &str) -> Error {
        let at = self.position;
        let what =
            format!("{what} (byte {at}); the file is damaged or was not fetched wholly; fetch it again");
        Error::file(self.path, what)
    }
}
