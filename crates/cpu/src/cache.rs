//! Paged caches: halves, or the codes of [`exl3::kv`].
//!
//! A part of a cache is one block of memory, `[pages, 64, bytes of a row]`. A row of codes holds the words of
//! all its groups of 32 numbers, then their scales.

use std::ops::Range;

use exl3::kv::{self, CacheBits, GROUP};
use half::f16;
use program::{CacheId, CacheSize, CacheSpec, Error, Format, Life, PAGE_TOKENS, PageId, Part, Result};

use crate::arena::Memory;
use crate::kernels::rotation::butterflies;
use crate::simd::{LANES, Simd};

/// Vectors of a group.
const VECTORS: usize = GROUP / LANES;

/// 1 / sqrt(32), the normalisation of a group's rotation.
const NORMALISATION: f32 = 0.176_776_695_296_636_9_f64 as f32;

/// All caches of a model.
pub(crate) struct Caches {
    size: CacheSize,
    parts: Vec<Vec<CachePart>>,
}

/// One part of a cache: the rows of all pages.
pub(crate) struct CachePart {
    spec: Part,
    row_bytes: usize,
    memory: Memory,
}

/// Bytes that the caches take.
///
/// # Errors
/// If one of them cannot be held here.
pub(crate) fn bytes(caches: &[CacheSpec], size: CacheSize) -> Result<u64> {
    let mut bytes = 0;
    for (cache, spec) in caches.iter().enumerate() {
        check(cache, spec)?;
        for part in &spec.parts {
            bytes += Memory::size(part.row_bytes() * rows(size)) as u64;
        }
    }
    Ok(bytes)
}

fn rows(size: CacheSize) -> usize {
    size.pages as usize * PAGE_TOKENS as usize
}

fn check(cache: usize, spec: &CacheSpec) -> Result<()> {
    let refuse = |what: String| Err(Error::Shape { op: format!("cache {cache}"), what });
    if spec.life == Life::PerSequence {
        return refuse("no operation of the cpu device uses per-sequence state".into());
    }
    for (index, part) in spec.parts.iter().enumerate() {
        if matches!(part.format, Format::Quantised(_)) && !part.cols.is_multiple_of(GROUP as u32) {
            return refuse(format!(
                "part {index} has {} columns, codes need a multiple of {GROUP}",
                part.cols
            ));
        }
    }
    Ok(())
}

impl Caches {
    /// No caches.
    pub(crate) fn none() -> Caches {
        Caches { size: CacheSize { pages: 0, slots: 0 }, parts: Vec::new() }
    }

    /// Zeroed caches.
    ///
    /// # Errors
    /// If one of them cannot be held here.
    pub(crate) fn new(caches: &[CacheSpec], size: CacheSize) -> Result<Caches> {
        let mut parts = Vec::new();
        for (cache, spec) in caches.iter().enumerate() {
            check(cache, spec)?;
            let of_part = |spec: &Part| CachePart {
                spec: *spec,
                row_bytes: spec.row_bytes(),
                memory: Memory::zeroed(spec.row_bytes() * rows(size)),
            };
            parts.push(spec.parts.iter().map(of_part).collect());
        }
        Ok(Caches { size, parts })
    }

    /// How many pages and slots there are.
    pub(crate) fn size(&self) -> CacheSize {
        self.size
    }

    /// Columns of a part, if there is such a part.
    pub(crate) fn cols(&self, cache: CacheId, part: u32) -> Option<u32> {
        Some(self.parts.get(cache.0 as usize)?.get(part as usize)?.spec.cols)
    }

    /// One part.
    pub(crate) fn part(&self, cache: CacheId, part: u32) -> &CachePart {
        &self.parts[cache.0 as usize][part as usize]
    }

    /// One part, to be written.
    pub(crate) fn part_mut(&mut self, cache: CacheId, part: u32) -> &mut CachePart {
        &mut self.parts[cache.0 as usize][part as usize]
    }
}

impl CachePart {
    fn start(&self, page: PageId, place: usize) -> usize {
        (page.0 as usize * PAGE_TOKENS as usize + place) * self.row_bytes
    }

