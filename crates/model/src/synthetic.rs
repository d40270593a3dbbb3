//! Weights that are made up: random trellis bytes, which are as good as any other codes, and numbers of the
//! usual size around them. The same name always gives the same numbers.

use bytes::Bytes;
use exl3::{Bits, Codebook};
use half::{bf16, f16};
use program::random::{self, SplitMix64};
use program::{Catalogue, Dtype, Error, HostTensor, Kind, Result, Storage};

use crate::block::{Names, tied};
use crate::shape::Shape;
use crate::source::Source;

/// The weights of a synthetic model.
///
/// Linear maps are stored as trellis codes, except for routers; tables, norms, routing biases and what a
/// device takes apart by rows are plain numbers, as converters leave them.
#[derive(Clone, Debug)]
pub(crate) struct Synthetic {
    bits: Bits,
    head_bits: Bits,
    codebook: Codebook,
    tied: bool,
}

impl Synthetic {
    /// The weights of a model of this shape.
    pub(crate) fn new(shape: &Shape) -> crate::Result<Synthetic> {
        let &Shape { bits, head_bits, codebook, ref config } = shape;
        Ok(Synthetic { bits, head_bits, codebook, tied: tied(config)? })
    }
}

impl Catalogue for Synthetic {
    fn storage(&self, name: &str, kind: Kind) -> Result<Storage> {
        let codebook = self.codebook;
        let bits = if name == Names::PLAIN.head { self.head_bits } else { self.bits };
        match kind {
            Kind::Vector { .. } if is_bias(name) => Ok(Storage::Dense(Dtype::F32)),
            Kind::Vector { .. } | Kind::Table { .. } => Ok(Storage::Dense(Dtype::Bf16)),
            Kind::Plain { .. } => Ok(Storage::Dense(Dtype::F16)),
            Kind::Linear { .. } if is_router(name) => Ok(Storage::Dense(Dtype::F16)),
            Kind::Linear { .. } if codebook.allows(bits) => Ok(Storage::Exl3 { bits, codebook }),
            Kind::Linear { .. } => Err(Error::Codec(exl3::Error::CodebookBits { codebook, bits })),
        }
    }

    fn has(&self, name: &str) -> bool {
        name != Names::PLAIN.head || !self.tied
    }
}

impl Source for Synthetic {
    fn read(&self, name: &str, kind: Kind) -> Result<HostTensor> {
        let storage = self.storage(name, kind)?;
        let seed = seed(name);
        match storage {
            Storage::Dense(dtype) => {
                let (middle, range) = match kind {
                    Kind::Vector { .. } if is_bias(name) => (0.0, 0.05),
                    Kind::Vector { .. } => (1.0, 0.1),
                    Kind::Table { .. } => (0.0, 1.0),
                    Kind::Linear { inputs, .. } | Kind::Plain { inputs, .. } => {
                        (0.0, (inputs as f32).powf(-0.5))
                    }
                };
                Ok(HostTensor::Dense {
                    kind,
                    dtype,
                    data: uniform(seed, kind, dtype, (middle, range)),
                    bias: None,
                })
            }
            Storage::Exl3 { .. } | Storage::Exl3Table { .. } => Ok(random::tensor(kind, storage, seed)),
        }
    }
}

fn is_bias(name: &str) -> bool {
    name.ends_with("e_score_correction_bias")
}

fn is_router(name: &str) -> bool {
    name.ends_with(".gate")
}

/// The FNV-1a hash of a name.
fn seed(name: &str) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, add)
}

/// Numbers spread evenly over `middle - range .. middle + range`: unlike normal ones they take a few seconds
/// for the tables of a large vocabulary.
fn uniform(seed: u64, kind: Kind, dtype: Dtype, (middle, range): (f32, f32)) -> Bytes {
    let (rows, cols) = kind.shape();
    let mut random = SplitMix64::new(seed);
    let mut data = vec![0; rows as usize * cols as usize * dtype.bytes()];
    for bytes in data.chunks_exact_mut(dtype.bytes()) {
        let number = middle + range * (2.0 * random.uniform() - 1.0);
        match dtype {
            Dtype::F32 => bytes.copy_from_slice(&number.to_le_bytes()),
            Dtype::F16 => bytes.copy_from_slice(&f16::from_f32(number).to_le_bytes()),
            Dtype::Bf16 => bytes.copy_from_slice(&bf16::from_f32(number).to_le_bytes()),
        }
    }
    data.into()
}
