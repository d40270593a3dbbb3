//! Turns the tensors of a weight into the host's copy of it.
//!
//! The large tensors stay slices of the memory map; scales, signs and biases are small and copied, and
//! checked to be finite.

use bytes::Bytes;
use exl3::{EmbeddingParts, LinearParts};
use half::f16;
use program::{Dtype, Error, HostTensor, Kind, Result};

use super::find::{Found, Scales, Tensor};

impl Found<'_> {
    /// Reads the weight, with its pages in memory.
    pub(super) fn read(&self, kind: Kind) -> Result<HostTensor> {
        match self {
            Found::Dense { weight, dtype, bias } => {
                if matches!(kind, Kind::Vector { .. }) {
                    weight.values()?;
                }
                let bias = bias.as_ref().map(Tensor::values).transpose()?;
                Ok(HostTensor::Dense { kind, dtype: *dtype, data: weight.mapped(), bias })
            }
            Found::Exl3 { module, trellis, input, output, bits, codebook, bias, .. } => {
                let shape = &trellis.entry.shape;
                let shape = [shape[0], shape[1], shape[2]];
                let suh = input.values(shape[0] * 16)?;
                let svh = output.values(shape[1] * 16)?;
                let data = trellis.mapped();
                let parts = LinearParts {
                    trellis: &data,
                    shape,
                    suh: &suh,
                    svh: &svh,
                    bias: None,
                    codebook: *codebook,
                };
                let linear = exl3::Linear::new(parts).map_err(|error| refused(module, trellis, &error))?;
                if let Kind::Plain { .. } = kind {
                    return Ok(plain(&linear, kind));
                }
                let mut bias = bias.as_ref().map(Tensor::values).transpose()?;
                if let Some(bias) = &mut bias {
                    bias.truncate(kind.shape().0 as usize);
                }
                Ok(HostTensor::Exl3 { kind, bits: *bits, codebook: *codebook, trellis: data, suh, svh, bias })
            }
            Found::Table { module, trellis, signs, bits } => {
                let (_, hidden) = kind.shape();
                let data = trellis.mapped();
                let signs = signs.halves()?;
                let shape = [trellis.entry.shape[0], trellis.entry.shape[1]];
                let parts = EmbeddingParts { trellis: &data, shape, signs: &signs, hidden: hidden as usize };
                exl3::Embedding::new(parts).map_err(|error| refused(module, trellis, &error))?;
                Ok(HostTensor::Exl3Table { kind, bits: *bits, trellis: data, signs })
            }
        }
    }
}

/// Decodes a linear map that a device takes apart by rows: row-major `[out, inputs]` in f32.
fn plain(linear: &exl3::Linear<'_>, kind: Kind) -> HostTensor {
    let (out, inputs) = kind.shape();
    let (out, inputs, stride) = (out as usize, inputs as usize, linear.out_features());
    // The codec gives [in, out].
    let weight = linear.weight();
    let mut data = Vec::with_capacity(out * inputs * 4);
    for row in 0..out {
        for column in 0..inputs {
            data.extend_from_slice(&weight[column * stride + row].to_le_bytes());
        }
    }
    HostTensor::Dense { kind, dtype: Dtype::F32, data: data.into(), bias: None }
}

fn refused(module: &str, tensor: &Tensor<'_>, error: &exl3::Error) -> Error {
    Error::Weight { name: module.into(), what: format!("in {}: {error}", tensor.shard.file) }
}

impl Scales<'_> {
    fn values(&self, features: usize) -> Result<Vec<f16>> {
        match self {
            Scales::Values(tensor) => tensor.halves(),
            Scales::Signs(tensor) => {
                exl3::signs::expand(tensor.bytes(), features).map_err(|error| tensor.error(error.to_string()))
            }
        }
    }
}

impl Tensor<'_> {
    /// Its bytes as a slice of the map, in memory.
    fn mapped(&self) -> Bytes {
        self.shard.map.make_resident(self.entry.bytes.clone());
        self.shard.map.slice(self.entry.bytes.clone())
    }

    /// Its numbers, which must be finite.
    fn values(&self) -> Result<Vec<f32>> {
        let dtype = self.float()?;
        let values: Vec<f32> =
            self.bytes().chunks_exact(dtype.bytes()).map(|number| dtype.read(number)).collect();
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => {
                let what = format!(
                    "number {index} is {}; the file is damaged, fetch or quantise it again",
                    values[index]
                );
                Err(self.error(what))
            }
            None => Ok(values),
        }
    }

    /// Its numbers as halves.
    fn halves(&self) -> Result<Vec<f16>> {
        Ok(self.values()?.into_iter().map(f16::from_f32).collect())
    }
}
