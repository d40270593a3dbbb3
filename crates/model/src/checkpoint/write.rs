//! Writes a checkpoint, one weight after the other: nothing larger than one weight is held.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use exl3::hadamard;
use half::f16;
use program::{Dtype, HostTensor, Kind, ModelSpec, Storage, WeightSpec};
use serde_json::{Map, Value, json};

use super::folder;
use crate::source::Source;
use crate::{Error, Result};

/// A tensor of the file to be.
struct Planned {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    bytes: usize,
}

/// Writes `model.safetensors` with all weights of a model into a folder that exists.
///
/// # Errors
/// If a weight cannot be read or the file cannot be written.
pub(crate) fn write(model: &ModelSpec, source: &dyn Source, target: &Path) -> Result<()> {
    let path = target.join(folder::WEIGHTS);
    let io = |error: std::io::Error| Error::io(&path, &error);
    let mut file = BufWriter::new(File::create(&path).map_err(io)?);
    let header = header(model);
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(io)?;
    file.write_all(header.as_bytes()).map_err(io)?;
    for WeightSpec { kind, parts } in &model.weights {
        for part in parts {
            let tensor = source.read(&part.name, *kind);
            let tensor = tensor.map_err(|source| Error::Program { path: path.clone(), source })?;
            write_tensor(&mut file, &tensor).map_err(io)?;
        }
    }
    file.flush().map_err(io)
}

fn header(model: &ModelSpec) -> String {
    let mut header = Map::new();
    let mut end = 0;
    for WeightSpec { kind, parts } in &model.weights {
        for part in parts {
            for tensor in planned(&part.name, *kind, part.storage) {
                let offsets = [end, end + tensor.bytes];
                let entry = json!({ "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets });
                header.insert(tensor.name, entry);
                end += tensor.bytes;
            }
        }
    }
    Value::Object(header).to_string()
}

/// The tensors of a weight, in the order in which [`write_tensor`] writes them.
fn planned(name: &str, kind: Kind, storage: Storage) -> Vec<Planned> {
    let (rows, cols) = kind.shape();
    let (rows, cols) = (rows as usize, cols as usize);
    let planned = |suffix: &str, dtype, shape: &[usize], size: usize| Planned {
        name: format!("{name}{suffix}"),
        dtype,
        shape: shape.to_vec(),
        bytes: size * shape.iter().product::<usize>(),
    };
    let bias = |features: usize| match kind {
        Kind::Linear { bias: true, .. } => vec![planned(".bias", "F16", &[features], 2)],
        _ => vec![],
    };
    match storage {
        Storage::Dense(dtype) => {
            let (label, size) = (label(dtype), dtype.bytes());
            let weight = match kind {
                Kind::Vector { len } => planned("", label, &[len as usize], size),
                _ => planned(".weight", label, &[rows, cols], size),
            };
            std::iter::once(weight).chain(bias(rows)).collect()
        }
        Storage::Exl3 { bits, codebook } => {
            let (out, inputs) = (hadamard::padded(rows), hadamard::padded(cols));
            let mut tensors = vec![
                planned(".suh", "F16", &[inputs], 2),
                planned(".svh", "F16", &[out], 2),
                planned(".trellis", "I16", &[inputs / 16, out / 16, bits.tile_words()], 2),
            ];
            if let Some((suffix, _)) = codebook.marker() {
                tensors.push(planned(&format!(".{suffix}"), "I32", &[], 4));
            }
            tensors.extend(bias(out));
            tensors
        }
        Storage::Exl3Table { bits } => {
            let groups = cols.div_ceil(256);
            vec![
                planned(".signs", "F16", &[groups, 256], 2),
                planned(".trellis", "I16", &[rows, groups * (1 + bits.tile_words())], 2),
            ]
        }
    }
}

fn write_tensor(file: &mut impl Write, tensor: &HostTensor) -> std::io::Result<()> {
    match tensor {
        HostTensor::Dense { data, bias, .. } => {
            file.write_all(data)?;
            let bias = bias.as_deref().unwrap_or_default();
            write_halves(file, bias.iter().copied().map(f16::from_f32))
        }
        HostTensor::Exl3 { codebook, trellis, suh, svh, bias, .. } => {
            write_halves(file, suh.iter().copied())?;
            write_halves(file, svh.iter().copied())?;
            file.write_all(trellis)?;
            if let Some((_, value)) = codebook.marker() {
                file.write_all(&value.to_le_bytes())?;
            }
            let Some(bias) = bias else { return Ok(()) };
            let padding = svh.len() - bias.len();
            let bias = bias.iter().copied().chain(std::iter::repeat_n(0.0, padding));
            write_halves(file, bias.map(f16::from_f32))
        }
        HostTensor::Exl3Table { trellis, signs, .. } => {
            write_halves(file, signs.iter().copied())?;
            file.write_all(trellis)
        }
    }
}

fn write_halves(file: &mut impl Write, halves: impl Iterator<Item = f16>) -> std::io::Result<()> {
    let bytes: Vec<u8> = halves.flat_map(f16::to_le_bytes).collect();
    file.write_all(&bytes)
}

fn label(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "F32",
        Dtype::F16 => "F16",
        Dtype::Bf16 => "BF16",
    }
}
