//! The repository's own golden file: one layer for each codebook and width, and a few embedding rows.

use exl3::Bits;
use golden::Tensors;

use crate::layer::{Layer, assert_embedding_rows, assert_inner, output_error};

/// The layers of the file, named by codebook and width.
pub(crate) const LAYERS: [&str; 10] = [
    "3inst-4", "mcg-2", "mul1-1.5", "mul1-2", "mul1-2.5", "mul1-3", "mul1-3.5", "mul1-4", "mul1-5", "mul1-6",
];

pub(crate) fn file() -> Tensors {
    Tensors::open(golden::folder().join("codec.safetensors"))
}

pub(crate) fn read(file: &Tensors, label: &str) -> Layer {
    let (codebook, _) = label.split_once('-').expect("codebook-bits");
    Layer::read(file, label, codebook.parse().expect("a codebook"))
}

#[test]
fn one_layer_of_each_codebook_and_width_decodes_bit_by_bit() {
    let file = file();
    for label in LAYERS {
        let layer = read(&file, label);
        let bits: Bits = label.split_once('-').unwrap().1.parse().unwrap();
        assert_eq!(layer.view().bits(), bits, "{label}");
        assert_inner(&layer.view(), &file, label);
    }
}

#[test]
fn one_layer_of_each_codebook_and_width_gives_its_golden_output() {
    let file = file();
    for label in LAYERS {
        let error = output_error(&read(&file, label).view(), &file, label);
        // Inputs, rotated inputs and outputs were rounded to f16 there: a few times 2^-11.
        assert!(error < 3e-3, "{label}: {error:.1e}");
        println!("{label}: {error:.1e}");
    }
}

#[test]
fn padded_output_features_are_exactly_zero() {
    let file = file();
    for (label, features) in [("mcg-2", 32), ("mul1-2.5", 1000)] {
        let layer = read(&file, label);
        let outputs = layer.svh.len();
        let x = file.f32(&format!("{label}.x"));
        for (ours, golden) in
            layer.view().apply(&x, 5).chunks(outputs).zip(file.f32(&format!("{label}.y")).chunks(outputs))
        {
            assert!(ours[features..].iter().all(|&value| value == 0.0), "{label}");
            assert!(golden[features..].iter().all(|&value| value == 0.0), "{label}");
            assert!(golden[..features].iter().all(|&value| value != 0.0), "{label}");
        }
    }
}

#[test]
fn padded_input_features_have_weights_and_have_to_be_fed_zeros() {
    let file = file();
    let layer = read(&file, "mul1-5");
    let (inputs, features) = (layer.suh.len(), 320);
    assert_eq!(inputs, 384);
    // The golden inputs are not zero in the padding, so the golden outputs hold its share: what is left of
    // zeros after quantising, as large as the error of the other weights.
    let mut x = file.f32("mul1-5.x");
    x.chunks_exact_mut(inputs).for_each(|row| row[features..].fill(0.0));
    let share = golden::frobenius(&layer.view().apply(&x, 5), &file.f32("mul1-5.y"));
    println!("share of the padded inputs in y: {share:.3}");
    assert!((0.005..0.1).contains(&share), "{share}");
}

#[test]
fn embedding_rows_decode_bit_by_bit() {
    let file = file();
    let tokens: Vec<u32> = (0..16).collect();
    assert_embedding_rows(&file, "embedding", &tokens, &file.f16("embedding.rows"));
}
