//! One quantised linear layer.

use half::f16;

use crate::hadamard::{BLOCK, hadamard_128, hadamard_128_columns};
use crate::tile::{PERMUTATION, TILE, WEIGHTS};
use crate::{Bits, Codebook, Error, trellis};

/// The tensors of one layer, as found in a file.
#[derive(Clone, Copy, Debug)]
pub struct LinearParts<'a> {
    /// The tiles one after the other, `shape[0] * shape[1] * shape[2]` little-endian words of 16 bits.
    pub trellis: &'a [u8],
    /// [in features / 16, out features / 16, 16-bit words of a tile].
    pub shape: [usize; 3],
    /// Sign and scale of each input feature.
    pub suh: &'a [f16],
    /// Sign and scale of each output feature; 0 for a padded one.
    pub svh: &'a [f16],
    /// What is added to each output feature.
    pub bias: Option<&'a [f16]>,
    /// The codebook that the marker tensors name.
    pub codebook: Codebook,
}

/// A checked view of one quantised linear layer.
///
/// ```text
/// weight = diag(suh) . H . inner . H . diag(svh)        [in, out]
/// y      = x . weight + bias = ((x * suh) . H . inner) . H * svh + bias
/// ```
///
/// where `inner` are the values of the trellis and H is block-diagonal (see [`crate::hadamard`]). Sizes are
/// those of the file, padded to multiples of 128; who knows the true sizes extends x by zeros and cuts y.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    parts: LinearParts<'a>,
    bits: Bits,
}

impl<'a> Linear<'a> {
    /// Checks the tensors against each other.
    ///
    /// # Errors
    /// If the last dimension is no known width, the codebook does not have that width, a side is no positive
    /// multiple of 128, a length does not fit the shape, or a scale or bias is NaN or infinite.
    pub fn new(parts: LinearParts<'a>) -> Result<Linear<'a>, Error> {
        let LinearParts { shape, codebook, .. } = parts;
        let bits = Bits::from_tile_words(shape[2])?;
        if !codebook.allows(bits) {
            return Err(Error::CodebookBits { codebook, bits });
        }
        let too_large = || Error::TooLarge { what: "trellis", shape: shape.to_vec() };
        let [inputs, outputs] = [shape[0], shape[1]].map(|tiles| tiles.checked_mul(TILE));
        let (inputs, outputs) = inputs.zip(outputs).ok_or_else(too_large)?;
        let tiles = shape[0].checked_mul(shape[1]).ok_or_else(too_large)?;
        let bytes = tiles.checked_mul(bits.tile_bytes()).ok_or_else(too_large)?;
        for (what, found) in [("in features", inputs), ("out features", outputs)] {
            if found == 0 || !found.is_multiple_of(BLOCK) {
                return Err(Error::Multiple { what, found, multiple: BLOCK });
            }
        }
        if parts.trellis.len() != bytes {
            return Err(Error::Size {
                what: "trellis",
                unit: "bytes",
                found: parts.trellis.len(),
                needed: bytes,
            });
        }
        check("suh", parts.suh, inputs)?;
        check("svh", parts.svh, outputs)?;
        if let Some(bias) = parts.bias {
            check("bias", bias, outputs)?;
        }
        Ok(Linear { parts, bits })
    }

    /// Input features, padded: rows of the weight.
    pub fn in_features(&self) -> usize {
        self.parts.suh.len()
    }

    /// Output features, padded: columns of the weight.
    pub fn out_features(&self) -> usize {
        self.parts.svh.len()
    }

    /// Bits a weight.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// The codebook.
    pub fn codebook(&self) -> Codebook {
        self.parts.codebook
    }

    /// Sign and scale of each input feature.
    pub fn suh(&self) -> &'a [f16] {
        self.parts.suh
    }