    /// Stores a row in the given place of a page.
    #[inline(always)]
    pub(crate) fn write<S: Simd>(&mut self, simd: S, page: PageId, place: usize, row: &[f32]) {
        let start = self.start(page, place);
        let bytes = &mut self.memory.bytes_mut()[start..][..self.row_bytes];
        match self.spec.format {
            Format::F16 => {
                let (vectors, rest) = row.as_chunks();
                let (whole, last) = bytes.split_at_mut(vectors.len() * 2 * LANES);
                for (vector, bytes) in vectors.iter().zip(whole.as_chunks_mut().0) {
                    simd.store_f16_bytes(simd.load(vector), bytes);
                }
                for (value, bytes) in rest.iter().zip(last.as_chunks_mut().0) {
                    *bytes = f16::from_f32(*value).to_le_bytes();
                }
            }
            Format::Quantised(bits) => {
                let words_of_all = row.len() / GROUP * bits.group_words() * 4;
                let (words, scales) = bytes.split_at_mut(words_of_all);
                let groups =
                    row.as_chunks::<GROUP>().0.iter().zip(words.chunks_exact_mut(4 * bits.group_words()));
                for ((group, bytes), scale) in groups.zip(scales.as_chunks_mut().0) {
                    let mut words = [0; 8];
                    let words = &mut words[..bits.group_words()];
                    *scale = kv::encode(group, bits, words).to_le_bytes();
                    for (word, bytes) in words.iter().zip(bytes.as_chunks_mut().0) {
                        *bytes = word.to_le_bytes();
                    }
                }
            }
        }
    }

    /// Reads columns `start .. start + cols` of some rows of a page; rows of `out` are `stride` apart.
    ///
    /// Compiled once for all operations that attend.
    #[inline(never)]
    pub(crate) fn read<S: Simd>(
        &self,
        simd: S,
        (page, rows): (PageId, Range<usize>),
        (start, cols): (usize, usize),
        (out, stride): (&mut [f32], usize),
    ) {
        let first = self.start(page, rows.start);
        let page = &self.memory.bytes()[first..first + rows.len() * self.row_bytes];
        simd.vectorize(
            #[inline(always)]
            || {
                for (bytes, out) in page.chunks_exact(self.row_bytes).zip(out.chunks_mut(stride)) {
                    self.read_row(simd, bytes, start, &mut out[..cols]);
                }
            },
        );
    }

    #[inline(always)]
    fn read_row<S: Simd>(&self, simd: S, bytes: &[u8], start: usize, out: &mut [f32]) {
        match self.spec.format {
            Format::F16 => {
                let bytes = &bytes[2 * start..];
                let (vectors, rest) = out.as_chunks_mut();
                let last = &bytes[vectors.len() * 2 * LANES..];
                for (vector, bytes) in vectors.iter_mut().zip(bytes.as_chunks().0) {
                    simd.store(simd.load_f16_bytes(bytes), vector);
                }
                for (value, bytes) in rest.iter_mut().zip(last.as_chunks().0) {
                    *value = f16::from_le_bytes(*bytes).to_f32();
                }
            }
            Format::Quantised(bits) => {
                let (words, scales) =
                    bytes.split_at(self.spec.cols as usize / GROUP * bits.group_words() * 4);
                let end = start + out.len();
                let mut group = [[0.0; LANES]; VECTORS];
                for index in start / GROUP..end.div_ceil(GROUP) {
                    let words = &words[index * bits.group_words() * 4..][..bits.group_words() * 4];
                    let scale = f16::from_le_bytes([scales[2 * index], scales[2 * index + 1]]);
                    decode(simd, words, (scale, bits), &mut group);
                    let first = (index * GROUP).max(start);
                    let past = ((index + 1) * GROUP).min(end);
                    let known = &group.as_flattened()[first - index * GROUP..past - index * GROUP];
                    out[first - start..past - start].copy_from_slice(known);
                }
            }
        }
    }
}

/// Decodes a group of 32 numbers: [`kv::decode`] in vectors.
#[inline(always)]
fn decode<S: Simd>(
    simd: S,
    mut words: &[u8],
    (scale, bits): (f16, CacheBits),
    group: &mut [[f32; LANES]; VECTORS],
) {
    let mut codes = [simd.splat_u32(0); VECTORS];
    if bits.get() & 8 != 0 {
        words = read_plane::<S, 8>(simd, words, &mut codes);
    }
    if bits.get() & 4 != 0 {
        words = read_plane::<S, 4>(simd, words, &mut codes);
    }
    if bits.get() & 2 != 0 {
        words = read_plane::<S, 2>(simd, words, &mut codes);
    }
    if bits.get() & 1 != 0 {
        read_plane::<S, 1>(simd, words, &mut codes);
    }
    let middle = f32::from(1_u16 << (bits.get() - 1));
    // In the codec's order of multiplications, so that the bits are the same.
    let step = simd.splat(scale.to_f32() * NORMALISATION * (1.0 / middle));
    let offset = simd.splat(middle - 0.5);
    let mut values = [step; VECTORS];
    for (value, codes) in values.iter_mut().zip(codes) {
        *value = simd.mul(simd.sub(simd.to_f32(codes), offset), step);
    }
    butterflies(simd, &mut values);
    for (value, out) in values.into_iter().zip(group) {
        simd.store(simd.round_to_f16(value), out);
    }
}

