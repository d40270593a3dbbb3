//! The header of a safetensors file: names, number formats, shapes and places of its tensors.
//!
//! ```text
//! u64 length · JSON {name: {"dtype", "shape", "data_offsets": [start, end]}, ...} · data
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use safetensors::tensor::TensorInfo;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde_json::Value;

use crate::{Error, Result};

/// Bytes of the header's own length.
const LENGTH: usize = 8;

/// A tensor of a file, by its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The number format.
    pub(crate) dtype: Dtype,
    /// The shape.
    pub(crate) shape: Vec<usize>,
    /// Where in the file its bytes are: within the file, as many as format and shape ask for, and of no other tensor.
    pub(crate) bytes: Range<usize>,
}

/// Reads and checks the header of a file; `path` is for messages.
///
/// # Errors
/// If the header is no header, or what it says does not fit the file.
pub(crate) fn read(path: &Path, file: &[u8]) -> Result<BTreeMap<String, Entry>> {
    let (length, metadata) = SafeTensors::read_metadata(file).map_err(|error| explain(path, file, error))?;
    let start = LENGTH + length;
    let entry = |info: &TensorInfo| Entry {
        dtype: info.dtype,
        shape: info.shape.clone(),
        bytes: start + info.data_offsets.0..start + info.data_offsets.1,
    };
    Ok(metadata.tensors().into_iter().map(|(name, info)| (name, entry(info))).collect())
}

/// One sentence about a header that was refused.
fn explain(path: &Path, file: &[u8], error: SafeTensorError) -> Error {
    let damaged = "the file is damaged or was not fetched wholly; fetch it again";
    let announced = file.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    match error {
        SafeTensorError::HeaderTooSmall => {
            Error::file(path, format!("ends after {} bytes, before the header; {damaged}", file.len()))
        }
        SafeTensorError::HeaderTooLarge => Error::file(
            path,
            format!("the header is too large ({announced} bytes, at most 100,000,000 are read); {damaged}"),
        ),
        SafeTensorError::InvalidHeaderLength => {
            let what = format!(
                "the file has {} bytes, its header alone announces {announced}; {damaged}",
                file.len()
            );
            Error::file(path, what)
        }
        SafeTensorError::InvalidHeader(_) => Error::file(path, format!("the header is no text; {damaged}")),
        SafeTensorError::InvalidHeaderDeserialization(error) => {
            Error::file(path, format!("the header is no JSON of tensors ({error}); {damaged}"))
        }
        SafeTensorError::InvalidOffset(name) => Error::Tensor {
            path: path.into(),
            name,
            what: format!("its offsets overlap another tensor's, leave a gap or run backwards; {damaged}"),
        },
        SafeTensorError::TensorInvalidInfo | SafeTensorError::ValidationOverflow => {
            let what = format!("its shape and its offsets disagree; {damaged}");
            match infos(file).into_iter().find(|(_, info)| {
                expected_bytes(info) != info.data_offsets.1.checked_sub(info.data_offsets.0)
            }) {
                Some((name, _)) => Error::Tensor { path: path.into(), name, what },
                None => Error::file(path, what),
            }
        }
        SafeTensorError::MetadataIncompleteBuffer => {
            let header = LENGTH as u64 + announced;
            let last = infos(file).into_iter().max_by_key(|(_, info)| info.data_offsets.1);
            match last {
                Some((name, info)) if header + info.data_offsets.1 as u64 > file.len() as u64 => {
                    Error::Tensor {
                        path: path.into(),
                        name,
                        what: format!(
                            "ends at byte {} of a file of {} bytes; {damaged}",
                            header + info.data_offsets.1 as u64,
                            file.len()
                        ),
                    }
                }
                _ => Error::file(path, format!("has bytes after its last tensor; {damaged}")),
            }
        }
        other => Error::file(path, format!("{other}; {damaged}")),
    }
}

/// What the header says of each tensor, without any check.
fn infos(file: &[u8]) -> BTreeMap<String, TensorInfo> {
    let length = file.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    let header = usize::try_from(length).ok().and_then(|length| file.get(LENGTH..)?.get(..length));
    let Some(Ok(Value::Object(header))) = header.map(serde_json::from_slice) else { return BTreeMap::new() };
    let info = |(name, value)| Some((name, serde_json::from_value(value).ok()?));
    header.into_iter().filter_map(info).collect()
}

fn expected_bytes(info: &TensorInfo) -> Option<usize> {
    let numbers = info.shape.iter().try_fold(1usize, |product, &side| product.checked_mul(side))?;
    Some(numbers.checked_mul(info.dtype.bitsize())? / 8)
}
