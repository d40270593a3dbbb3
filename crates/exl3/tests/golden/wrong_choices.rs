//! What each wrong reading of the format looks like.
//!
//! Each test decodes the repository's golden layers with one choice made wrongly and measures how far the
//! outputs are off. Outputs that have nothing to do with the wanted ones, but their size, are off by
//! sqrt(2) = 1.41. Run with `--nocapture` to see the figures.

#![expect(clippy::print_stdout, reason = "shows the figures that docs/audit-decode.md quotes")]

use exl3::{hadamard, tile, trellis};
use golden::Tensors;

use crate::layer::Layer;
use crate::naive::{Decoder, RIGHT, Scales};
use crate::repository::{LAYERS, file, read};

/// The relative error of a layer's outputs, without its bias.
fn error(decoder: Decoder, layer: &Layer, file: &Tensors, label: &str) -> f64 {
    let mut want = file.f32(&format!("{label}.y"));
    if let Some(bias) = &layer.bias {
        for row in want.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(y, bias)| *y -= bias.to_f32());
        }
    }
    golden::frobenius(&decoder.apply(layer, &file.f32(&format!("{label}.x"))), &want)
}

/// The smallest and largest error over the layers that `counts` picks.
fn errors(decoder: Decoder, counts: impl Fn(&Layer) -> bool) -> [f64; 2] {
    let file = file();
    let layers = LAYERS.map(|label| (label, read(&file, label)));
    let found = layers.iter().filter(|(_, layer)| counts(layer));
    let found: Vec<f64> = found.map(|(label, layer)| error(decoder, layer, &file, label)).collect();
    assert!(!found.is_empty());
    [found.iter().copied().fold(f64::INFINITY, f64::min), found.iter().copied().fold(0.0, f64::max)]
}

/// Fails unless the wrong choice shows in every layer that it concerns.
fn assert_noise(what: &str, decoder: Decoder, counts: impl Fn(&Layer) -> bool) {
    let [least, most] = errors(decoder, counts);
    println!("{what}: relative error of y {least:.2} to {most:.2}");
    assert!(least > 1.0, "{what}: only {least}");
}

const ALL: fn(&Layer) -> bool = |_| true;

#[test]
fn with_all_choices_right_the_bitwise_decoder_agrees_with_the_crate_and_the_golden_outputs() {
    let file = file();
    for label in LAYERS {
        let layer = read(&file, label);
        assert_eq!(RIGHT.inner(&layer), layer.view().inner(), "{label}");
    }
    let [_, most] = errors(RIGHT, ALL);
    assert!(most < 3e-3, "{most}");
}

#[test]
fn tiles_stored_by_columns_would_be_noise() {
    let tile = |[a, b]: [usize; 2], [rows, _]: [usize; 2]| b * rows + a;
    assert_noise("tiles by columns", Decoder { tile, ..RIGHT }, ALL);
}

#[test]
fn row_major_and_transposed_tiles_would_be_noise() {
    let position = |t| (t / 16, t % 16);
    assert_noise("row-major tile", Decoder { position, ..RIGHT }, ALL);
    let position = |t| {
        let (row, column) = tile::position(t);
        (column, row)
    };
    assert_noise("transposed tile", Decoder { position, ..RIGHT }, ALL);
}

#[test]
fn other_orders_of_the_bits_would_be_noise() {
    let ring_bit = |bit| (bit / 8, bit % 8);
    assert_noise("least significant bit first", Decoder { ring_bit, ..RIGHT }, ALL);
    let ring_bit = |bit| (bit / 16 * 2 + 1 - bit % 16 / 8, 7 - bit % 8);
    assert_noise("most significant bit first in words of 16 bits", Decoder { ring_bit, ..RIGHT }, ALL);
    let ring_bit = |bit| (bit / 8, 7 - bit % 8);
    assert_noise("most significant bit first in bytes", Decoder { ring_bit, ..RIGHT }, ALL);
}

#[test]
fn other_windows_would_be_noise() {
    let window = |bits, t, i| trellis::ring_end(bits, t) - trellis::fresh_bits(bits, t) + i;
    assert_noise("window that starts with the fresh bits", Decoder { window, ..RIGHT }, ALL);
    let window = |bits: exl3::Bits, t, i| trellis::ring_end(bits, t) + bits.ring_bits() - 1 - i;
    assert_noise("window read backwards", Decoder { window, ..RIGHT }, ALL);
}

#[test]
fn a_window_that_does_not_wrap_around_the_ring_would_spoil_the_first_weights_of_each_tile() {
    // Bits before the start of the ring are read as its first bit: only the first states of a tile are wrong.
    let window = |bits, t, i: usize| (trellis::ring_end(bits, t) + i).saturating_sub(16);
    let decoder = Decoder { window, ..RIGHT };
    let [least, most] = errors(decoder, ALL);
    println!("window that does not wrap: relative error of y {least:.2} to {most:.2}");
    assert!(least > 0.03 && most < 1.0, "{least} to {most}");
}

