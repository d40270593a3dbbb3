//! Random numbers and weights that are the same everywhere, for models that have no file and for tests.

use bytes::Bytes;
use exl3::{Bits, Codebook, hadamard};
use half::{bf16, f16};

use crate::{Dtype, HostTensor, Kind, Storage};

/// The generator SplitMix64: 64 random bits from a counter.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that always gives the same numbers for the same seed.
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number below `end`.
    pub const fn below(&mut self, end: u32) -> u32 {
        (self.bits() % end as u64) as u32
    }

    /// A number in `[0, 1)`.
    pub const fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1_u32 << 24) as f32
    }

    /// A number of the normal distribution with mean 0 and variance 1.
    pub fn normal(&mut self) -> f32 {
        // Box and Muller's formula; the first factor is kept away from ln 0.
        let (u, v) = (f64::from(self.uniform()), f64::from(self.uniform()));
        ((-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    }

    /// `count` numbers of the normal distribution, times `scale`.
    pub fn normals(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.normal() * scale).collect()
    }

    /// Random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let (words, rest) = bytes.as_chunks_mut();
        words.iter_mut().for_each(|word| *word = self.bits().to_le_bytes());
        if !rest.is_empty() {
            rest.copy_from_slice(&self.bits().to_le_bytes()[..rest.len()]);
        }
        bytes
    }

    /// Puts the elements in random order.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            elements.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

/// One part of a random weight, such that a normalised input gives outputs of about the same size:
/// vectors lie around 1, biases and tables are of that order, and linear maps are scaled by the square
/// root of their inputs.
///
/// # Panics
/// If the kind of weight cannot be stored so.
pub fn tensor(kind: Kind, storage: Storage, seed: u64) -> HostTensor {
    match storage {
        Storage::Dense(dtype) => dense(kind, dtype, seed),
        Storage::Exl3 { bits, codebook } => exl3(kind, (bits, codebook), seed),
        Storage::Exl3Table { bits } => exl3_table(kind, bits, seed),
    }
}

/// Plain random numbers.
fn dense(kind: Kind, dtype: Dtype, seed: u64) -> HostTensor {
    let mut random = SplitMix64::new(seed);
    let (rows, cols) = kind.shape();
    let (offset, scale) = match kind {
        Kind::Vector { .. } => (1.0, 0.25),
        Kind::Linear { .. } | Kind::Plain { .. } => (0.0, (cols as f32).sqrt().recip()),
        Kind::Table { .. } => (0.0, 1.0),
    };
    let mut data = Vec::with_capacity(rows as usize * cols as usize * dtype.bytes());
    for _ in 0..rows as usize * cols as usize {
        let number = random.normal() * scale + offset;
        match dtype {
            Dtype::F32 => data.extend(number.to_le_bytes()),
            Dtype::F16 => data.extend(f16::from_f32(number).to_le_bytes()),
            Dtype::Bf16 => data.extend(bf16::from_f32(number).to_le_bytes()),
        }
    }
    HostTensor::Dense { kind, dtype, data: Bytes::from(data), bias: bias(kind, &mut random) }
}

/// Random trellis codes: every string of bytes is a valid trellis. `suh` are random signs, and `svh`
/// random signs times `0.7 / sqrt(inputs)`.
fn exl3(kind: Kind, (bits, codebook): (Bits, Codebook), seed: u64) -> HostTensor {
    assert!(matches!(kind, Kind::Linear { .. }), "{kind:?} as the codes of a linear map");
    let mut random = SplitMix64::new(seed);
    let (out, inputs) = kind.shape();
    let [k, n] = [inputs, out].map(|size| hadamard::padded(size as usize));
    let trellis = Bytes::from(random.bytes(k * n / 256 * bits.tile_bytes()));
    let scale = 0.7 / (inputs as f32).sqrt();
    let suh = signs(k, 1.0, &mut random);
    let svh = signs(n, scale, &mut random);
    HostTensor::Exl3 { kind, bits, codebook, trellis, suh, svh, bias: bias(kind, &mut random) }
}

/// Random codes of an embedding table, with scales near 0.25.
fn exl3_table(kind: Kind, bits: Bits, seed: u64) -> HostTensor {
    let Kind::Table { vocab, hidden } = kind else { panic!("{kind:?} as the codes of a table") };
    let mut random = SplitMix64::new(seed);
    let groups = hidden.div_ceil(256) as usize;
    let mut trellis = Vec::new();
    for _ in 0..vocab as usize * groups {
        trellis.extend(f16::from_f32(0.25 + 0.125 * random.uniform()).to_le_bytes());
        trellis.extend(random.bytes(bits.tile_bytes()));
    }
    let signs = signs(groups * 256, 1.0, &mut random);
    HostTensor::Exl3Table { kind, bits, trellis: Bytes::from(trellis), signs }
}

fn signs(count: usize, scale: f32, random: &mut SplitMix64) -> Vec<f16> {
    let scale = f16::from_f32(scale);
    (0..count).map(|_| if random.bits() & 1 == 0 { scale } else { -scale }).collect()
}

fn bias(kind: Kind, random: &mut SplitMix64) -> Option<Vec<f32>> {
    match kind {
        Kind::Linear { out, bias: true, .. } => Some(random.normals(out as usize, 0.5)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64_as_published() {
        // The first outputs for seed 1234567 of the generator's published description.
        let mut random = SplitMix64::new(1_234_567);
        let first = [(); 3].map(|()| random.bits());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_variance_one() {
        let numbers = SplitMix64::new(1).normals(100_000, 1.0);
        let mean = numbers.iter().sum::<f32>() / 1e5;
        let variance = numbers.iter().map(|x| x * x).sum::<f32>() / 1e5;
        // Five standard deviations: 1 / sqrt(1e5) and sqrt(2 / 1e5).
        assert!(mean.abs() < 0.016 && (variance - 1.0).abs() < 0.023, "{mean} {variance}");
    }

    #[test]
    fn a_shuffle_keeps_all_elements() {
        let mut elements: Vec<u32> = (0..100).collect();
        SplitMix64::new(2).shuffle(&mut elements);
        assert!(!elements.is_sorted());
        elements.sort_unstable();
        assert!(elements.iter().copied().eq(0..100));
    }

    #[test]
    fn a_random_weight_takes_as_many_bytes_as_its_storage_says() {
        let kind = Kind::Linear { out: 200, inputs: 100, bias: true };
        let storage = Storage::Exl3 { bits: Bits::ALL[1], codebook: Codebook::Mul1 };
        let HostTensor::Exl3 { trellis, suh, svh, bias, .. } = tensor(kind, storage, 3) else {
            panic!("another storage");
        };
        let bytes = trellis.len() + 2 * (suh.len() + svh.len()) + 4 * bias.map_or(0, |bias| bias.len());
        assert_eq!(bytes as u64, storage.bytes(kind));
        let kind = Kind::Table { vocab: 5, hidden: 300 };
        let storage = Storage::Exl3Table { bits: Bits::ALL[6] };
        let HostTensor::Exl3Table { trellis, signs, .. } = tensor(kind, storage, 3) else {
            panic!("another storage");
        };
        assert_eq!((trellis.len() + 2 * signs.len()) as u64, storage.bytes(kind));
    }
}
