//! The input sequences and the hash of the vectors.

use half::f16;

/// x <- x * 1664525 + 1013904223 mod 2^32, of which the upper 16 bits are taken, `count` times.
pub(crate) fn lcg16(count: usize, seed: u32) -> Vec<u16> {
    let mut x = seed;
    let next = |_| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 16) as u16
    };
    (0..count).map(next).collect()
}

/// The sequence as halves around 0: (value - 32768) / divisor, rounded.
pub(crate) fn centred(count: usize, seed: u32, divisor: f32) -> Vec<f16> {
    lcg16(count, seed).into_iter().map(|x| f16::from_f32((f32::from(x) - 32768.0) / divisor)).collect()
}

/// The sequence as little-endian bytes.
pub(crate) fn lcg_bytes(words: usize, seed: u32) -> Vec<u8> {
    bytes(lcg16(words, seed))
}

pub(crate) fn bytes(words: impl IntoIterator<Item = u16>) -> Vec<u8> {
    words.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// The 64-bit FNV-1a hash of words in little-endian order.
pub(crate) fn fnv1a(words: impl IntoIterator<Item = u16>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    bytes(words).into_iter().fold(0xCBF2_9CE4_8422_2325, step)
}

pub(crate) fn fnv1a_halves(values: &[f16]) -> u64 {
    fnv1a(values.iter().map(|value| value.to_bits()))
}
