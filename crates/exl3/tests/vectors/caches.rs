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
