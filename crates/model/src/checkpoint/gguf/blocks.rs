//! How GGUF files store numbers: plainly, or in blocks of small whole numbers with scales.
//!
//! ```text
//! q4_0  d·(q − 8)         32 numbers: f16 d, 16 bytes q (low halves first)
//! q4_1  d·q + m           32: f16 d, f16 m, 16 bytes q
//! q5_0  d·(q − 16)        32: f16 d, 4 bytes of fifth bits, 16 bytes q
//! q5_1  d·q + m           32: f16 d, f16 m, 4 bytes of fifth bits, 16 bytes q
//! q8_0  d·q               32: f16 d, 32 signed bytes q
//! q4_k  d·s·q − e·m       256: f16 d, f16 e, 12 bytes of eight 6-bit s and m, 128 bytes q
//! q5_k  the same          256: f16 d, f16 e, 12 bytes s and m, 32 bytes of fifth bits, 128 bytes q
//! q6_k  d·s·(q − 32)      256: 128 bytes of low, 64 of high bits, sixteen signed bytes s, f16 d
//! ```

use half::f16;

/// How the numbers of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocks {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

/// Numbers of a small block.
const SMALL: usize = 32;
/// Numbers of a large block.
const LARGE: usize = 256;

impl Blocks {
    /// Each with the number that stands for it in files.
    pub(super) const ALL: [(u32, Blocks); 11] = [
        (0, Blocks::F32),
        (1, Blocks::F16),
        (2, Blocks::Q4_0),
        (3, Blocks::Q4_1),
        (6, Blocks::Q5_0),
        (7, Blocks::Q5_1),
        (8, Blocks::Q8_0),
        (12, Blocks::Q4K),
        (13, Blocks::Q5K),
        (14, Blocks::Q6K),
        (30, Blocks::Bf16),
    ];

    /// Numbers of a block.
    pub(super) fn numbers(self) -> usize {
        match self {
            Blocks::F32 | Blocks::F16 | Blocks::Bf16 => 1,
            Blocks::Q4_0 | Blocks::Q4_1 | Blocks::Q5_0 | Blocks::Q5_1 | Blocks::Q8_0 => SMALL,
            Blocks::Q4K | Blocks::Q5K | Blocks::Q6K => LARGE,
        }
    }

    /// Bytes of a block.
    pub(super) fn bytes(self) -> usize {
        match self {
            Blocks::F32 => 4,
            Blocks::F16 | Blocks::Bf16 => 2,
            Blocks::Q4_0 => 18,
            Blocks::Q4_1 => 20,
            Blocks::Q5_0 => 22,
            Blocks::Q5_1 => 24,
            Blocks::Q8_0 => 34,
            Blocks::Q4K => 144,
            Blocks::Q5K => 176,
            Blocks::Q6K => 210,
        }
    }

    /// The number format that needs no decoding, of plain numbers.
    pub(super) fn plain(self) -> Option<program::Dtype> {
        match self {
            Blocks::F32 => Some(program::Dtype::F32),
            Blocks::F16 => Some(program::Dtype::F16),
            Blocks::Bf16 => Some(program::Dtype::Bf16),
            _ => None,
        }
    }

    /// Decodes whole blocks; `numbers` is as long as they ask for.
    pub(super) fn decode(self, bytes: &[u8], numbers: &mut [f32]) {
        let blocks = bytes.chunks_exact(self.bytes()).zip(numbers.chunks_exact_mut(self.numbers()));
        for (bytes, numbers) in blocks {
            match self {
                Blocks::F32 | Blocks::F16 | Blocks::Bf16 => {
                    numbers[0] = self.plain().map_or(f32::NAN, |dtype| dtype.read(bytes));
                }
                Blocks::Q4_0 => halves(&bytes[2..], numbers, |_, q| half(bytes, 0) * (f32::from(q) - 8.0)),
                Blocks::Q4_1 => {
                    halves(&bytes[4..], numbers, |_, q| half(bytes, 0) * f32::from(q) + half(bytes, 2));
                }
                Blocks::Q5_0 => halves(&bytes[6..], numbers, |index, q| {
                    half(bytes, 0) * (f32::from(q | fifth(&bytes[2..], index)) - 16.0)
                }),
                Blocks::Q5_1 => halves(&bytes[8..], numbers, |index, q| {
                    half(bytes, 0) * f32::from(q | fifth(&bytes[4..], index)) + half(bytes, 2)
                }),
                Blocks::Q8_0 => {
                    for (number, q) in numbers.iter_mut().zip(&bytes[2..]) {
                        *number = half(bytes, 0) * f32::from(*q as i8);
                    }
                }
                Blocks::Q4K => q4_k(bytes, &bytes[16..], numbers, |_, _| 0),
                Blocks::Q5K => {
                    q4_k(bytes, &bytes[48..], numbers, |group, at| (bytes[16 + at] >> group & 1) << 4);
                }
                Blocks::Q6K => q6_k(bytes, numbers),
            }
        }
    }
}

