//! Weights as they were uploaded: checked once, and kept without a copy where the host's bytes can be.

use bytes::Bytes;
use exl3::hadamard::padded;
use exl3::tile::TILE;
use exl3::{Bits, Codebook, Embedding, EmbeddingParts, Linear, LinearParts};
use half::f16;
use program::{Dtype, Error, HostTensor, Kind, Result, WeightId};

use crate::kernels::inputs::arranged;
use crate::kernels::linear::Stored;
use crate::kernels::tile::{BEFORE, width};
use crate::simd::Simd;

/// All weights by id and part.
#[derive(Default)]
pub(crate) struct Weights(Vec<Vec<Option<Weight>>>);

/// One part of a weight.
pub(crate) enum Weight {
    /// [`Kind::Vector`].
    Vector(Vec<f32>),
    /// Plain numbers.
    Dense(Dense),
    /// Codes of a linear map.
    Codes(Codes),
    /// Codes of an embedding table.
    Table(Table),
}

/// A matrix `[out, inputs]` of plain numbers, row-major.
pub(crate) struct Dense {
    pub(crate) out: usize,
    pub(crate) inputs: usize,
    pub(crate) dtype: Dtype,
    pub(crate) data: Bytes,
    pub(crate) bias: Option<Vec<f32>>,
}

/// A linear map stored as codes.
pub(crate) struct Codes {
    pub(crate) out: usize,
    pub(crate) inputs: usize,
    pub(crate) bits: Bits,
    pub(crate) codebook: Codebook,
    /// Little-endian halves, one a padded input.
    pub(crate) suh: Vec<u8>,
    /// Little-endian halves, one a padded output.
    pub(crate) svh: Vec<u8>,
    pub(crate) bias: Option<Vec<f32>>,
    trellis: Bytes,
    /// The first tile, with bytes before it.
    first: Vec<u8>,
}

/// An embedding table stored as codes.
pub(crate) struct Table {
    pub(crate) vocab: usize,
    pub(crate) hidden: usize,
    row_words: usize,
    trellis: Bytes,
    signs: Vec<f16>,
}

/// A matrix that rows can be multiplied with.
#[derive(Clone, Copy)]
pub(crate) enum Matrix<'a> {
    /// Plain numbers.
    Dense(&'a Dense),
    /// Trellis codes.
    Codes(&'a Codes),
}

impl Matrix<'_> {
    /// Output features.
    pub(crate) fn out(self) -> usize {
        match self {
            Matrix::Dense(dense) => dense.out,
            Matrix::Codes(codes) => codes.out,
        }
    }

    /// Columns of the rows that are multiplied: the input features, for codes with the padding of [`arranged`].
    pub(crate) fn multiplied(self) -> usize {
        match self {
            Matrix::Dense(dense) => dense.inputs,
            Matrix::Codes(codes) => arranged(codes.inputs),
        }
    }
}

impl Codes {
    /// Tile rows.
    pub(crate) fn tile_rows(&self) -> usize {
        self.suh.len() / 2 / TILE
    }

    /// The tile at tile row `a`, column of tiles `column`, with the [`BEFORE`] bytes before it.
    #[inline(always)]
    pub(crate) fn tile(&self, a: usize, column: usize) -> &[u8] {
        let bytes = self.bits.tile_bytes();
        match (a * (self.svh.len() / 2 / TILE) + column) * bytes {
            0 => &self.first,
            place => &self.trellis[place - BEFORE..place + bytes],
        }
    }

    /// The tiles of column `column` from tile row `first` on downwards.
    ///
    /// # Panics
    /// If the width is not that of the codes.
    #[inline(always)]
    pub(crate) fn down<const HALF_BITS: u8>(&self, first: usize, column: usize) -> Down<'_, HALF_BITS> {
        assert_eq!(self.bits.half_bits(), HALF_BITS, "a kernel for another width");
        let columns = self.svh.len() / 2 / TILE;
        let bytes = Down::<HALF_BITS>::BYTES;
        Down { codes: self, stride: columns * bytes, next: (first * columns + column) * bytes }
    }
}

