//! One layer, 256 to 128 features, at 3 bits with each codebook and at half bits.

use exl3::hadamard::{NORMALISATION, hadamard_128, walsh_hadamard};
use exl3::{Bits, Codebook, Linear, LinearParts};
use half::f16;

use crate::sequence::{centred, fnv1a_halves, lcg_bytes};

const INPUTS: usize = 256;
const OUTPUTS: usize = 128;

struct Vector {
    bits: &'static str,
    codebook: Codebook,
    inner: u64,
    first_weight: f32,
    last_weight: f32,
    sum_of_magnitudes: f64,
    first_output: f32,
    last_output: f32,
}

const VECTORS: [Vector; 6] = [
    Vector {
        bits: "3",
        codebook: Codebook::ThreeInst,
        inner: 0x300e_6f7e_a625_a904,
        first_weight: -0.0223809,
        last_weight: 0.03243027,
        sum_of_magnitudes: 549.5365,
        first_output: 0.277598,
        last_output: 0.0927303,
    },
    Vector {
        bits: "3",
        codebook: Codebook::Mcg,
        inner: 0x4b9d_dd0e_23f9_7c3c,
        first_weight: 0.01693845,
        last_weight: 0.01396353,
        sum_of_magnitudes: 542.6765,
        first_output: 0.204399,
        last_output: -0.0520553,
    },
    Vector {
        bits: "3",
        codebook: Codebook::Mul1,
        inner: 0x0a48_fc18_511f_4bc9,
        first_weight: 0.02349911,
        last_weight: 0.01478675,
        sum_of_magnitudes: 434.4247,
        first_output: 0.156251,
        last_output: 0.273956,
    },
    Vector {
        bits: "1.5",
        codebook: Codebook::Mul1,
        inner: 0xa467_78ec_adb3_3015,
        first_weight: 0.02720994,
        last_weight: 0.03606908,
        sum_of_magnitudes: 430.3703,
        first_output: -0.224811,
        last_output: 0.137969,
    },
    Vector {
        bits: "2.5",
        codebook: Codebook::Mul1,
        inner: 0x1454_26e4_e3df_2dcd,
        first_weight: -0.009014526,
        last_weight: -0.001201952,
        sum_of_magnitudes: 435.6295,
        first_output: 0.324051,
        last_output: -0.0936994,
    },
    Vector {
        bits: "3.5",
        codebook: Codebook::Mul1,
        inner: 0xfd9c_9e5a_d904_0f7e,
        first_weight: -0.01244321,
        last_weight: -0.003537947,
        sum_of_magnitudes: 432.9691,
        first_output: -0.114014,
        last_output: -0.132587,
    },
];

/// Equal to what is printed: the vectors have seven digits, the outputs six, and a sum of 256 products in
/// f32 has an error of a few units of the seventh.
fn assert_close(got: f64, want: f64, what: &str, bits: Bits, codebook: Codebook) {
    let bound = 5e-6 * want.abs().max(0.1);
    assert!((got - want).abs() <= bound, "{what} at {bits} bits with {codebook}: {got}, needed {want}");
}

/// x * suh and its transform, both rounded to halves as the format's kernels with half activations do.
fn rotated_halves(x: &[f16], suh: &[f16]) -> Vec<f16> {
    let product = |(x, suh): (&f16, &f16)| f16::from_f32(x.to_f32() * suh.to_f32()).to_f32();
    let mut values: Vec<f32> = x.iter().zip(suh).map(product).collect();
    for block in values.chunks_exact_mut(128) {
        walsh_hadamard(block);
    }
    values.into_iter().map(|value| f16::from_f32(value * NORMALISATION)).collect()
}

#[test]
fn layers_decode_to_the_published_weights_and_outputs() {
    let suh = centred(INPUTS, 5, 524_288.0);
    let svh = centred(OUTPUTS, 6, 32_768.0);
    let x = centred(2 * INPUTS, 9, 16_384.0);
    let rotated: Vec<f16> = x.chunks(INPUTS).flat_map(|row| rotated_halves(row, &suh)).collect();
    assert_eq!(fnv1a_halves(&rotated), 0xc8fb_4f47_1a04_d41c, "rotated inputs");

    for vector in &VECTORS {
        let (bits, codebook): (Bits, Codebook) = (vector.bits.parse().unwrap(), vector.codebook);
        let shape = [INPUTS / 16, OUTPUTS / 16, bits.tile_words()];
        let trellis = lcg_bytes(shape.iter().product(), 77);
        let parts = LinearParts { trellis: &trellis, shape, suh: &suh, svh: &svh, bias: None, codebook };
        let linear = Linear::new(parts).unwrap();
        let close = |got: f64, want: f64, what: &str| assert_close(got, want, what, bits, codebook);

        let inner = linear.inner();
        assert_eq!(fnv1a_halves(&inner), vector.inner, "inner weights at {bits} bits with {codebook}");
        let weight = linear.weight();
        close(weight[0].into(), vector.first_weight.into(), "W[0, 0]");
        close(weight[INPUTS * OUTPUTS - 1].into(), vector.last_weight.into(), "W[255, 127]");
        let sum: f64 = weight.iter().map(|&value| f64::from(value).abs()).sum();
        close(sum, vector.sum_of_magnitudes, "sum of |W|");

        // The published outputs are those of the rotated inputs in halves.
        let output = |row: usize, column: usize| {
            let mut y: Vec<f32> = (0..OUTPUTS)
                .map(|j| {
                    (0..INPUTS)
                        .map(|i| rotated[row * INPUTS + i].to_f32() * inner[i * OUTPUTS + j].to_f32())
                        .sum()
                })
                .collect();
            hadamard_128(&mut y);
            y[column] * svh[column].to_f32()
        };
        close(output(0, 0).into(), vector.first_output.into(), "y[0, 0]");
        close(output(1, 127).into(), vector.last_output.into(), "y[1, 127]");

        // apply() rounds nothing to halves. Rounding 256 inputs to 11 bits moves an output by about
        // 2^-12 of the norm of y, here 0.2 a component.
        let x: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
        let y = linear.apply(&x, 2);
        assert!((y[0] - vector.first_output).abs() < 5e-4, "y[0, 0] of apply: {}", y[0]);
        assert!((y[255] - vector.last_output).abs() < 5e-4, "y[1, 127] of apply: {}", y[255]);
    }
}
