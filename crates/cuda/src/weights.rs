//! Weights on the device: blocks of memory that never move, and what each part of a weight is.

use std::sync::Arc;

use exl3::hadamard::padded;
use exl3::tile::TILE;
use exl3::{Embedding, EmbeddingParts, Linear, LinearParts};
use half::f16;
use program::{Dtype, Error, HostTensor, Kind, Result, Storage, WeightId};

use crate::driver::{Address, Buffer, Context};
use crate::launch::Params;

/// Bytes of the first block; each one is twice as large as the one before, up to [`LARGEST_BLOCK`].
const FIRST_BLOCK: usize = 1 << 20;

/// Bytes of later blocks.
const LARGEST_BLOCK: usize = 256 << 20;

/// Bytes of the struct `Matrix` of the kernels.
pub(crate) const MATRIX_BYTES: usize = 48;

/// Tensors begin at multiples of this many bytes.
const ALIGNMENT: usize = 256;

/// One part of a weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) storage: Storage,
    /// Codes, or plain numbers; a vector is `f32` whatever it was.
    pub(crate) data: Address,
    /// Signs times scales of the inputs of codes, or signs of a table's channels.
    pub(crate) suh: Address,
    /// Signs times scales of the outputs of codes.
    pub(crate) svh: Address,
    pub(crate) bias: Address,
}

/// All weights that were uploaded.
#[derive(Debug)]
pub(crate) struct Weights {
    context: Arc<Context>,
    parts: Vec<Vec<Option<Part>>>,
    blocks: Vec<Buffer>,
    /// Bytes taken of the last block.
    taken: usize,
}

impl Weights {
    pub(crate) fn new(context: &Arc<Context>) -> Weights {
        Weights { context: context.clone(), parts: Vec::new(), blocks: Vec::new(), taken: 0 }
    }

    /// All parts of a weight, if it was uploaded wholly.
    pub(crate) fn parts(&self, id: WeightId) -> Option<Vec<Part>> {
        let parts = self.parts.get(id.0 as usize)?;
        if parts.is_empty() { None } else { parts.iter().copied().collect() }
    }

    /// Checks and copies one part of a weight.
    ///
    /// # Errors
    /// [`Error::Weight`] or [`Error::Codec`] if the tensor contradicts itself; [`Error::Use`] if there is no memory.
    pub(crate) fn insert(&mut self, id: WeightId, part: u32, tensor: &HostTensor) -> Result<()> {
        check(tensor).map_err(|what| match what {
            Fault::Tensor(what) => Error::Weight { name: format!("weight {} part {part}", id.0), what },
            Fault::Codec(error) => Error::Codec(error),
        })?;
        let (kind, storage) = (tensor.kind(), tensor.storage());
        let mut stored = Part {
            kind,
            storage,
            data: Address::NULL,
            suh: Address::NULL,
            svh: Address::NULL,
            bias: Address::NULL,
        };
        match tensor {
            HostTensor::Dense { dtype, data, bias, .. } => {
                stored.data = match kind {
                    Kind::Vector { .. } => {
                        self.store(&floats(data.chunks_exact(dtype.bytes()).map(|x| dtype.read(x))))?
                    }
                    _ => self.store(data)?,
                };
                stored.bias = self.store_bias(bias.as_deref())?;
            }
            HostTensor::Exl3 { bits, trellis, suh, svh, bias, .. } => {
                stored.data = self.store(&by_blocks(trellis, bits.tile_bytes(), svh.len() / TILE))?;
                stored.suh = self.store(&halves(suh))?;
                stored.svh = self.store(&halves(svh))?;
                stored.bias = self.store_bias(bias.as_deref())?;
            }
            HostTensor::Exl3Table { trellis, signs, .. } => {
                stored.data = self.store(trellis)?;
                stored.suh = self.store(&halves(signs))?;
            }
        }
        let (id, part) = (id.0 as usize, part as usize);
        if self.parts.len() <= id {
            self.parts.resize_with(id + 1, Vec::new);
        }
        let parts = &mut self.parts[id];
        if parts.len() <= part {
            parts.resize(part + 1, None);
        }
        parts[part] = Some(stored);
        Ok(())
    }

    fn store_bias(&mut self, bias: Option<&[f32]>) -> Result<Address> {
        bias.map_or(Ok(Address::NULL), |bias| self.store(&floats(bias.iter().copied())))
    }

