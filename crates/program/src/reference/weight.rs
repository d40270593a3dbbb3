//! Weights as they arrive to dense numbers, by the plainest way there is.

use std::collections::HashMap;

use bytes::Bytes;
use exl3::tile::{TILE, WEIGHTS, position};
use exl3::{Bits, Embedding, EmbeddingParts, Linear, LinearParts, hadamard, trellis};
use half::f16;

use super::device::NAME;
use super::linear::Matrix;
use crate::{Dtype, Error, HostTensor, Kind, Result, WeightId};

/// One part of a weight.
#[derive(Debug)]
pub(super) enum Weight {
    /// Numbers used one by one.
    Vector(Vec<f32>),
    /// A linear map, or a plain embedding table, whose rows are its outputs.
    Matrix(Matrix),
    /// An embedding table that stays codes: a row is decoded when it is read.
    Codes(CodedTable),
}

/// A quantised embedding table.
#[derive(Debug)]
pub(super) struct CodedTable {
    vocab: usize,
    hidden: usize,
    row_words: usize,
    trellis: Bytes,
    signs: Vec<f16>,
}

/// All weights uploaded so far.
#[derive(Debug, Default)]
pub(super) struct Weights(HashMap<(WeightId, u32), Weight>);

/// What cannot be done, as this device's error.
pub(super) fn refuse<T>(what: String) -> Result<T> {
    Err(Error::Use { device: NAME.into(), what })
}

impl Weights {
    /// Keeps one part of a weight; one that was there before is replaced.
    pub(super) fn insert(&mut self, id: WeightId, part: u32, tensor: &HostTensor) -> Result<()> {
        let weight = Weight::of(tensor).map_err(|error| match error {
            Error::Use { device, what } => {
                Error::Use { device, what: format!("part {part} of weight {}: {what}", id.0) }
            }
            other => other,
        })?;
        self.0.insert((id, part), weight);
        Ok(())
    }

    /// How many parts a weight has, counted up to the first that is missing.
    pub(super) fn parts(&self, id: WeightId) -> u32 {
        (0..).take_while(|part| self.0.contains_key(&(id, *part))).count() as u32
    }

    /// A vector.
    pub(super) fn vector(&self, id: WeightId) -> Result<&[f32]> {
        match self.get(id, 0)? {
            Weight::Vector(values) => Ok(values),
            other => refuse(format!("weight {} is {}, needed a vector", id.0, other.describe())),
        }
    }

    /// A matrix, a plain embedding table included.
    pub(super) fn matrix(&self, id: WeightId, part: u32) -> Result<&Matrix> {
        match self.get(id, part)? {
            Weight::Matrix(matrix) => Ok(matrix),
            other => {
                refuse(format!("part {part} of weight {} is {}, needed a matrix", id.0, other.describe()))
            }
        }
    }

    /// Rows and columns of an embedding table.
    pub(super) fn table_shape(&self, id: WeightId) -> Result<(usize, usize)> {
        match self.get(id, 0)? {
            Weight::Matrix(table) => Ok((table.out, table.inputs)),
            Weight::Codes(table) => Ok((table.vocab, table.hidden)),
            Weight::Vector(_) => refuse(format!("weight {} is a vector, needed an embedding table", id.0)),
        }
    }

    /// The rows of an embedding table that belong to `tokens`.
    pub(super) fn embed(&self, id: WeightId, tokens: &[u32]) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        match self.get(id, 0)? {
            Weight::Matrix(table) => {
                for token in tokens {
                    out.extend_from_slice(&table.values[*token as usize * table.inputs..][..table.inputs]);
                }
            }
            Weight::Codes(table) => {
                let mut row = vec![f16::ZERO; table.hidden];
                for token in tokens {
                    table.view()?.row(*token as usize, &mut row)?;
                    out.extend(row.iter().map(|value| value.to_f32()));
                }
            }
            Weight::Vector(_) => return refuse(format!("weight {} is a vector, needed a table", id.0)),
        }
        Ok(out)
    }

    fn get(&self, id: WeightId, part: u32) -> Result<&Weight> {
        match self.0.get(&(id, part)) {
            Some(weight) => Ok(weight),
            None => refuse(format!("part {part} of weight {} was not uploaded", id.0)),
        }
    }
}