#[test]
fn at_half_bits_an_extra_bit_on_even_positions_would_spoil_half_of_the_weights() {
    let window = |bits: exl3::Bits, t: usize, i| {
        let half_bits = usize::from(bits.half_bits());
        ((t + 1) * half_bits).div_ceil(2) + bits.ring_bits() - 16 + i
    };
    let whole = errors(Decoder { window, ..RIGHT }, |layer| layer.view().bits().is_whole());
    assert!(whole[1] < 3e-3, "whole bits have no such choice");
    // S(t) comes out right for odd t: half of the weights are right, which leaves sqrt(1/2) to 1.
    let half = errors(Decoder { window, ..RIGHT }, |layer| !layer.view().bits().is_whole());
    println!("extra bit on even positions: relative error of y {:.2} to {:.2}", half[0], half[1]);
    assert!(half[0] > 0.7, "extra bit on even positions: only {}", half[0]);
}

#[test]
fn another_codebook_would_be_noise() {
    let file = file();
    for label in LAYERS {
        for codebook in exl3::Codebook::ALL {
            let mut layer = read(&file, label);
            if codebook != layer.codebook && codebook.allows(layer.view().bits()) {
                layer.codebook = codebook;
                let error = error(RIGHT, &layer, &file, label);
                println!("{label} read as {codebook}: relative error of y {error:.2}");
                assert!(error > 1.0, "{label} read as {codebook}: only {error}");
            }
        }
    }
}

#[test]
fn other_rotations_would_be_noise() {
    assert_noise("no rotation", Decoder { rotate: |_| (), ..RIGHT }, ALL);
    let rotate = |values: &mut [f32]| {
        for block in values.chunks_exact_mut(64) {
            hadamard::walsh_hadamard(block);
            block.iter_mut().for_each(|value| *value *= 0.125);
        }
    };
    assert_noise("rotation in blocks of 64", Decoder { rotate, ..RIGHT }, ALL);
    let rotate = |values: &mut [f32]| {
        hadamard::hadamard_128(values);
        for block in values.chunks_exact_mut(128) {
            // Sequency order: row i of H moves to the place of the Gray code of i, bits reversed.
            let natural = block.to_vec();
            for (i, value) in block.iter_mut().enumerate() {
                *value = natural[((i ^ i >> 1) as u8).reverse_bits() as usize >> 1];
            }
        }
    };
    assert_noise("rotation in sequency order", Decoder { rotate, ..RIGHT }, ALL);
}

#[test]
fn a_rotation_without_its_factor_is_128_times_too_large() {
    let rotate = |values: &mut [f32]| {
        for block in values.chunks_exact_mut(128) {
            hadamard::walsh_hadamard(block);
        }
    };
    let [least, most] = errors(Decoder { rotate, ..RIGHT }, ALL);
    assert!((126.9..127.1).contains(&least) && (126.9..127.1).contains(&most), "{least} to {most}");
}

#[test]
fn scales_on_the_other_side_or_inside_the_rotation_would_be_noise() {
    // Only a square layer can be read so. In most of these the converter drew both sides' signs alike, one the
    // negative of the other: swapped, mul1-3.5 is off by 0.11 only. mul1-1.5 has unlike signs.
    let (file, swapped) = (file(), Decoder { scales: Scales::Swapped, ..RIGHT });
    let [telling, blind] =
        ["mul1-1.5", "mul1-3.5"].map(|label| error(swapped, &read(&file, label), &file, label));
    println!("suh on the outputs, svh on the inputs: relative error of y {telling:.2}; blind {blind:.2}");
    assert!(telling > 1.0, "suh on the outputs, svh on the inputs: only {telling}");
    assert_noise("scales inside the rotations", Decoder { scales: Scales::Inside, ..RIGHT }, ALL);
}

#[test]
fn a_bias_before_the_scales_would_show() {
    let file = file();
    let layer = read(&file, "mul1-6");
    let bias = layer.bias.as_ref().expect("the layer has a bias");
    let mut y = RIGHT.apply(&layer, &file.f32("mul1-6.x"));
    for row in y.chunks_exact_mut(bias.len()) {
        for ((y, bias), svh) in row.iter_mut().zip(bias).zip(&layer.svh) {
            *y += bias.to_f32() * svh.to_f32();
        }
    }
    let error = golden::frobenius(&y, &file.f32("mul1-6.y"));
    println!("bias before svh: relative error of y {error:.2}");
    assert!(error > 0.1, "{error}");
}