    fn store(&mut self, bytes: &[u8]) -> Result<Address> {
        let needed = bytes.len().next_multiple_of(ALIGNMENT);
        if self.blocks.last().is_none_or(|block| self.taken + needed > block.len()) {
            let next = FIRST_BLOCK << self.blocks.len().min(16);
            self.blocks.push(Buffer::new(&self.context, next.min(LARGEST_BLOCK).max(needed))?);
            self.taken = 0;
        }
        let start = self.taken;
        self.taken += needed;
        let block = &self.blocks[self.blocks.len() - 1];
        block.write(start, bytes)?;
        Ok(block.address() + start)
    }
}

impl Part {
    /// Rows and columns of a matrix.
    pub(crate) fn shape(&self) -> (u32, u32) {
        self.kind.shape()
    }

    /// The struct `Matrix` of the kernels.
    pub(crate) fn matrix(&self) -> Vec<u8> {
        let (out, inputs) = self.shape();
        let [data, suh, svh, bias] = [self.data, self.suh, self.svh, self.bias];
        let params = Params::new().address(data).address(suh).address(svh).address(bias);
        params.word(inputs).word(out).word(storage_number(self.storage)).word(0).bytes()
    }
}

/// A number for each storage, by which kernels tell matrices apart.
pub(crate) fn storage_number(storage: Storage) -> u32 {
    match storage {
        Storage::Dense(Dtype::F32) => 0,
        Storage::Dense(Dtype::F16) => 1,
        Storage::Dense(Dtype::Bf16) => 2,
        Storage::Exl3 { bits, codebook } => 1024 * (1 + codebook as u32) + u32::from(bits.half_bits()),
        Storage::Exl3Table { bits } => 8192 + u32::from(bits.half_bits()),
    }
}

/// Bytes that a weight takes on this device.
pub(crate) fn bytes(kind: Kind, storage: Storage) -> u64 {
    let bytes = match kind {
        Kind::Vector { len } => u64::from(len) * 4,
        _ => storage.bytes(kind),
    };
    bytes.next_multiple_of(ALIGNMENT as u64)
}

enum Fault {
    Tensor(String),
    Codec(exl3::Error),
}

fn check(tensor: &HostTensor) -> Result<(), Fault> {
    let (out, inputs) = tensor.kind().shape();
    let (out, inputs) = (out as usize, inputs as usize);
    match tensor {
        HostTensor::Dense { kind, dtype, data, bias } => {
            let needed = out * inputs * dtype.bytes();
            if data.len() != needed {
                return Err(Fault::Tensor(format!("{kind:?} has {} bytes, {needed} are needed", data.len())));
            }
            check_bias(*kind, bias.as_deref())
        }
        HostTensor::Exl3 { kind, bits, codebook, trellis, suh, svh, bias } => {
            let Kind::Linear { .. } = kind else {
                return Err(Fault::Tensor(format!("{kind:?} cannot be stored as codes of a linear map")));
            };
            let shape = [padded(inputs) / TILE, padded(out) / TILE, bits.tile_words()];
            let parts = LinearParts { trellis, shape, suh, svh, bias: None, codebook: *codebook };
            Linear::new(parts).map_err(Fault::Codec)?;
            check_bias(*kind, bias.as_deref())
        }
        HostTensor::Exl3Table { kind, bits, trellis, signs } => {
            let Kind::Table { .. } = kind else {
                return Err(Fault::Tensor(format!("{kind:?} cannot be stored as codes of a table")));
            };
            let words = inputs.div_ceil(256) * (1 + bits.tile_words());
            let parts = EmbeddingParts { trellis, shape: [out, words], signs, hidden: inputs };
            Embedding::new(parts).map(drop).map_err(Fault::Codec)
        }
    }
}

fn check_bias(kind: Kind, bias: Option<&[f32]>) -> Result<(), Fault> {
    let needed = match kind {
        Kind::Linear { out, bias: true, .. } => Some(out as usize),
        _ => None,
    };
    let found = bias.map(<[f32]>::len);
    if found == needed {
        return Ok(());
    }
    Err(Fault::Tensor(format!("{kind:?} has a bias of {found:?} numbers, {needed:?} are needed")))
}

/// Tiles in the order in which kernels use them: for each eight columns of tiles (128 outputs) all rows.
fn by_blocks(trellis: &[u8], tile_bytes: usize, columns: usize) -> Vec<u8> {
    let (row, eight) = (columns * tile_bytes, 8 * tile_bytes);
    let mut ordered = Vec::with_capacity(trellis.len());
    for start in (0..row).step_by(eight) {
        for tiles in trellis.chunks_exact(row) {
            ordered.extend_from_slice(&tiles[start..start + eight]);
        }
    }
    ordered
}

fn halves(values: &[f16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}