impl Weight {
    fn of(tensor: &HostTensor) -> Result<Weight> {
        match tensor {
            HostTensor::Dense { kind, dtype, data, bias } => {
                let values = dense(*kind, *dtype, data)?;
                match kind {
                    Kind::Vector { .. } => Ok(Weight::Vector(values)),
                    _ => Ok(Weight::Matrix(matrix(*kind, values, bias.as_deref())?)),
                }
            }
            HostTensor::Exl3 { kind, bits, codebook, trellis, suh, svh, bias } => {
                let Kind::Linear { out, inputs, .. } = *kind else {
                    return refuse(format!("{kind:?} cannot be stored as the codes of a linear map"));
                };
                let padded = [inputs, out].map(|size| hadamard::padded(size as usize));
                let shape = [padded[0] / TILE, padded[1] / TILE, bits.tile_words()];
                let parts = LinearParts { trellis, shape, suh, svh, bias: None, codebook: *codebook };
                let values = decode(&Linear::new(parts)?, out as usize, inputs as usize);
                Ok(Weight::Matrix(matrix(*kind, values, bias.as_deref())?))
            }
            HostTensor::Exl3Table { kind, bits, trellis, signs } => {
                let Kind::Table { vocab, hidden } = *kind else {
                    return refuse(format!("{kind:?} cannot be stored as the codes of a table"));
                };
                let table = CodedTable {
                    vocab: vocab as usize,
                    hidden: hidden as usize,
                    row_words: row_words(hidden as usize, *bits),
                    trellis: trellis.clone(),
                    signs: signs.clone(),
                };
                table.view()?;
                Ok(Weight::Codes(table))
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            Weight::Vector(values) => format!("a vector of {}", values.len()),
            Weight::Matrix(matrix) => format!("a matrix [{}, {}]", matrix.out, matrix.inputs),
            Weight::Codes(table) => format!("a coded table [{}, {}]", table.vocab, table.hidden),
        }
    }
}

impl CodedTable {
    fn view(&self) -> Result<Embedding<'_>> {
        let parts = EmbeddingParts {
            trellis: &self.trellis,
            shape: [self.vocab, self.row_words],
            signs: &self.signs,
            hidden: self.hidden,
        };
        Ok(Embedding::new(parts)?)
    }
}

/// Words of 16 bits in a row of an embedding table: a scale and a ring for every 256 channels.
fn row_words(hidden: usize, bits: Bits) -> usize {
    hidden.div_ceil(WEIGHTS) * (1 + bits.tile_words())
}

fn dense(kind: Kind, dtype: Dtype, data: &[u8]) -> Result<Vec<f32>> {
    let (rows, cols) = kind.shape();
    let needed = rows as usize * cols as usize * dtype.bytes();
    if data.len() != needed {
        return refuse(format!("{kind:?} has {} bytes as {dtype:?}, needed {needed}", data.len()));
    }
    Ok(data.chunks_exact(dtype.bytes()).map(|number| dtype.read(number)).collect())
}

fn matrix(kind: Kind, values: Vec<f32>, bias: Option<&[f32]>) -> Result<Matrix> {
    let (out, inputs) = kind.shape();
    let wanted = matches!(kind, Kind::Linear { bias: true, .. }).then_some(out as usize);
    if bias.map(<[f32]>::len) != wanted {
        return refuse(format!("{kind:?} has a bias of {:?} numbers", bias.map(<[f32]>::len)));
    }
    Ok(Matrix { out: out as usize, inputs: inputs as usize, values, bias: bias.map(<[f32]>::to_vec) })
}

const BLOCK: usize = hadamard::BLOCK;

/// A block of 128 x 128 numbers, row-major.
type Block = Vec<[f32; BLOCK]>;

/// The weight `[out, inputs]` without padding: `diag(suh) H inner H diag(svh)`, transposed.
///
/// The rotation is block-diagonal on both sides, so that each block of 128 x 128 is turned by itself. The
/// two factors 1 / sqrt(128) are left to the end, where they make an exact 1 / 128.
fn decode(linear: &Linear<'_>, out: usize, inputs: usize) -> Vec<f32> {
    let table: Vec<f32> = linear.codebook().table().into_iter().map(f16::to_f32).collect();
    let signs = sign_matrix();
    let mut values = vec![0.0; out * inputs];
    for row in (0..inputs).step_by(BLOCK) {
        for column in (0..out).step_by(BLOCK) {
            let inner = block(linear, &table, row / TILE, column / TILE);
            let turned = product(&product(&signs, &inner), &signs);
            for (k, turned) in (row..inputs).zip(turned) {
                for (n, value) in (column..out).zip(turned) {
                    let scale = linear.suh()[k].to_f32() * linear.svh()[n].to_f32();
                    values[n * inputs + k] = value / BLOCK as f32 * scale;
                }
            }
        }
    }
    values
}

/// `(-1)^popcount(i & j)`: sqrt(128) times the Hadamard matrix.
fn sign_matrix() -> Block {
    let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
    (0..BLOCK).map(|i| std::array::from_fn(|j| sign(i, j))).collect()
}

/// The values of 8 x 8 tiles from tile (`a`, `b`) on.
fn block(linear: &Linear<'_>, table: &[f32], a: usize, b: usize) -> Block {
    let mut block = vec![[0.0; BLOCK]; BLOCK];
    let mut states = [0; WEIGHTS];
    for tile_row in 0..BLOCK / TILE {
        for tile_column in 0..BLOCK / TILE {
            trellis::unpack(linear.tile(a + tile_row, b + tile_column), linear.bits(), &mut states);
            for (stream, state) in states.into_iter().enumerate() {
                let (row, column) = position(stream);
                block[tile_row * TILE + row][tile_column * TILE + column] = table[usize::from(state)];
            }
        }
    }
    block
}

/// Columns of a product that are summed together: as many as registers hold, for speed alone.
const COLUMNS: usize = 32;

fn product(a: &Block, b: &Block) -> Block {
    let mut product = vec![[0.0; BLOCK]; BLOCK];
    for (a, out) in a.iter().zip(&mut product) {
        for start in (0..BLOCK).step_by(COLUMNS) {
            let mut sums = [0.0; COLUMNS];
            for (factor, b) in a.iter().zip(b) {
                for (sum, b) in sums.iter_mut().zip(&b[start..start + COLUMNS]) {
                    *sum += factor * b;
                }
            }
            out[start..start + COLUMNS].copy_from_slice(&sums);
        }
    }
    product
}
