//! A safetensors file, read wholly.

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorInfo};

/// The tensors of one safetensors file.
#[derive(Debug)]
pub struct Tensors {
    path: PathBuf,
    file: Vec<u8>,
    start: usize,
    metadata: Metadata,
}

impl Tensors {
    /// Reads a file.
    pub fn open(path: impl AsRef<Path>) -> Tensors {
        let path = path.as_ref().to_path_buf();
        let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (header, metadata) =
            SafeTensors::read_metadata(&file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // The header follows its own length, 8 bytes.
        Tensors { path, file, start: 8 + header, metadata }
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.metadata.tensors().into_keys().collect();
        names.sort_unstable();
        names
    }

    /// Whether there is a tensor of that name.
    pub fn has(&self, name: &str) -> bool {
        self.metadata.info(name).is_some()
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.info(name).shape.clone()
    }

    /// The bytes of a tensor, as stored.
    pub fn bytes(&self, name: &str) -> &[u8] {
        let (start, end) = self.info(name).data_offsets;
        &self.file[self.start + start..self.start + end]
    }

    /// The values of an F16, BF16 or F32 tensor.
    pub fn f32(&self, name: &str) -> Vec<f32> {
        let bytes = self.bytes(name);
        match self.info(name).dtype {
            Dtype::F32 => words(bytes, f32::from_le_bytes),
            Dtype::F16 => words(bytes, |word| f16::from_le_bytes(word).to_f32()),
            Dtype::BF16 => words(bytes, |word| bf16::from_le_bytes(word).to_f32()),
            other => panic!("{}: {name} is {other:?}, not a float", self.path.display()),
        }
    }

    /// The values of an F16 tensor.
    pub fn f16(&self, name: &str) -> Vec<f16> {
        self.require(name, Dtype::F16);
        words(self.bytes(name), f16::from_le_bytes)
    }

    /// The values of an I32 tensor of token ids.
    pub fn ids(&self, name: &str) -> Vec<u32> {
        self.require(name, Dtype::I32);
        words(self.bytes(name), u32::from_le_bytes)
    }

    fn require(&self, name: &str, dtype: Dtype) {
        assert_eq!(self.info(name).dtype, dtype, "dtype of {name} in {}", self.path.display());
    }

    fn info(&self, name: &str) -> &TensorInfo {
        let info = self.metadata.info(name);
        info.unwrap_or_else(|| panic!("{} has no tensor {name}", self.path.display()))
    }
}

fn words<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|word| read(*word)).collect()
}
