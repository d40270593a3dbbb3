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
    let size = file.len() as u64;
    let announced = file.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    let of_file = |what: String| Error::file(path, format!("{what}; {damaged}"));
    let of_tensor =
        |name, what: &str| Error::Tensor { path: path.into(), name, what: format!("{what}; {damaged}") };
    let infos = infos(file);
    match error {
        SafeTensorError::HeaderTooSmall => of_file(format!("ends after {size} bytes, before the header")),
        SafeTensorError::HeaderTooLarge => {
            of_file(format!("the header is too large ({announced} bytes, at most 100,000,000 are read)"))
        }
        SafeTensorError::InvalidHeaderLength => {
            of_file(format!("the file has {size} bytes, its header alone announces {announced}"))
        }
        SafeTensorError::InvalidHeader(_) => of_file("the header is no text".into()),
        SafeTensorError::InvalidHeaderDeserialization(error) => {
            of_file(format!("the header is no JSON of tensors ({error})"))
        }
        SafeTensorError::TensorInvalidInfo | SafeTensorError::ValidationOverflow => {
            let what = "its shape and its offsets disagree";
            match infos.into_iter().find(|(_, info)| expected_bytes(info) != found_bytes(info)) {
                Some((name, _)) => of_tensor(name, what),
                None => of_file(what.into()),
            }
        }
        SafeTensorError::InvalidOffset(_) | SafeTensorError::MetadataIncompleteBuffer => {
            let end =
                |info: &TensorInfo| (LENGTH as u64 + announced).saturating_add(info.data_offsets.1 as u64);
            match (infos.into_iter().max_by_key(|(_, info)| end(info)), error) {
                (Some((name, info)), _) if end(&info) > size => {
                    of_tensor(name, &format!("ends at byte {} of a file of {size} bytes", end(&info)))
                }
                (_, SafeTensorError::InvalidOffset(name)) => {
                    of_tensor(name, "its offsets overlap another tensor's, leave a gap or run backwards")
                }
                _ => of_file("has bytes after its last tensor".into()),
            }
        }
        other => of_file(other.to_string()),
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

fn found_bytes(info: &TensorInfo) -> Option<usize> {
    info.data_offsets.1.checked_sub(info.data_offsets.0)
}

fn expected_bytes(info: &TensorInfo) -> Option<usize> {
    let numbers = info.shape.iter().try_fold(1usize, |product, &side| product.checked_mul(side))?;
    Some(numbers.checked_mul(info.dtype.bitsize())? / 8)
}
