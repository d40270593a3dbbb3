//! Two groups of a quantised cache at each width.

use exl3::kv::{self, CacheBits};
use half::f16;

use crate::sequence::{centred, fnv1a_halves};

const VECTORS: [(u8, &[u32], u64); 6] = [
    (2, &[0x6dd5_ba55, 0x51c9_9461], 0xaae5_2002_c03d_b569),
    (3, &[0x6dd5_ba55, 0x51c9_9461, 0xbd62_7f42], 0x5c8c_e0a8_69fc_b094),
    (4, &[0x8e88_4464, 0x5ae7_e667, 0x8670_5934, 0x6437_f396], 0x5f5b_6454_4ded_ac90),
    (5, &[0x8e88_4464, 0x5ae7_e667, 0x8670_5934, 0x6437_f396, 0x8c21_faac], 0x7a66_ea61_0d4f_1cd4),
    (
        6,
        &[0x8e88_4464, 0x5ae7_e667, 0x8670_5934, 0x6437_f396, 0xea8d_9cf5, 0xc5b0_5856],
        0x0660_fba4_8ee3_95d8,
    ),
    (
        8,
        &[
            0x4c4f_6745,
            0x8be6_8f82,
            0xeb62_6e77,
            0x5ea9_e979,
            0x5494_354a,
            0x8567_7800,
            0xfa3c_9362,
            0x6c40_3574,
        ],
        0x2dfe_a2c6_7158_6c0c,
    ),
];

#[test]
fn cache_groups_encode_to_the_published_words_and_decode_to_the_published_values() {
    let x: Vec<f32> = centred(64, 21, 8192.0).into_iter().map(f16::to_f32).collect();
    for (bits, first_words, hash) in VECTORS {
        let bits = CacheBits::new(bits).unwrap();
        let mut decoded = Vec::new();
        for (group, scale) in x.as_chunks().0.iter().zip([0x4492, 0x459e]) {
            let mut words = vec![0; bits.group_words()];
            let got = kv::encode(group, bits, &mut words);
            assert_eq!(got.to_bits(), scale, "scale at {bits} bits");
            if decoded.is_empty() {
                assert_eq!(words, first_words, "words at {bits} bits");
            }
            let mut values = [0.0; kv::GROUP];
            kv::decode(&words, got, bits, &mut values);
            decoded.extend(values.map(f16::from_f32));
        }
        assert_eq!(fnv1a_halves(&decoded), hash, "decoded values at {bits} bits");
    }
}

/// Decodes a group with the planes (width, lowest bit of the code, first word) and the middle of the grid
/// given; tells how far the values are off.
fn error(words: &[u32], bits: u8, planes: &[(usize, usize, usize)], middle: f32) -> f32 {
    let x: Vec<f32> = centred(32, 21, 8192.0).into_iter().map(f16::to_f32).collect();
    let code = |i: usize| {
        let field = |&(width, below, first): &(usize, usize, usize)| {
            (words[first + i * width / 32] >> (i * width % 32) & ((1 << width) - 1)) << below
        };
        planes.iter().map(field).sum::<u32>() as f32
    };
    let mut values: Vec<f32> = (0..32).map(|i| code(i) - middle).collect();
    exl3::hadamard::walsh_hadamard(&mut values);
    let step = f16::from_bits(0x4492).to_f32() / 32.0_f32.sqrt() / f32::from(1_u16 << (bits - 1));
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>();
    let difference = square(&mut values.iter().zip(&x).map(|(value, x)| value * step - x));
    (difference / square(&mut x.iter().copied())).sqrt()
}

#[test]
fn planes_in_another_order_and_a_grid_with_a_zero_would_show() {
    let (bits, words, _) = VECTORS[3];
    let right = error(words, bits, &[(4, 1, 0), (1, 0, 4)], 15.5);
    let narrow_first = error(words, bits, &[(1, 4, 0), (4, 0, 1)], 15.5);
    let low_bits_wide = error(words, bits, &[(4, 0, 0), (1, 4, 4)], 15.5);
    let grid_with_zero = error(words, bits, &[(4, 1, 0), (1, 0, 4)], 16.0);
    let figures = format!("{right:.3} {narrow_first:.2} {low_bits_wide:.2} {grid_with_zero:.3}");
    println!("error right, narrow plane first, wide plane low, grid with a zero: {figures}");
    assert!(
        right < 0.06 && narrow_first > 0.7 && low_bits_wide > 0.7 && grid_with_zero > 1.2 * right,
        "{figures}"
    );
}
