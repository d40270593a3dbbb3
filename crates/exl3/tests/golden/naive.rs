//! A decoder that takes one bit at a time and has each of the format's choices as a part.
//!
//! With the right parts it is a second implementation that the crate has to agree with; with one wrong part
//! it shows what that mistake looks like.

use exl3::trellis::ring_end;
use exl3::{Bits, hadamard, tile};
use half::f16;

use crate::layer::Layer;

/// The choices.
#[derive(Clone, Copy)]
pub(crate) struct Decoder {
    /// Number of the tile (a, b) of a x b tiles.
    pub(crate) tile: fn([usize; 2], [usize; 2]) -> usize,
    /// Row and column in the tile of a stream position.
    pub(crate) position: fn(usize) -> (usize, usize),
    /// Byte and bit (the lowest is 0) of a bit of the ring.
    pub(crate) ring_bit: fn(usize) -> (usize, usize),
    /// The ring's bit number of bit i of state t (i = 0 is the most significant), modulo the ring.
    pub(crate) window: fn(Bits, usize, usize) -> usize,
    /// The rotation of the features of either side.
    pub(crate) rotate: fn(&mut [f32]),
    /// Where the scales act.
    pub(crate) scales: Scales,
}

/// Which of suh and svh acts where.
#[derive(Clone, Copy)]
pub(crate) enum Scales {
    /// x * suh, H, inner, H, * svh: the format.
    InputsOutside,
    /// x * svh, H, inner, H, * suh; square layers only.
    Swapped,
    /// x H * suh, inner, * svh H: inside of the rotations.
    Inside,
}

/// The format.
pub(crate) const RIGHT: Decoder = Decoder {
    tile: |[a, b], [_, columns]| a * columns + b,
    position: tile::position,
    // The most significant bit of a little-endian word of 32 bits is in its last byte.
    ring_bit: |bit| (bit / 32 * 4 + 3 - bit % 32 / 8, 7 - bit % 8),
    window: |bits, t, i| ring_end(bits, t) + bits.ring_bits() - 16 + i,
    rotate: hadamard::hadamard_128,
    scales: Scales::InputsOutside,
};

impl Decoder {
    pub(crate) fn inner(&self, layer: &Layer) -> Vec<f16> {
        let [rows, columns, _] = layer.shape;
        let bits = layer.view().bits();
        let mut inner = vec![f16::ZERO; 256 * rows * columns];
        for (a, b) in (0..rows).flat_map(|a| (0..columns).map(move |b| (a, b))) {
            let start = (self.tile)([a, b], [rows, columns]) * bits.tile_bytes();
            let bytes = &layer.trellis[start..start + bits.tile_bytes()];
            for t in 0..256 {
                let state = (0..16).fold(0_u16, |state, i| {
                    let (byte, bit) = (self.ring_bit)((self.window)(bits, t, i) % bits.ring_bits());
                    state << 1 | u16::from(bytes[byte] >> bit & 1)
                });
                let (row, column) = (self.position)(t);
                inner[(16 * a + row) * 16 * columns + 16 * b + column] = layer.codebook.value(state);
            }
        }
        inner
    }

    /// Rows of outputs without bias.
    pub(crate) fn apply(&self, layer: &Layer, x: &[f32]) -> Vec<f32> {
        let (inputs, outputs) = (layer.suh.len(), layer.svh.len());
        let inner = self.inner(layer);
        let [before, after] = match self.scales {
            Scales::InputsOutside | Scales::Inside => [&layer.suh, &layer.svh],
            Scales::Swapped => [&layer.svh, &layer.suh],
        };
        let scale = |values: &mut [f32], scales: &[f16]| {
            values.iter_mut().zip(scales).for_each(|(value, scale)| *value *= scale.to_f32());
        };
        let row = |x: &[f32]| {
            let mut x = x.to_vec();
            let mut y = vec![0.0_f32; outputs];
            match self.scales {
                Scales::Inside => {
                    (self.rotate)(&mut x);
                    scale(&mut x, before);
                }
                Scales::InputsOutside | Scales::Swapped => {
                    scale(&mut x, before);
                    (self.rotate)(&mut x);
                }
            }
            for (j, y) in y.iter_mut().enumerate() {
                *y = (0..inputs).map(|i| x[i] * inner[i * outputs + j].to_f32()).sum();
            }
            match self.scales {
                Scales::Inside => {
                    scale(&mut y, after);
                    (self.rotate)(&mut y);
                }
                Scales::InputsOutside | Scales::Swapped => {
                    (self.rotate)(&mut y);
                    scale(&mut y, after);
                }
            }
            y
        };
        x.chunks_exact(inputs).flat_map(row).collect()
    }
}
