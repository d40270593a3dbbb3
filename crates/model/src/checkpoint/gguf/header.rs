//! The header of a GGUF file: its metadata, and names, formats, shapes and places of its tensors.
//!
//! ```text
//! "GGUF" · u32 version · u64 tensors · u64 keys
//! keys:    text key · u32 kind · value
//! tensors: text name · u32 dimensions · u64 sides, the innermost first · u32 format · u64 offset
//! padding to the alignment · data
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::blocks::Blocks;
use super::metadata::Metadata;
use super::reader::Reader;
use crate::{Error, Result};

/// What a header says.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) metadata: Metadata,
    pub(super) tensors: BTreeMap<String, Entry>,
}

/// A tensor of a file, by its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) blocks: Blocks,
    /// The outermost side first.
    pub(super) shape: Vec<usize>,
    /// Where in the file its bytes are: within the file, as many as format and shape ask for, and of no other tensor.
    pub(super) bytes: Range<usize>,
}

/// What a file begins with.
const MAGIC: [u8; 4] = *b"GGUF";
/// The versions that are read; they differ in nothing that is used here.
const VERSIONS: Range<u32> = 2..4;
/// The most dimensions that a tensor has.
const MOST_DIMENSIONS: u32 = 4;
/// What offsets are multiples of, unless the metadata says otherwise.
const ALIGNMENT: u64 = 32;

/// Reads and checks the header of a file; `path` is for messages.
///
/// # Errors
/// If the header is no header, or what it says does not fit the file.
pub(super) fn read(path: &Path, file: &[u8]) -> Result<Header> {
    let reader = &mut Reader::new(path, file);
    if reader.array()? != MAGIC {
        return Err(Error::file(path, "is no GGUF file: it does not begin with GGUF"));
    }
    let version = reader.u32()?;
    if !VERSIONS.contains(&version) {
        let what = format!(
            "is a GGUF file of version {version}; versions 2 and 3 are read (of machines that store the low byte first)"
        );
        return Err(Error::file(path, what));
    }
    let (tensors, keys) = (reader.u64()?, reader.u64()?);
    let metadata = Metadata::read(path, reader, keys)?;
    let mut offsets = BTreeMap::new();
    for _ in 0..tensors {
        let (name, offset, entry) = tensor(path, reader)?;
        if offsets.insert(name.clone(), (offset, entry)).is_some() {
            return Err(reader.damaged(&format!("its header has the tensor {name} twice")));
        }
    }
    let alignment = metadata.optional_whole("general.alignment")?.unwrap_or(ALIGNMENT);
    if !alignment.is_power_of_two() || alignment > 1 << 20 {
        return Err(metadata.error("general.alignment", format!("is {alignment}, which cannot be right")));
    }
    let start = (reader.position() as u64).next_multiple_of(alignment);
    let place = |(name, (offset, mut entry)): (String, (u64, Entry))| {
        let begin = start.checked_add(offset);
        let end = begin.and_then(|begin| begin.checked_add(entry.bytes.end as u64));
        match (begin, end) {
            (Some(begin), Some(end)) if end <= file.len() as u64 && offset.is_multiple_of(alignment) => {
                entry.bytes = begin as usize..end as usize;
                Ok((name, entry))
            }
            _ => {
                let what = format!(
                    "its {} bytes from offset {offset} on are not all in the file, which has {}; fetch it again",
                    entry.bytes.end,
                    file.len()
                );
                Err(Error::Tensor { path: path.into(), name, what })
            }
        }
    };
    let tensors: BTreeMap<String, Entry> = offsets.into_iter().map(place).collect::<Result<_>>()?;
    check_overlaps(path, &tensors)?;
    Ok(Header { metadata, tensors })
}

/// A tensor's name, offset, and its entry with `bytes` counted from 0.
fn tensor(path: &Path, reader: &mut Reader<'_>) -> Result<(String, u64, Entry)> {
    let name = reader.text()?;
    let dimensions = reader.u32()?;
    if dimensions > MOST_DIMENSIONS {
        return Err(reader.damaged(&format!("the tensor {name} has {dimensions} dimensions")));
    }
    let sides = (0..dimensions).map(|_| reader.u64()).collect::<Result<Vec<u64>>>()?;
    let (format, offset) = (reader.u32()?, reader.u64()?);
    let refuse = |what: String| Error::Tensor { path: path.into(), name: name.clone(), what };
    let Some((_, blocks)) = Blocks::ALL.into_iter().find(|(number, _)| *number == format) else {
        let what = format!(
            "is stored in GGUF's number format {format}; f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k \
             and q6_k are read"
        );
        return Err(refuse(what));
    };
    let row = sides.first().copied().unwrap_or(1);
    if !row.is_multiple_of(blocks.numbers() as u64) {
        return Err(refuse(format!("has rows of {row} numbers, no multiple of {}", blocks.numbers())));
    }
    let numbers = sides.iter().try_fold(1_u64, |product, &side| product.checked_mul(side));
    let bytes =
        numbers.and_then(|numbers| (numbers / blocks.numbers() as u64).checked_mul(blocks.bytes() as u64));
    let sides = sides.iter().rev().map(|&side| usize::try_from(side).ok()).collect::<Option<Vec<usize>>>();
    match (bytes.and_then(|bytes| usize::try_from(bytes).ok()), sides) {
        (Some(bytes), Some(shape)) => Ok((name, offset, Entry { blocks, shape, bytes: 0..bytes })),
        _ => Err(refuse("has more numbers than there can be; fetch it again".into())),
    }
}

fn check_overlaps(path: &Path, tensors: &BTreeMap<String, Entry>) -> Result<()> {
    let mut places: Vec<(&Range<usize>, &String)> = tensors
        .iter()
        .map(|(name, entry)| (&entry.bytes, name))
        .filter(|(bytes, _)| !bytes.is_empty())
        .collect();
    places.sort_by_key(|(bytes, _)| bytes.start);
    for pair in places.windows(2) {
        if pair[0].0.end > pair[1].0.start {
            let what = format!("shares bytes with {}; the file is damaged, fetch it again", pair[0].1);
            return Err(Error::Tensor { path: path.into(), name: pair[1].1.clone(), what });
        }
    }
    Ok(())
}
