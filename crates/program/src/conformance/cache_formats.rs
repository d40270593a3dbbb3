//! Caches of fewer bits: attention over rows that went through the format, and a planted key found again.

use exl3::kv::CacheBits;

use super::attention::{self, Attention, Shape, rows_of};
use super::batch::Batch;
use super::prepared::{Prepared, SIZE, Values};
use super::trial::Subject;
use super::{Case, Check};
use crate::random::SplitMix64;
use crate::{Format, Gqa, Mla, PAGE_TOKENS, PageId, distance};

/// 8, 6 and 4 bits a value.
pub(super) fn quantised() -> Vec<Format> {
    [8, 6, 4].into_iter().filter_map(CacheBits::new).map(Format::Quantised).collect()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = quantised().into_iter().flat_map(attention::cases).collect();
    let gqa = Shape::Gqa(Gqa {
        heads: 2,
        kv_heads: 2,
        key_dims: 128,
        value_dims: 128,
        scale: 128f32.sqrt().recip(),
    });
    let mla = Shape::Mla(Mla { heads: 2, nope: 192, rotary: 64, value: 256, rank: 512, scale: 0.0625 });
    for (name, shape) in [("attend", gqa), ("attend_mla", mla)] {
        for format in [&[Format::F16], &quantised()[..]].concat() {
            let attention = Attention { shape, format };
            let name = format!("{name} {format} finds a planted key among 8,000 rows");
            cases.push(Case::new(name, move |subject| planted_key(subject, &attention)));
        }
    }
    cases
}

/// Rows cached before the one that asks.
const ROWS: u32 = 8000;

/// Where the key of each head is planted.
const PLACES: [u32; 2] = [1234, 6789];

/// How far the planted value may be off when it comes back. The codec alone errs by 0.56 %, 2.2 % and
/// 8.9 % at 8, 6 and 4 bits.
fn allowed(format: Format) -> f64 {
    match format {
        Format::F16 => 0.02,
        Format::Quantised(bits) => match bits.get() {
            7.. => 0.02,
            6 => 0.04,
            _ => 0.12,
        },
    }
}

/// Random rows, but for one key of each head that equals twice the query: its score is about
/// `2 sqrt(dims)`, those of the others have a deviation of 1, so that nearly all of the weight is on it.
fn planted_key(subject: &mut Subject<'_>, attention: &Attention) -> Check {
    let mut setup = attention.setup();
    setup.pages = (ROWS + 1).div_ceil(PAGE_TOKENS) + 1;
    let mut pages: Vec<PageId> = (1..setup.pages).map(PageId).collect();
    let mut random = SplitMix64::new(71);
    random.shuffle(&mut pages);

    let mut inputs = attention.inputs(ROWS + 1, &mut random);
    // The query of the last row, of the usual size.
    let queries = inputs[0].0.cols as usize;
    let query = random.normals(queries, 1.0);
    inputs[0].1[ROWS as usize * queries..].copy_from_slice(&query);
    let up = setup.weights.first().and_then(|(_, _, tensor)| tensor.dense_values()).unwrap_or_default();
    let heads = [0, 1].map(|index| Head { shape: attention.shape, up: &up, index });
    for (head, place) in heads.iter().zip(PLACES) {
        head.plant(&query, &mut inputs[1..], place as usize);
    }

    let mut device = Prepared::new((subject.make)(), &setup)?;
    for start in (0..ROWS).step_by(SIZE.tokens as usize) {
        let rows = SIZE.tokens.min(ROWS - start);
        let batch = Batch::default().and(&pages, start, &vec![0; rows as usize]);
        // The second program only writes; it has no query.
        device.run_program(1, &batch, &rows_of(&inputs[1..], start, start + rows))?;
    }
    let last = rows_of(&inputs, ROWS, ROWS + 1);
    let results = device.run(&Batch::default().and(&pages, ROWS, &[0]), &last)?;
    let (out, rows) = &results[0];
    let dims = out.cols as usize / PLACES.len();
    for (head, place) in heads.iter().zip(PLACES) {
        let got = &rows[head.index * dims..][..dims];
        let parts = rows_of(&inputs[1..], place, place + 1);
        let error = distance::relative(got, &head.value([&parts[0].1, &parts[1].1]));
        let bound = allowed(attention.format);
        if error.is_nan() || error > bound {
            return Err(format!("the value of head {} is off by {error:.3} (allowed {bound})", head.index));
        }
        let [first, second] = attention.formats();
        let stored = head.value([&first.stored(&parts[0].1), &second.stored(&parts[1].1)]);
        let weight = share(got, &stored);
        if weight.is_nan() || weight <= 0.99 {
            return Err(format!("the key of head {} has a weight of {weight:.4}", head.index));
        }
    }
    Ok(())
}

/// One head of the two.
struct Head<'a> {
    shape: Shape,
    /// The up-projection of latent attention, row-major.
    up: &'a [f32],
    index: usize,
}

impl Head<'_> {
    /// Makes the key of a place twice this head's part of the query.
    fn plant(&self, query: &[f32], parts: &mut [Values], place: usize) {
        match self.shape {
            Shape::Gqa(shape) => {
                let dims = shape.key_dims as usize;
                let query = &query[self.index * dims..][..dims];
                let row = &mut parts[0].1[place * shape.heads as usize * dims..];
                for (key, query) in row[self.index * dims..].iter_mut().zip(query) {
                    *key = 2.0 * query;
                }
            }
            Shape::Mla(shape) => {
                let [nope, rotary, rank] = [shape.nope, shape.rotary, shape.rank].map(|dims| dims as usize);
                let query = &query[self.index * (nope + rotary)..][..nope + rotary];
                // The key from the latent is linear in it; the latent that the query itself absorbs to is the
                // one with the largest product.
                let mut latent = vec![0.0; rank];
                for (query, weights) in query[..nope].iter().zip(self.rows_of_up(0, nope)) {
                    for (latent, weight) in latent.iter_mut().zip(weights) {
                        *latent += 2.0 * query * weight;
                    }
                }
                parts[0].1[place * rank..][..rank].copy_from_slice(&latent);
                let key = &mut parts[1].1[place * rotary..][..rotary];
                key.iter_mut().zip(&query[nope..]).for_each(|(key, query)| *key = 2.0 * query);
            }
        }
    }

    /// The value that this head reads of a row with these two parts.
    fn value(&self, parts: [&[f32]; 2]) -> Vec<f32> {
        match self.shape {
            Shape::Gqa(shape) => {
                let dims = shape.value_dims as usize;
                parts[1][self.index * dims..][..dims].to_vec()
            }
            Shape::Mla(shape) => {
                let product = |weights: &[f32]| weights.iter().zip(parts[0]).map(|(a, b)| a * b).sum();
                self.rows_of_up(shape.nope as usize, shape.value as usize).map(product).collect()
            }
        }
    }

    /// `len` rows of this head's part of the up-projection.
    fn rows_of_up(&self, start: usize, len: usize) -> impl Iterator<Item = &[f32]> {
        let (rank, of_head) = match self.shape {
            Shape::Gqa(_) => (1, 0),
            Shape::Mla(shape) => (shape.rank as usize, (shape.nope + shape.value) as usize),
        };
        self.up.chunks_exact(rank).skip(self.index * of_head + start).take(len)
    }
}

/// How much of `value` is in `got`.
fn share(got: &[f32], value: &[f32]) -> f64 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    product(got, value) / product(value, value)
}
