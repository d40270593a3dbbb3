//! What each wrong reading of an embedding table looks like.

#![expect(clippy::print_stdout, reason = "shows the figures that docs/audit-decode.md quotes")]

use exl3::{Codebook, hadamard, tile};

use crate::repository::file;

/// Words of a ring of 4 bits with its scale.
const RING: usize = 65;

/// A decoder of one group at 4 bits that has each choice as a part.
#[derive(Clone, Copy)]
struct Decoder {
    /// The bit at a place of the ring: 0 or 1.
    bit: fn(&[u16], usize) -> u16,
    /// The ring's bit number of bit m (0 is the least significant) of state i, 256 symbols ahead.
    window: fn(usize, usize) -> usize,
    /// The channel of state i.
    channel: fn(usize) -> usize,
    rotate: fn(&mut [f32]),
    /// Whether the signs act on the channels (the format) or before the rotation.
    signs: Signs,
}

#[derive(Clone, Copy)]
enum Signs {
    AfterRotation,
    BeforeRotation,
}

const RIGHT: Decoder = Decoder {
    bit: |words, bit| words[bit / 16] >> (bit % 16) & 1,
    window: |i, m| 4 * (256 + i - m / 4) + m % 4,
    channel: |i| i,
    rotate: |values| {
        hadamard::walsh_hadamard(values);
        values.iter_mut().for_each(|value| *value /= 16.0);
    },
    signs: Signs::AfterRotation,
};

impl Decoder {
    fn group(&self, ring: &[u16], signs: &[f32]) -> Vec<f32> {
        let scale = half::f16::from_bits(ring[0]).to_f32();
        let mut values = vec![0.0; 256];
        for i in 0..256 {
            let bit = |m| (self.bit)(&ring[1..], (self.window)(i, m) % 1024) << m;
            let state = (0..16).map(bit).fold(0, |state, bit| state | bit);
            values[(self.channel)(i)] = Codebook::Mul1.value(state).to_f32() * scale;
        }
        let sign = |values: &mut [f32]| values.iter_mut().zip(signs).for_each(|(value, sign)| *value *= sign);
        if let Signs::BeforeRotation = self.signs {
            sign(&mut values);
        }
        (self.rotate)(&mut values);
        if let Signs::AfterRotation = self.signs {
            sign(&mut values);
        }
        values
    }

    /// The relative error of all golden rows.
    fn error(&self) -> f64 {
        let file = file();
        let (signs, want) = (file.f32("embedding.signs"), file.f32("embedding.rows"));
        let words: Vec<u16> = file
            .bytes("embedding.trellis")
            .chunks(2)
            .map(|word| u16::from_le_bytes([word[0], word[1]]))
            .collect();
        let rows = words.chunks_exact(RING).flat_map(|ring| self.group(ring, &signs)[..128].to_vec());
        golden::frobenius(&rows.collect::<Vec<f32>>(), &want)
    }
}

fn assert_noise(what: &str, decoder: Decoder) {
    let error = decoder.error();
    println!("{what}: relative error of the rows {error:.2}");
    assert!(error > 1.0, "{what}: only {error}");
}

#[test]
fn with_all_choices_right_the_rows_are_the_golden_ones() {
    // The rows are rounded to f16, here they are not.
    let error = RIGHT.error();
    assert!(error < 2.0_f64.powi(-11), "{error}");
}

#[test]
fn rows_read_as_tiles_are_read_would_be_noise() {
    assert_noise(
        "most significant bit first",
        Decoder { bit: |words, bit| words[bit / 16] >> (15 - bit % 16) & 1, ..RIGHT },
    );
    assert_noise(
        "symbols after, not before, the state's own",
        Decoder { window: |i, m| 4 * (256 + i) + m, ..RIGHT },
    );
    assert_noise("order of a tile", Decoder { channel: |i| tile::PERMUTATION[i].into(), ..RIGHT });
}

#[test]
fn signs_before_the_rotation_would_be_noise() {
    assert_noise("signs before the rotation", Decoder { signs: Signs::BeforeRotation, ..RIGHT });
}

#[test]
fn a_rotation_of_128_channels_would_make_rows_of_128_too_small() {
    // These rows have 128 channels, so that half of each group is padding and both halves of its rotation are
    // almost alike: instead of their sum over 16 this takes one over sqrt(128), 1 - sqrt(1/2) too little. In
    // wider rows it would be noise.
    let error = Decoder { rotate: hadamard::hadamard_128, ..RIGHT }.error();
    println!("rotation in blocks of 128: relative error of the rows {error:.2}");
    assert!((error - 0.293).abs() < 0.01, "{error}");
}