/// The f16 number at a byte.
fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// A small block whose bytes hold number `i` in their low and number `i + 16` in their high half.
fn halves(packed: &[u8], numbers: &mut [f32], decode: impl Fn(usize, u8) -> f32) {
    for (at, byte) in packed.iter().enumerate() {
        numbers[at] = decode(at, byte & 15);
        numbers[at + SMALL / 2] = decode(at + SMALL / 2, byte >> 4);
    }
}

/// The fifth bit of number `index` of a small block, in its place.
fn fifth(bits: &[u8], index: usize) -> u8 {
    (bits[index / 8] >> (index % 8) & 1) << 4
}

/// A block of eight groups of 32, each with a scale and a minimum. 32 bytes hold one group in their low halves
/// and the next in their high halves; `fifth(group, at)` are the bits above.
fn q4_k(bytes: &[u8], packed: &[u8], numbers: &mut [f32], fifth: impl Fn(usize, usize) -> u8) {
    let (d, e) = (half(bytes, 0), half(bytes, 2));
    for (group, numbers) in numbers.chunks_exact_mut(SMALL).enumerate() {
        let (scale, minimum) = scale_and_minimum(&bytes[4..16], group);
        let (scale, minimum) = (d * f32::from(scale), e * f32::from(minimum));
        let packed = &packed[group / 2 * SMALL..][..SMALL];
        for (at, (number, byte)) in numbers.iter_mut().zip(packed).enumerate() {
            let q = (byte >> (group % 2 * 4) & 15) | fifth(group, at);
            *number = scale * f32::from(q) - minimum;
        }
    }
}

/// Six bits each: of groups 0 to 3 in bytes 0 to 3 and 4 to 7; of groups 4 to 7 the low four bits in bytes 8 to
/// 11 and the high two in the top of the others' bytes.
fn scale_and_minimum(packed: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        return (packed[group] & 63, packed[group + 4] & 63);
    }
    let low = packed[group + 4];
    (low & 15 | packed[group - 4] >> 6 << 4, low >> 4 | packed[group] >> 6 << 4)
}

/// Two halves of 128 numbers, each of four groups of 32: groups 0 and 1 in the low, 2 and 3 in the high halves of
/// 64 bytes, their two high bits side by side in one byte; a scale for 16 numbers.
fn q6_k(bytes: &[u8], numbers: &mut [f32]) {
    let (low, rest) = bytes.split_at(128);
    let (high, rest) = rest.split_at(64);
    let d = half(rest, 16);
    for (index, number) in numbers.iter_mut().enumerate() {
        let (part, group, at) = (index / 128, index % 128 / SMALL, index % SMALL);
        let low = low[part * 64 + group % 2 * SMALL + at] >> (group / 2 * 4) & 15;
        let high = high[part * SMALL + at] >> (group * 2) & 3;
        let scale = f32::from(rest[index / 16] as i8);
        *number = d * scale * (f32::from(low | high << 4) - 32.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use golden::Tensors;

    #[test]
    fn blocks_hold_the_numbers_that_llama_cpps_package_finds_in_them() {
        let golden = Tensors::open(golden::folder().join("gguf-blocks.safetensors"));
        let formats = [
            ("q4_0", Blocks::Q4_0),
            ("q4_1", Blocks::Q4_1),
            ("q5_0", Blocks::Q5_0),
            ("q5_1", Blocks::Q5_1),
            ("q8_0", Blocks::Q8_0),
            ("q4_k", Blocks::Q4K),
            ("q5_k", Blocks::Q5K),
            ("q6_k", Blocks::Q6K),
        ];
        for (name, blocks) in formats {
            let want = golden.f32(&format!("{name}.numbers"));
            let mut numbers = vec![f32::NAN; want.len()];
            blocks.decode(golden.bytes(&format!("{name}.blocks")), &mut numbers);
            // The same operations in the same order, but for products of three.
            let error = golden::frobenius(&numbers, &want);
            assert!(error <= 1e-7, "{name}: {error}");
        }
    }

    #[test]
    fn plain_numbers_are_read_as_they_are() {
        let mut numbers = [0.0; 2];
        Blocks::F32.decode(&[0, 0, 128, 63, 0, 0, 0, 192], &mut numbers);
        assert_eq!(numbers, [1.0, -2.0]);
        Blocks::F16.decode(&[0, 60, 0, 192], &mut numbers);
        assert_eq!(numbers, [1.0, -2.0]);
        Blocks::Bf16.decode(&[128, 63, 0, 192], &mut numbers);
        assert_eq!(numbers, [1.0, -2.0]);
    }
}