    /// Sign and scale of each output feature.
    pub fn svh(&self) -> &'a [f16] {
        self.parts.svh
    }

    /// What is added to each output feature.
    pub fn bias(&self) -> Option<&'a [f16]> {
        self.parts.bias
    }

    /// All tiles, those of 16 input features after each other.
    pub fn trellis(&self) -> &'a [u8] {
        self.parts.trellis
    }

    /// The bytes of the tile of input features 16 a .. and output features 16 b ..
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn tile(&self, a: usize, b: usize) -> &'a [u8] {
        let [rows, columns, _] = self.parts.shape;
        assert!(a < rows && b < columns, "tile ({a}, {b}) of {rows} x {columns}");
        let bytes = self.bits.tile_bytes();
        let start = (a * columns + b) * bytes;
        &self.parts.trellis[start..start + bytes]
    }

    /// Decodes the tile of input features 16 a .. and output features 16 b .. into row-major 16 x 16 values.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn decode_tile(&self, a: usize, b: usize, values: &mut [f16; WEIGHTS]) {
        let mut states = [0; WEIGHTS];
        trellis::unpack(self.tile(a, b), self.bits, &mut states);
        for (state, index) in states.into_iter().zip(PERMUTATION) {
            values[usize::from(index)] = self.parts.codebook.value(state);
        }
    }

    /// The values of the trellis, row-major [in, out], exact.
    pub fn inner(&self) -> Vec<f16> {
        let columns = self.out_features();
        let mut inner = vec![f16::ZERO; self.in_features() * columns];
        let mut tile = [f16::ZERO; WEIGHTS];
        for (a, strip) in inner.chunks_exact_mut(TILE * columns).enumerate() {
            for b in 0..columns / TILE {
                self.decode_tile(a, b, &mut tile);
                for (row, values) in strip.chunks_exact_mut(columns).zip(tile.chunks_exact(TILE)) {
                    row[b * TILE..(b + 1) * TILE].copy_from_slice(values);
                }
            }
        }
        inner
    }

    /// The weight that the layer stands for, row-major [in, out], computed in f32.
    pub fn weight(&self) -> Vec<f32> {
        let columns = self.out_features();
        let mut weight: Vec<f32> = self.inner().into_iter().map(f16::to_f32).collect();
        hadamard_128_columns(&mut weight, columns);
        for (row, scale) in weight.chunks_exact_mut(columns).zip(self.suh()) {
            row.iter_mut().for_each(|value| *value *= scale.to_f32());
            hadamard_128(row);
            multiply(row, self.svh());
        }
        weight
    }

    /// Applies the layer, bias included, to `rows` rows of padded inputs: [rows, in] to [rows, out], in f32.
    ///
    /// This is the plain definition: products are summed over ascending input features.
    ///
    /// # Panics
    /// If `x` does not have `rows * in_features` values.
    pub fn apply(&self, x: &[f32], rows: usize) -> Vec<f32> {
        let (inputs, outputs) = (self.in_features(), self.out_features());
        assert_eq!(x.len(), rows * inputs, "{rows} rows of {inputs} inputs");
        let inner: Vec<f32> = self.inner().into_iter().map(f16::to_f32).collect();
        let mut y = vec![0.0; rows * outputs];
        for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact_mut(outputs)) {
            let mut rotated = x.to_vec();
            multiply(&mut rotated, self.suh());
            hadamard_128(&mut rotated);
            for (input, weights) in rotated.into_iter().zip(inner.chunks_exact(outputs)) {
                for (sum, weight) in y.iter_mut().zip(weights) {
                    *sum += input * weight;
                }
            }
            hadamard_128(y);
            multiply(y, self.svh());
            for (value, bias) in y.iter_mut().zip(self.bias().unwrap_or_default()) {
                *value += bias.to_f32();
            }
        }
        y
    }
}

fn multiply(values: &mut [f32], scales: &[f16]) {
    for (value, scale) in values.iter_mut().zip(scales) {
        *value *= scale.to_f32();
    }
}

fn check(what: &'static str, values: &[f16], needed: usize) -> Result<(), Error> {
    if values.len() != needed {
        return Err(Error::Size { what, unit: "values", found: values.len(), needed });
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(Error::NotFinite { what, index, value: values[index].to_f32() }),
        None => Ok(()),
    }
}