/// Appends the bits of one plane to the codes, and gives the planes after it.
///
/// With w bits a code, the codes of a vector are 8 w neighbouring bits: eight bytes of the widest plane, part
/// of one word of the others.
#[inline(always)]
fn read_plane<'a, S: Simd, const WIDTH: usize>(
    simd: S,
    words: &'a [u8],
    codes: &mut [S::U32; VECTORS],
) -> &'a [u8] {
    let (plane, rest) = words.split_at(WIDTH * GROUP / 8);
    for (vector, codes) in codes.iter_mut().enumerate() {
        let field = if WIDTH == 8 {
            simd.load_u8(&plane.as_chunks().0[vector])
        } else {
            let first_bit = vector * LANES * WIDTH;
            let word = simd.splat_u32(u32::from_le_bytes(plane.as_chunks().0[first_bit / 32]));
            let mut shifts = [0; LANES];
            for (lane, shift) in shifts.iter_mut().enumerate() {
                *shift = (first_bit % 32 + lane * WIDTH) as u32;
            }
            simd.and(simd.shr(word, simd.load_u32(&shifts)), simd.splat_u32((1 << WIDTH) - 1))
        };
        *codes = simd.or(simd.shl(*codes, simd.splat_u32(WIDTH as u32)), field);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::levels;

    const SIZE: CacheSize = CacheSize { pages: 3, slots: 1 };

    fn caches(cols: u32, format: Format) -> Result<Caches> {
        Caches::new(&[CacheSpec { life: Life::PerToken, parts: vec![Part { cols, format }] }], SIZE)
    }

    fn row(cols: usize, seed: f32) -> Vec<f32> {
        (0..cols).map(|at| (at as f32 * 0.61 + seed).sin() * 3.0).collect()
    }

    #[test]
    fn rows_come_back_as_halves_or_as_the_codec_gives_them_bit_by_bit_in_any_run_of_columns() {
        let (cols, ids) = (96, (CacheId(0), 0));
        let formats = (2..=8).filter_map(CacheBits::new).map(Format::Quantised).chain([Format::F16]);
        for format in formats {
            levels!(|simd| {
                let mut caches = caches(cols, format).unwrap();
                for place in [0, 1, 63] {
                    let x = row(cols as usize, place as f32);
                    caches.part_mut(ids.0, ids.1).write(simd, PageId(2), place, &x);
                }
                let part = caches.part(ids.0, ids.1);
                for place in [0, 1, 63] {
                    let x = row(cols as usize, place as f32);
                    let want = format.stored(&x);
                    for columns in [0..96, 0..32, 32..64, 5..83, 31..33, 64..96] {
                        let (cols, stride) = (columns.len(), columns.len() + 3);
                        let mut got = vec![f32::NAN; (place + 1) * stride];
                        part.read(simd, (PageId(2), 0..place + 1), (columns.start, cols), (&mut got, stride));
                        assert_eq!(got[place * stride..][..cols], want[columns], "{format:?}");
                        assert!(got[place * stride + cols..].iter().all(|number| number.is_nan()));
                    }
                }
                let mut got = vec![f32::NAN; 64 * 96];
                part.read(simd, (PageId(1), 0..64), (0, 96), (&mut got, 96));
                if format == Format::F16 {
                    assert_eq!(got, [0.0; 64 * 96]);
                }
            });
        }
    }

    #[test]
    fn halves_may_have_any_number_of_columns() {
        levels!(|simd| {
            let mut caches = caches(13, Format::F16).unwrap();
            let x = row(13, 0.5);
            caches.part_mut(CacheId(0), 0).write(simd, PageId(1), 7, &x);
            let mut got = [0.0; 13];
            caches.part(CacheId(0), 0).read(simd, (PageId(1), 7..8), (0, 13), (&mut got, 13));
            assert_eq!(got.to_vec(), x.iter().map(|x| f16::from_f32(*x).to_f32()).collect::<Vec<_>>());
        });
    }

    #[test]
    fn what_cannot_be_held_is_refused_by_name() {
        let bits = CacheBits::new(4).unwrap();
        let error = caches(40, Format::Quantised(bits)).err().unwrap().to_string();
        assert!(error.contains("40 columns, codes need a multiple of 32"), "{error}");
        let state = CacheSpec { life: Life::PerSequence, parts: Vec::new() };
        let error = bytes(&[state], SIZE).unwrap_err().to_string();
        assert!(error.contains("per-sequence state"), "{error}");
    }

    #[test]
    fn planned_bytes_are_the_bytes_of_all_rows() {
        let bits = CacheBits::new(6).unwrap();
        let parts =
            vec![Part { cols: 64, format: Format::Quantised(bits) }, Part { cols: 16, format: Format::F16 }];
        let spec = CacheSpec { life: Life::PerToken, parts };
        let all = bytes(std::slice::from_ref(&spec), SIZE).unwrap();
        assert_eq!(all, (spec.row_bytes() * 3 * 64) as u64);
    }
}
