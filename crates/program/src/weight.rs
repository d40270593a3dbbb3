//! Weights: what a model asks for, how a checkpoint stores it, and the host's copy on its way to a device.

use bytes::Bytes;
use exl3::{Bits, Codebook};
use half::f16;

/// A weight of a model: its index in [`ModelSpec::weights`](crate::ModelSpec::weights).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightId(pub u32);

/// What a weight is for, with its logical shape (no padding).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `len` numbers used one by one: a norm's weight, a routing bias. Named by its whole tensor name.
    Vector {
        /// How many.
        len: u32,
    },
    /// A linear map `y = W x (+ bias)`, `W` being `[out, inputs]`. Named by its module
    /// (`model.layers.0.mlp.up_proj`), to which the storage adds `.weight`, `.trellis`, `.bias`, ...
    Linear {
        /// Output features.
        out: u32,
        /// Input features.
        inputs: u32,
        /// Whether a bias of `out` numbers belongs to it.
        bias: bool,
    },
    /// A matrix `[out, inputs]` that a device takes apart by rows (the `kv_b` of latent attention), and
    /// which therefore reaches it as plain numbers whatever the checkpoint stores. Named like a linear.
    Plain {
        /// Rows.
        out: u32,
        /// Columns.
        inputs: u32,
    },
    /// An embedding table `[vocab, hidden]`, read a row at a time. Named by its module.
    Table {
        /// Rows: one a token id.
        vocab: u32,
        /// Columns.
        hidden: u32,
    },
}

impl Kind {
    /// How many trained numbers the weight has.
    pub fn parameters(self) -> u64 {
        let (rows, cols) = self.shape();
        let bias = matches!(self, Kind::Linear { bias: true, .. });
        u64::from(rows) * u64::from(cols) + if bias { u64::from(rows) } else { 0 }
    }

    /// Rows and columns; a vector is one row.
    pub fn shape(self) -> (u32, u32) {
        match self {
            Kind::Vector { len } => (1, len),
            Kind::Linear { out, inputs, .. } | Kind::Plain { out, inputs } => (out, inputs),
            Kind::Table { vocab, hidden } => (vocab, hidden),
        }
    }
}

/// How plain numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
}

impl Dtype {
    /// Bytes of one number.
    pub const fn bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }

    /// The number that `bytes` (little endian, [`Dtype::bytes`] long) stand for.
    pub fn read(self, bytes: &[u8]) -> f32 {
        match self {
            Dtype::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Dtype::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
            Dtype::Bf16 => f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16),
        }
    }
}

/// How a weight is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Plain numbers, row-major, without padding.
    Dense(Dtype),
    /// Trellis codes of a linear map, both dimensions padded to multiples of 128.
    Exl3 {
        /// Bits a weight.
        bits: Bits,
        /// What the codes stand for.
        codebook: Codebook,
    },
    /// Trellis codes of an embedding table, row by row (always the `mul1` codebook).
    Exl3Table {
        /// Bits a weight.
        bits: Bits,
    },
}

impl Storage {
    /// Bytes that a weight of `kind` takes in this storage, scales and bias included.
    pub fn bytes(self, kind: Kind) -> u64 {
        let (rows, cols) = kind.shape();
        let (rows, cols) = (rows as usize, cols as usize);
        let bias = if matches!(kind, Kind::Linear { bias: true, .. }) { rows * 4 } else { 0 };
        let weights = match self {
            Storage::Dense(dtype) => rows * cols * dtype.bytes(),
            Storage::Exl3 { bits, .. } => {
                let (n, k) = (exl3::hadamard::padded(rows), exl3::hadamard::padded(cols));
                n * k / 256 * bits.tile_bytes() + (n + k) * 2
            }
            Storage::Exl3Table { bits } => {
                let groups = cols.div_ceil(256);
                rows * groups * (2 + bits.tile_bytes()) + groups * 512
            }
        };
        (weights + bias) as u64
    }
}

/// One weight of a model: its use and where each of its parts comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightSpec {
    /// What it is for, with its logical shape; the same for all parts.
    pub kind: Kind,
    /// One entry, or one an expert.
    pub parts: Vec<PartSpec>,
}

/// One part of a weight: the whole of it, or one expert's.
#[derive(Clone, Debug, PartialEq)]
pub struct PartSpec {
    /// Its name in the checkpoint: a module for linears and tables, a tensor for vectors.
    pub name: String,
    /// How it is stored there. Experts of one layer may differ.
    pub storage: Storage,
}

/// The host's copy of one part of a weight. It owns a slice of the memory map where it can
/// (`Bytes::from_owner`), so that a device on the host keeps it without copying.
#[derive(Clone, Debug)]
pub enum HostTensor {
    /// Plain numbers.
    Dense {
        /// The use and logical shape.
        kind: Kind,
        /// The number format of `data`.
        dtype: Dtype,
        /// Row-major little-endian numbers, as many as `kind` has rows times columns; no alignment.
        data: Bytes,
        /// `out` numbers, or none.
        bias: Option<Vec<f32>>,
    },
    /// Trellis codes of a linear map.
    Exl3 {
        /// The use and logical shape; the stored sizes are padded to multiples of 128.
        kind: Kind,
        /// Bits a weight.
        bits: Bits,
        /// What the codes stand for.
        codebook: Codebook,
        /// Tiles `[inputs / 16, out / 16]` of `bits.tile_bytes()` each; no alignment.
        trellis: Bytes,
        /// Sign times scale of each padded input.
        suh: Vec<f16>,
        /// Sign times scale of each padded output.
        svh: Vec<f16>,
        /// `out` numbers, or none.
        bias: Option<Vec<f32>>,
    },
    /// Trellis codes of an embedding table.
    Exl3Table {
        /// The use and logical shape.
        kind: Kind,
        /// Bits a weight.
        bits: Bits,
        /// Rows of `ceil(hidden / 256)` rings; no alignment.
        trellis: Bytes,
        /// Sign of each channel, padded to a multiple of 256.
        signs: Vec<f16>,
    },
}

impl HostTensor {
    /// The use and logical shape.
    pub fn kind(&self) -> Kind {
        match self {
            HostTensor::Dense { kind, .. }
            | HostTensor::Exl3 { kind, .. }
            | HostTensor::Exl3Table { kind, .. } => *kind,
        }
    }

    /// How it is stored.
    pub fn storage(&self) -> Storage {
        match *self {
            HostTensor::Dense { dtype, .. } => Storage::Dense(dtype),
            HostTensor::Exl3 { bits, codebook, .. } => Storage::Exl3 { bits, codebook },
            HostTensor::Exl3Table { bits, .. } => Storage::Exl3Table { bits },
        }
    }

    /// All numbers of a plain tensor, or none where it is stored as codes.
    pub fn dense_values(&self) -> Option<Vec<f32>> {
        match self {
            HostTensor::Dense { dtype, data, .. } => {
                Some(data.chunks_exact(dtype.bytes()).map(|number| dtype.read(number)).collect())
            }
            _ => None,
        }
    }
}