/// Tiles below each other, of a width known when the kernel is compiled; it does not end by itself.
pub(crate) struct Down<'a, const HALF_BITS: u8> {
    codes: &'a Codes,
    stride: usize,
    next: usize,
}

impl<'a, const HALF_BITS: u8> Down<'a, HALF_BITS> {
    const BYTES: usize = width(HALF_BITS).tile_bytes();

    /// The next tile, with the [`BEFORE`] bytes before it.
    ///
    /// # Panics
    /// Below the last tile row.
    #[inline(always)]
    pub(crate) fn tile(&mut self) -> &'a [u8] {
        let place = self.next;
        self.next += self.stride;
        let tile = if place == 0 { &self.codes.first[..] } else { &self.codes.trellis[place - BEFORE..] };
        &tile[..BEFORE + Self::BYTES]
    }

    /// Asks memory for the tile that lies so many columns to the right and rows below the next one.
    #[inline(always)]
    pub(crate) fn ask<S: Simd>(&self, simd: S, columns: usize, rows: usize) {
        let place = self.next + columns * Self::BYTES + rows * self.stride;
        if let Some(tile) = self.codes.trellis.get(place..place + Self::BYTES) {
            for line in (0..Self::BYTES).step_by(64) {
                simd.prefetch(&tile[line..]);
            }
        }
    }
}

impl Table {
    /// The codec's view of it.
    pub(crate) fn view(&self) -> Result<Embedding<'_>> {
        let parts = EmbeddingParts {
            trellis: &self.trellis,
            shape: [self.vocab, self.row_words],
            signs: &self.signs,
            hidden: self.hidden,
        };
        Ok(Embedding::new(parts)?)
    }
}

impl Weights {
    /// Checks and keeps one part of a weight.
    ///
    /// # Errors
    /// [`Error::Weight`] or [`Error::Codec`] if the tensor contradicts itself.
    pub(crate) fn insert(&mut self, id: WeightId, part: u32, tensor: HostTensor) -> Result<()> {
        let refuse = |what| Error::Weight { name: format!("weight {} part {part}", id.0), what };
        let weight = Weight::new(tensor, &refuse)?;
        let (id, part) = (id.0 as usize, part as usize);
        if self.0.len() <= id {
            self.0.resize_with(id + 1, Vec::new);
        }
        let parts = &mut self.0[id];
        if parts.len() <= part {
            parts.resize_with(part + 1, || None);
        }
        parts[part] = Some(weight);
        Ok(())
    }

    /// How many parts the weight has.
    pub(crate) fn parts(&self, id: WeightId) -> usize {
        self.0.get(id.0 as usize).map_or(0, Vec::len)
    }

    /// One part, if it was uploaded.
    pub(crate) fn get(&self, id: WeightId, part: usize) -> Option<&Weight> {
        self.0.get(id.0 as usize)?.get(part)?.as_ref()
    }

    /// Whether all parts up to the last one were uploaded, and there is one.
    pub(crate) fn is_whole(&self, id: WeightId) -> bool {
        self.0.get(id.0 as usize).is_some_and(|parts| !parts.is_empty() && parts.iter().all(Option::is_some))
    }

    /// The shape of a weight, and whether one of its parts is stored as codes.
    ///
    /// # Panics
    /// If it was not uploaded; programs are checked when they are prepared.
    pub(crate) fn stored(&self, id: WeightId) -> Stored {
        let parts = self.0[id.0 as usize].iter().flatten().map(Weight::stored);
        let all = |all: Stored, part: Stored| Stored { codes: all.codes || part.codes, ..part };
        parts.reduce(all).expect("a weight that was uploaded has parts")
    }

    /// A vector.
    ///
    /// # Panics
    /// If it is none; programs are checked when they are prepared.
    pub(crate) fn vector(&self, id: WeightId) -> &[f32] {
        match self.get(id, 0) {
            Some(Weight::Vector(vector)) => vector,
            _ => panic!("weight {} is no vector", id.0),
        }
    }

