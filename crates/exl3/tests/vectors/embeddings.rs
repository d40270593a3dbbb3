//! One row of a quantised embedding table, two groups of 256 channels cut to 300.

use exl3::{Embedding, EmbeddingParts};
use half::f16;

use crate::sequence::{bytes, fnv1a_halves, lcg16};

struct Vector {
    bits: u8,
    words: [u16; 4],
    row: u64,
    first: f32,
    second: f32,
    last: f32,
}

const VECTORS: [Vector; 3] = [
    Vector {
        bits: 2,
        words: [0x2400, 0x87c5, 0xa8e7, 0x718b],
        row: 0x6ac1_cd4f_f22c_5c63,
        first: 0.013_496_399,
        second: -0.010_978_699,
        last: 0.003_719_33,
    },
    Vector {
        bits: 4,
        words: [0x2400, 0xb635, 0x0779, 0x847f],
        row: 0xda73_e9be_1ab3_a984,
        first: 0.008_186_34,
        second: 0.017_440_796,
        last: -0.004_081_726,
    },
    Vector {
        bits: 8,
        words: [0x2400, 0x1317, 0xc49d, 0xaa67],
        row: 0xb193_a8d4_a95e_f742,
        first: 0.012_306_213,
        second: -0.000_436_067_58,
        last: 0.001_631_736_8,
    },
];

#[test]
fn embedding_rows_decode_to_the_published_values() {
    let sign = |word: u16| if word & 0x100 == 0 { f16::ONE } else { f16::NEG_ONE };
    let signs: Vec<f16> = lcg16(512, 55).into_iter().map(sign).collect();
    for vector in &VECTORS {
        let ring = 1 + 16 * usize::from(vector.bits);
        let mut words = lcg16(2 * ring, 100 + u32::from(vector.bits));
        words[0] = 0x2400;
        words[ring] = 0x9e66;
        assert_eq!(words[..4], vector.words, "input of {} bits", vector.bits);

        let trellis = bytes(words);
        let shape = [1, 2 * ring];
        let table = Embedding::new(EmbeddingParts { trellis: &trellis, shape, signs: &signs, hidden: 300 });
        let table = table.unwrap();
        assert_eq!(table.bits().half_bits(), 2 * vector.bits);
        let mut row = [f16::ZERO; 300];
        table.row(0, &mut row).unwrap();
        assert_eq!(fnv1a_halves(&row), vector.row, "row of {} bits", vector.bits);
        // The hash says all; these say in which way a wrong row is wrong.
        assert_eq!([row[0], row[1], row[299]], [vector.first, vector.second, vector.last].map(f16::from_f32));
    }
}
