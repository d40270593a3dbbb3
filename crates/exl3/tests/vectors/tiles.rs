//! One tile of each width.

use exl3::{Bits, Codebook, tile, trellis};
use half::f16;

use crate::sequence::{bytes, fnv1a, fnv1a_halves, lcg16};

struct Vector {
    bits: &'static str,
    packed: [u16; 4],
    first_states: [u16; 4],
    last_states: [u16; 2],
    states: u64,
    /// Hash of the row-major tile for each codebook that has the width, in the order of `Codebook::ALL`.
    tiles: &'static [u64],
}

const HALF_WIDTHS: [Vector; 3] = [
    Vector {
        bits: "1.5",
        packed: [0x3cbb, 0x8cf9, 0xdfa8, 0xc767],
        first_states: [0xd26f, 0x49bc, 0x9378, 0x4de3],
        last_states: [0x5a4d, 0x6937],
        states: 0x2d0f_9b71_1cda_6edd,
        tiles: &[0xbe2b_4f2d_a39c_3512],
    },
    Vector {
        bits: "2.5",
        packed: [0x3ced, 0xbb69, 0x3e3a, 0xda5a],
        first_states: [0xe016, 0x00b7, 0x02dd, 0x16ed],
        last_states: [0xef00, 0x7805],
        states: 0x1a64_88da_d98d_f414,
        tiles: &[0x3dd0_2700_8b87_b10c],
    },
    Vector {
        bits: "3.5",
        packed: [0x3d20, 0xe9da, 0x9ccc, 0xed4e],
        first_states: [0xb437, 0x4374, 0x1ba7, 0xba76],
        last_states: [0x6968, 0x9686],
        states: 0xbd92_67e6_afae_acaa,
        tiles: &[0x1412_4f4d_1bf5_6f17],
    },
];

const WHOLE_WIDTHS: [Vector; 8] = [
    Vector {
        bits: "1",
        packed: [0x3c88, 0x5e88, 0x8116, 0xb473],
        first_states: [0x785a, 0xf0b5, 0xe16a, 0xc2d5],
        last_states: [0x1e16, 0x3c2d],
        states: 0x23ec_8a93_1819_9a39,
        tiles: &[0x89cc_c1af_54bb_6fce, 0x3879_0a0d_04d9_f88d, 0x5162_15c3_7b83_3af1],
    },
    Vector {
        bits: "2",
        packed: [0x3ca1, 0x75c0, 0x305f, 0xbded],
        first_states: [0x12bd, 0x4af7, 0x2bdd, 0xaf75],
        last_states: [0xe12b, 0x84af],
        states: 0x3df0_c4f9_96f4_3c0d,
        tiles: &[0xb7d5_a5ca_ac8e_11ae, 0xdf4f_721a_3744_3884, 0xf9ec_a2a0_f859_7ba1],
    },
    Vector {
        bits: "3",
        packed: [0x3cbb, 0x8cf9, 0xdfa8, 0xc767],
        first_states: [0x4a1c, 0x50e3, 0x8719, 0x38cf],
        last_states: [0x8928, 0x4943],
        states: 0x2f0a_0c47_f9f0_b815,
        tiles: &[0x4361_35af_dfef_e1ab, 0xe271_e7d0_b135_06e0, 0x686a_a558_c8c5_2048],
    },
    Vector {
        bits: "4",
        packed: [0x3cd4, 0xa431, 0x8ef1, 0xd0e0],
        first_states: [0x560a, 0x60a4, 0x0a43, 0xa431],
        last_states: [0x6256, 0x2560],
        states: 0x9d68_55ad_6141_6b21,
        tiles: &[0x6488_e58a_de2e_adcd, 0x2665_ee9f_bbdf_228e, 0x3c83_67f4_8b79_871d],
    },
    Vector {
        bits: "5",
        packed: [0x3ced, 0xbb69, 0x3e3a, 0xda5a],
        first_states: [0xe1d7, 0x3aed, 0x5db4, 0xb693],
        last_states: [0xa778, 0xef0e],
        states: 0x6919_74b8_2434_f436,
        tiles: &[0xdb49_f572_170b_d26f, 0xf136_e2d0_573f_4438, 0x8557_586f_a4b0_b0a9],
    },
    Vector {
        bits: "6",
        packed: [0x3d07, 0xd2a2, 0xed83, 0xe3d4],
        first_states: [0xf9f4, 0x7d2a, 0x4a88, 0xa23d],
        last_states: [0x547f, 0x1fe7],
        states: 0x138c_d354_e52d_9ad4,
        tiles: &[0xf2e8_2110_7301_0978, 0x7db1_5af8_031d_dc1d, 0x53cc_c47d_c83b_7dae],
    },
    Vector {
        bits: "7",
        packed: [0x3d20, 0xe9da, 0x9ccc, 0xed4e],
        first_states: [0x0874, 0x3a76, 0x3b47, 0xa3d2],
        last_states: [0x417c, 0xbe10],
        states: 0xce67_d5de_4a0c_d31c,
        tiles: &[0xdf4d_7af9_a040_6ea5, 0x9d88_4313_b308_0314, 0x0d08_5c7a_0134_72cb],
    },
    Vector {
        bits: "8",
        packed: [0x3d3a, 0x0113, 0x4c15, 0xf6c8],
        first_states: [0x4401, 0x0113, 0x133d, 0x3d3a],
        last_states: [0x6dc5, 0xc544],
        states: 0xca0e_b9f3_e02c_51b1,
        tiles: &[0xb156_b37c_8a05_3acf, 0x4f5a_66ce_a35c_1221, 0xe126_e48b_8b69_872f],
    },
];

fn check(vector: &Vector, seed: u32, codebooks: &[Codebook]) {
    let bits: Bits = vector.bits.parse().expect("a width of the format");
    let packed = lcg16(bits.tile_words(), seed);
    assert_eq!(packed[..4], vector.packed, "input of {bits} bits");

    let tile = bytes(packed);
    let mut states = [0; tile::WEIGHTS];
    trellis::unpack(&tile, bits, &mut states);
    assert_eq!(states[..4], vector.first_states, "first states of {bits} bits");
    assert_eq!(states[254..], vector.last_states, "last states of {bits} bits");
    assert_eq!(fnv1a(states), vector.states, "all states of {bits} bits");

    let mut again = vec![0; tile.len()];
    trellis::pack(&states, bits, &mut again);
    assert_eq!(again, tile, "the packed states of {bits} bits");

    assert_eq!(vector.tiles.len(), codebooks.len());
    for (&hash, &codebook) in vector.tiles.iter().zip(codebooks) {
        let mut values = [f16::ZERO; tile::WEIGHTS];
        for (stream, state) in states.into_iter().enumerate() {
            let (row, column) = tile::position(stream);
            values[16 * row + column] = codebook.value(state);
        }
        assert_eq!(fnv1a_halves(&values), hash, "tile of {bits} bits with {codebook}");
    }
}

#[test]
fn tiles_of_whole_bits_decode_to_the_published_states_and_values() {
    for (seed, vector) in (1..).zip(&WHOLE_WIDTHS) {
        check(vector, seed, &Codebook::ALL);
    }
}

#[test]
fn tiles_of_half_bits_decode_to_the_published_states_and_values() {
    for (seed, vector) in [3, 5, 7].into_iter().zip(&HALF_WIDTHS) {
        check(vector, seed, &[Codebook::Mul1]);
    }
}
