//! Weights that are made up: random trellis bytes, which are as good as any other codes, and numbers of the
//! usual size around them. The same name always gives the same numbers.

use bytes::Bytes;
use exl3::{Bits, Codebook, hadamard};
use half::{bf16, f16};
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
        let mut random = Random::of(name);
        let (rows, cols) = kind.shape();
        let (rows, cols) = (rows as usize, cols as usize);
        let bias = match kind {
            Kind::Linear { bias: true, .. } => Some((0..rows).map(|_| 0.1 * random.symmetric()).collect()),
            _ => None,
        };
        match self.storage(name, kind)? {
            Storage::Exl3 { bits, codebook } => {
                let (inputs, out) = (hadamard::padded(cols), hadamard::padded(rows));
                // Codes are about N(0, 1), so that outputs keep about the size of the inputs.
                let scale = f16::from_f32(0.7 / (cols as f32).sqrt());
                let suh = (0..inputs).map(|_| random.sign(f16::ONE)).collect();
                let svh = (0..out)
                    .map(|column| if column < rows { random.sign(scale) } else { f16::ZERO })
                    .collect();
                let trellis = random.bytes(inputs * out / 256 * bits.tile_bytes());
                Ok(HostTensor::Exl3 { kind, bits, codebook, trellis, suh, svh, bias })
            }
            Storage::Dense(dtype) => {
                let count = rows * cols;
                let (offset, range) = match kind {
                    Kind::Vector { .. } if is_bias(name) => (0.0, 0.05),
                    Kind::Vector { .. } => (1.0, 0.1),
                    Kind::Table { .. } => (0.0, 1.0),
                    Kind::Linear { .. } | Kind::Plain { .. } => (0.0, 1.0 / (cols as f32).sqrt()),
                };
                let numbers = (0..count).map(|_| offset + range * random.symmetric());
                Ok(HostTensor::Dense { kind, dtype, data: encode(dtype, numbers), bias })
            }
            // `storage` gives no quantised tables.
            Storage::Exl3Table { .. } => {
                Err(Error::Weight { name: name.into(), what: "synthetic tables are plain numbers".into() })
            }
        }
    }
}

fn is_bias(name: &str) -> bool {
    name.ends_with("e_score_correction_bias")
}

fn is_router(name: &str) -> bool {
    name.ends_with(".gate")
}

fn encode(dtype: Dtype, numbers: impl Iterator<Item = f32>) -> Bytes {
    let bytes: Vec<u8> = match dtype {
        Dtype::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
        Dtype::F16 => numbers.flat_map(|number| f16::from_f32(number).to_le_bytes()).collect(),
        Dtype::Bf16 => numbers.flat_map(|number| bf16::from_f32(number).to_le_bytes()).collect(),
    };
    bytes.into()
}

/// The generator SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    /// Seeded with the FNV-1a hash of a name.
    fn of(name: &str) -> Random {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Random(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [-1, 1).
    fn symmetric(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn sign(&mut self, magnitude: f16) -> f16 {
        if self.next() & 1 == 0 { magnitude } else { -magnitude }
    }

    /// `count` bytes, a multiple of 8.
    fn bytes(&mut self, count: usize) -> Bytes {
        let mut bytes = vec![0; count];
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = self.next().to_le_bytes();
        }
        bytes.into()
    }
}
