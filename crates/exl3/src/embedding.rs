//! A quantised token embedding table.
//!
//! A row is cut into groups of 256 channels, the last one padded, and each group is one ring of its own with
//! codebook mul1: a scale (an f16), then 256 K bits. Unlike in a tile the bits run from the least significant
//! up inside their words, and the channels are in natural order:
//!
//! ```text
//! symbol(i) = ring bits i K .. i K + K - 1, the first is the least significant
//! state(i)  = (state(i - 1) << K | symbol(i)) mod 2^16, around the ring
//! row[i]    = f16(WHT256(mul1(state) * scale)[i] / 16 * sign[i])        butterflies in f32
//! ```

use half::f16;

use crate::hadamard::walsh_hadamard;
use crate::{Bits, Codebook, Error};

/// Channels of a group.
const GROUP: usize = 256;

/// The tensors of a quantised embedding table, as found in a file.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingParts<'a> {
    /// The rows one after the other, `shape[0] * shape[1]` little-endian words of 16 bits.
    pub trellis: &'a [u8],
    /// [vocabulary, 16-bit words of a row].
    pub shape: [usize; 2],
    /// 1 or -1 for each padded channel, [groups, 256].
    pub signs: &'a [f16],
    /// Channels of a row, without padding.
    pub hidden: usize,
}

/// A checked view of a quantised token embedding table.
#[derive(Clone, Copy, Debug)]
pub struct Embedding<'a> {
    parts: EmbeddingParts<'a>,
    bits: Bits,
}

impl<'a> Embedding<'a> {
    /// Checks the tensors against each other.
    ///
    /// # Errors
    /// If the words of a row are not rings of one whole width for that hidden size, a length does not fit the
    /// shape, or a sign is neither 1 nor -1.
    pub fn new(parts: EmbeddingParts<'a>) -> Result<Embedding<'a>, Error> {
        let EmbeddingParts { trellis, shape: [vocab, words], signs, hidden } = parts;
        let groups = hidden.div_ceil(GROUP);
        if groups == 0 {
            return Err(Error::Multiple { what: "hidden size", found: hidden, multiple: 1 });
        }
        let bits = (1..=8)
            .filter_map(Bits::whole)
            .find(|bits| groups.checked_mul(1 + bits.tile_words()) == Some(words))
            .ok_or(Error::EmbeddingRow { words, groups })?;
        let needed = vocab.checked_mul(words).and_then(|words| words.checked_mul(2));
        let needed = needed
            .ok_or_else(|| Error::TooLarge { what: "embedding trellis", shape: parts.shape.to_vec() })?;
        if trellis.len() != needed {
            let found = trellis.len();
            return Err(Error::Size { what: "embedding trellis", unit: "bytes", found, needed });
        }
        if signs.len() != groups * GROUP {
            let (found, needed) = (signs.len(), groups * GROUP);
            return Err(Error::Size { what: "signs", unit: "values", found, needed });
        }
        match signs.iter().position(|sign| sign.to_f32().abs() != 1.0) {
            Some(index) => Err(Error::NotASign { index, value: signs[index].to_f32() }),
            None => Ok(Embedding { parts, bits }),
        }
    }

    /// Bits a channel.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// Rows of the table.
    pub fn vocab(&self) -> usize {
        self.parts.shape[0]
    }

    /// Channels of a row, without padding.
    pub fn hidden(&self) -> usize {
        self.parts.hidden
    }

    /// Decodes the row of a token, bit by bit as the format defines it.
    ///
    /// # Errors
    /// [`Error::Token`] if the table has no such row, [`Error::NotFinite`] if a scale of the row is NaN or
    /// infinite.
    ///
    /// # Panics
    /// If `row` does not have [`Embedding::hidden`] values.
    pub fn row(&self, token: usize, row: &mut [f16]) -> Result<(), Error> {
        let EmbeddingParts { trellis, shape: [vocab, words], signs, hidden } = self.parts;
        assert_eq!(row.len(), hidden, "values of an embedding row");
        if token >= vocab {
            return Err(Error::Token { token, vocab });
        }
        let bytes = &trellis[2 * token * words..2 * (token + 1) * words];
        let rings = bytes.chunks_exact(2 + self.bits.tile_bytes());
        for (group, (ring, row)) in rings.zip(row.chunks_mut(GROUP)).enumerate() {
            let scale = f16::from_le_bytes([ring[0], ring[1]]).to_f32();
            if !scale.is_finite() {
                return Err(Error::NotFinite {
                    what: "embedding scale of a group",
                    index: group,
                    value: scale,
                });
            }
            let mut values =
                states(&ring[2..], self.bits).map(|state| Codebook::Mul1.value(state).to_f32() * scale);
            walsh_hadamard(&mut values);
            for ((out, value), sign) in row.iter_mut().zip(values).zip(&signs[group * GROUP..]) {
                *out = f16::from_f32(value * (1.0 / 16.0) * sign.to_f32());
            }
        }
        Ok(())
    }
}

/// The 256 states of one ring, in channel order.
fn states(ring: &[u8], bits: Bits) -> [u16; GROUP] {
    let width = usize::from(bits.half_bits() / 2);
    let symbol = |i: usize| {
        let (byte, shift) = (i * width / 8, i * width % 8);
        // A symbol of at most 8 bits lies in two bytes; the last one of the ring never reaches past its end.
        let next = ring.get(byte + 1).copied().unwrap_or(0);
        (u16::from_le_bytes([ring[byte], next]) >> shift) & ((1 << width) - 1)
    };
    // The symbols before the first one, around the ring, that its window of 16 bits holds.
    let mut state = (GROUP - 16_usize.div_ceil(width)..GROUP).fold(0, |state, i| state << width | symbol(i));
    std::array::from_fn(|i| {
        state = state << width | symbol(i);
        state
    })
}
