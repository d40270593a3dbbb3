//! From bytes to numbers, step by step: `cargo run -p exl3 --example decode`.

#![expect(clippy::print_stdout, reason = "an example is there to be read")]

use exl3::hadamard::hadamard_128;
use exl3::{Bits, Codebook, Error, Linear, LinearParts, tile, trellis};
use half::f16;

fn main() -> Result<(), Error> {
    // One tile: 16 x 16 weights in 256 K bits. Every string of bytes is a valid one.
    let bits: Bits = "3".parse()?;
    let codebook = Codebook::Mul1;
    let bytes = noise(bits.tile_bytes());
    println!("A tile of {bits} bits a weight: {} bytes, starting {:02x?}", bytes.len(), &bytes[..6]);

    // Each weight has a state of 16 bits; neighbours share 16 - K of them.
    let mut states = [0; tile::WEIGHTS];
    trellis::unpack(&bytes, bits, &mut states);
    for (t, state) in states.iter().take(4).enumerate() {
        let (row, column) = tile::position(t);
        let value = codebook.value(*state);
        println!("  state {t} = {state:016b} -> {value:+.4}, the weight of input {row} and output {column}");
    }

    // Packing keeps the K newest bits of each state, which is all there is.
    let mut again = vec![0; bits.tile_bytes()];
    trellis::pack(&states, bits, &mut again);
    assert_eq!(again, bytes);

    // The rotation spreads one large value over its block of 128, and undoes itself.
    let mut features = [0.0_f32; 128];
    features[5] = 8.0;
    hadamard_128(&mut features);
    println!("One feature of 8, rotated: {:+.3?} ...", &features[..6]);
    hadamard_128(&mut features);
    println!("and back: {:+.3?} ...", &features[..6]);

    // A layer of 128 inputs and 256 outputs is 8 x 16 tiles and a scale for each input and output.
    let shape = [8, 16, bits.tile_words()];
    let trellis = noise(shape[0] * shape[1] * bits.tile_bytes());
    let suh = [f16::from_f32(0.01); 128];
    let svh = [f16::ONE; 256];
    let layer =
        Linear::new(LinearParts { trellis: &trellis, shape, suh: &suh, svh: &svh, bias: None, codebook })?;
    let x: Vec<f32> = (0..128).map(|i| (i as f32 * 0.1).sin()).collect();
    println!("y = x W, in the rotated basis: {:+.5?} ...", &layer.apply(&x, 1)[..4]);

    // The same with the weight written out.
    let weight = layer.weight();
    let output = |column| x.iter().enumerate().map(|(row, x)| x * weight[row * 256 + column]).sum();
    println!("y = x W, with W written out:   {:+.5?} ...", [0, 1, 2, 3].map(output) as [f32; 4]);
    Ok(())
}

/// Bytes without a pattern, the same each time.
fn noise(count: usize) -> Vec<u8> {
    let mut x = 1_u32;
    let next = |_| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 24) as u8
    };
    (0..count).map(next).collect()
}
