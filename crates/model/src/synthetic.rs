//! Weights that are made up: random trellis bytes, which are as good as any other codes, and numbers of the
//! usual size around them. The same name always gives the same numbers.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

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
#[derive(Debug)]
pub(crate) struct Synthetic {
    bits: Bits,
    head_bits: Bits,
    codebook: Codebook,
    tied: bool,
    distinct_experts: Option<NonZero<u32>>,
    /// Parts of experts by the name of the first one that has them, if experts share numbers.
    experts: Mutex<HashMap<String, HostTensor>>,
}

impl Synthetic {
    /// The weights of a model of this shape.
    pub(crate) fn new(shape: &Shape) -> crate::Result<Synthetic> {
        let &Shape { bits, head_bits, codebook, distinct_experts, ref config } = shape;
        let (tied, experts) = (tied(config)?, Mutex::default());
        Ok(Synthetic { bits, head_bits, codebook, tied, distinct_experts, experts })
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
        let Some(first) = self.distinct_experts.and_then(|distinct| first_alike(name, distinct)) else {
            return self.make(name, kind);
        };
        let known = || self.experts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tensor) = known().get(&first) {
            return Ok(tensor.clone());
        }
        // Made without the lock: another thread may make the same, and the first one to be done is kept.
        let tensor = self.make(&first, kind)?;
        Ok(known().entry(first).or_insert(tensor).clone())
    }
}

impl Synthetic {
    fn make(&self, name: &str, kind: Kind) -> Result<HostTensor> {
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
    // Four numbers of 16 bits each from one word: as fine as the coarser formats are.
    for group in data.chunks_mut(4 * dtype.bytes()) {
        let mut word = random.bits();
        for bytes in group.chunks_exact_mut(dtype.bytes()) {
            let number = middle + range * (f32::from(word as u16) * 2.0_f32.powi(-15) - 1.0);
            word >>= 16;
            match dtype {
                Dtype::F32 => bytes.copy_from_slice(&number.to_le_bytes()),
                Dtype::F16 => bytes.copy_from_slice(&f16::from_f32(number).to_le_bytes()),
                Dtype::Bf16 => bytes.copy_from_slice(&bf16::from_f32(number).to_le_bytes()),
            }
        }
    }
    data.into()
}

/// The name of the first expert with the same numbers, for a part of an expert.
fn first_alike(name: &str, distinct: NonZero<u32>) -> Option<String> {
    let (before, after) = name.split_once(EXPERTS)?;
    let (expert, part) = after.split_once('.')?;
    let expert: u32 = expert.parse().ok()?;
    Some(format!("{before}{EXPERTS}{}.{part}", expert % distinct))
}

/// What comes before the number of an expert in the names of its parts.
const EXPERTS: &str = ".experts.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_that_are_alike_share_their_bytes_and_others_have_their_own() {
        let mut shape = Shape::named("glm-4.7-flash").unwrap();
        shape.distinct_experts = NonZero::new(3);
        let source = Synthetic::new(&shape).unwrap();
        let kind = Kind::Linear { out: 128, inputs: 256, bias: false };
        let read = |name: &str| match source.read(name, kind).unwrap() {
            HostTensor::Exl3 { trellis, .. } => trellis,
            tensor => panic!("{tensor:?}"),
        };
        let [one, four, five] = [1, 4, 5].map(|at| read(&format!("model.layers.2.mlp.experts.{at}.up_proj")));
        assert!(one == four && one.as_ptr() == four.as_ptr());
        assert!(one != five);
        assert!(one != read("model.layers.3.mlp.experts.1.up_proj"));
        let shared = "model.layers.2.mlp.shared_experts.up_proj";
        assert!(read(shared) == read(shared) && read(shared).as_ptr() != read(shared).as_ptr());
        assert_eq!(first_alike(shared, NonZero::<u32>::MIN), None);
    }
}