    /// A matrix of plain numbers.
    ///
    /// # Panics
    /// If it is none; programs are checked when they are prepared.
    pub(crate) fn dense(&self, id: WeightId) -> &Dense {
        match self.get(id, 0) {
            Some(Weight::Dense(dense)) => dense,
            _ => panic!("weight {} is no plain matrix", id.0),
        }
    }

    /// A matrix to multiply with.
    ///
    /// # Panics
    /// If it is none; programs are checked when they are prepared.
    pub(crate) fn matrix(&self, id: WeightId, part: usize) -> Matrix<'_> {
        match self.get(id, part) {
            Some(Weight::Dense(dense)) => Matrix::Dense(dense),
            Some(Weight::Codes(codes)) => Matrix::Codes(codes),
            _ => panic!("part {part} of weight {} is no matrix", id.0),
        }
    }
}

impl Weight {
    /// Its shape and whether it is stored as codes.
    pub(crate) fn stored(&self) -> Stored {
        let (out, inputs, codes) = match self {
            Weight::Vector(vector) => (1, vector.len(), false),
            Weight::Dense(dense) => (dense.out, dense.inputs, false),
            Weight::Codes(codes) => (codes.out, codes.inputs, true),
            Weight::Table(table) => (table.vocab, table.hidden, true),
        };
        Stored { inputs, out, codes }
    }

    fn new(tensor: HostTensor, refuse: &dyn Fn(String) -> Error) -> Result<Weight> {
        match tensor {
            HostTensor::Dense { kind, dtype, data, bias } => {
                let (rows, cols) = kind.shape();
                let (out, inputs) = (rows as usize, cols as usize);
                let needed = out * inputs * dtype.bytes();
                if data.len() != needed {
                    return Err(refuse(format!("{kind:?} has {} bytes, {needed} are needed", data.len())));
                }
                let bias = check_bias(kind, bias, refuse)?;
                Ok(match kind {
                    Kind::Vector { .. } => {
                        Weight::Vector(data.chunks_exact(dtype.bytes()).map(|x| dtype.read(x)).collect())
                    }
                    _ => Weight::Dense(Dense { out, inputs, dtype, data, bias }),
                })
            }
            HostTensor::Exl3 { kind, bits, codebook, trellis, suh, svh, bias } => {
                let Kind::Linear { out, inputs, .. } = kind else {
                    return Err(refuse(format!("{kind:?} cannot be stored as codes of a linear map")));
                };
                let (out, inputs) = (out as usize, inputs as usize);
                let shape = [padded(inputs) / TILE, padded(out) / TILE, bits.tile_words()];
                Linear::new(LinearParts {
                    trellis: &trellis,
                    shape,
                    suh: &suh,
                    svh: &svh,
                    bias: None,
                    codebook,
                })?;
                let bias = check_bias(kind, bias, refuse)?;
                let (suh, svh) = (halves(&suh), halves(&svh));
                let first = [&[0; BEFORE], &trellis[..bits.tile_bytes()]].concat();
                Ok(Weight::Codes(Codes { out, inputs, bits, codebook, suh, svh, bias, trellis, first }))
            }
            HostTensor::Exl3Table { kind, bits, trellis, signs } => {
                let Kind::Table { vocab, hidden } = kind else {
                    return Err(refuse(format!("{kind:?} cannot be stored as codes of a table")));
                };
                let (vocab, hidden) = (vocab as usize, hidden as usize);
                let row_words = hidden.div_ceil(256) * (1 + bits.tile_words());
                let table = Table { vocab, hidden, row_words, trellis, signs };
                table.view()?;
                Ok(Weight::Table(table))
            }
        }
    }
}

fn check_bias(
    kind: Kind,
    bias: Option<Vec<f32>>,
    refuse: &dyn Fn(String) -> Error,
) -> Result<Option<Vec<f32>>> {
    let needed = match kind {
        Kind::Linear { out, bias: true, .. } => Some(out as usize),
        _ => None,
    };
    let found = bias.as_ref().map(Vec::len);
    if found != needed {
        return Err(refuse(format!("{kind:?} has a bias of {found:?} numbers, {needed:?} are needed")));
    }
    Ok(bias)
}

fn halves(values: &[f16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
