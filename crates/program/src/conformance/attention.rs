//! Grouped-query and latent attention over cached rows.

use exl3::kv::GROUP;

use super::batch::{Batch, pages_for, shuffled_pages};
use super::prepared::{PAGES, Setup, Values, val};
use super::trial::Subject;
use super::{Case, Check, ROWS};
use crate::random::{self, SplitMix64};
use crate::{
    CacheId, CacheSpec, Dtype, Format, Gqa, Kind, Life, Mla, Op, PAGE_TOKENS, PageId, Part, Program, Storage,
    Val, WeightId,
};

/// The cases over caches of one format, for the shapes that it can hold.
pub(super) fn cases(format: Format) -> Vec<Case> {
    let mut cases = Vec::new();
    for attention in Attention::samples(format) {
        let case = |what: &str, check: fn(&mut Subject<'_>, &Attention) -> Check| {
            Case::new(format!("{} {what}", attention.name()), move |subject| check(subject, &attention))
        };
        cases.push(case("over a first step of any size", first_steps));
        cases.push(case("token by token and in chunks over shuffled pages", chunks));
        cases.push(case("of several sequences in one step", several_sequences));
        cases.push(case("of two sequences that share a page", shared_pages));
        cases.push(case("past the last page is refused", past_the_last_page));
        if attention.query().cols <= SMALL {
            cases.push(case("over a prompt of many rows", long_prompt));
        }
    }
    cases
}

/// Columns of a query that many rows may have.
const SMALL: u32 = 128;

/// One attention operation and the writes of its cache.
#[derive(Clone, Copy)]
pub(super) struct Attention {
    pub(super) shape: Shape,
    pub(super) format: Format,
}

#[derive(Clone, Copy)]
pub(super) enum Shape {
    Gqa(Gqa),
    Mla(Mla),
}

/// The queries and the two parts of the rows to be cached.
const QUERY: u32 = 0;
const FIRST: u32 = 1;
const SECOND: u32 = 2;

impl Attention {
    /// Shapes with one key head and several, keys and values of different width, and latents.
    pub(super) fn samples(format: Format) -> Vec<Attention> {
        let gqa = |heads, kv_heads, key_dims, value_dims| {
            let scale = (key_dims as f32).sqrt().recip();
            Shape::Gqa(Gqa { heads, kv_heads, key_dims, value_dims, scale })
        };
        let mla = |heads, nope, rotary, value, rank| {
            let scale = ((nope + rotary) as f32).sqrt().recip();
            Shape::Mla(Mla { heads, nope, rotary, value, rank, scale })
        };
        [
            gqa(4, 2, 32, 32),
            gqa(6, 1, 64, 64),
            gqa(3, 3, 24, 40),
            gqa(8, 2, 128, 128),
            mla(3, 24, 16, 40, 64),
            mla(4, 64, 32, 64, 128),
            mla(2, 192, 64, 256, 512),
        ]
        .into_iter()
        .map(|shape| Attention { shape, format })
        .filter(Attention::fits)
        .collect()
    }

    /// Whether rows can be cut into groups of 32, where the format does so.
    fn fits(&self) -> bool {
        let fits = |(val, format): (Val, Format)| match format {
            Format::F16 => true,
            Format::Quantised(_) => val.cols.is_multiple_of(GROUP as u32),
        };
        self.cached().into_iter().zip(self.formats()).all(fits)
    }

    fn name(&self) -> String {
        let shape = match self.shape {
            Shape::Gqa(Gqa { heads, kv_heads, key_dims, value_dims, .. }) => {
                format!("attend {heads} heads over {kv_heads}, dims {key_dims} and {value_dims}")
            }
            Shape::Mla(Mla { heads, nope, rotary, value, rank, .. }) => {
                format!("attend_mla {heads} heads of {nope} + {rotary} and {value} over rank {rank}")
            }
        };
        format!("{shape}, {} cache,", self.format)
    }

    pub(super) fn query(&self) -> Val {
        val(
            QUERY,
            match self.shape {
                Shape::Gqa(shape) => shape.heads * shape.key_dims,
                Shape::Mla(shape) => shape.heads * (shape.nope + shape.rotary),
            },
        )
    }

    /// What the two parts of the cache are written from.
    pub(super) fn cached(&self) -> [Val; 2] {
        let (first, second) = match self.shape {
            Shape::Gqa(shape) => (shape.kv_heads * shape.key_dims, shape.kv_heads * shape.value_dims),
            Shape::Mla(shape) => (shape.rank, shape.rotary),
        };
        [val(FIRST, first), val(SECOND, second)]
    }

    /// The format of each part: the rotary key of latent attention is always f16.
    pub(super) fn formats(&self) -> [Format; 2] {
        match self.shape {
            Shape::Gqa(_) => [self.format; 2],
            Shape::Mla(_) => [self.format, Format::F16],
        }
    }

    /// The first program writes rows and attends, the second only writes.
    pub(super) fn setup(&self) -> Setup {
        let cache = CacheId(0);
        let (q, [first, second]) = (self.query(), self.cached());
        let mut setup = Setup::default();
        let attend = match self.shape {
            Shape::Gqa(shape) => {
                let out = val(3, shape.heads * shape.value_dims);
                Op::Attend { q, cache, shape, out }
            }
            Shape::Mla(shape) => {
                let kind = Kind::Plain { out: shape.heads * (shape.nope + shape.value), inputs: shape.rank };
                let up = WeightId(0);
                setup.weights.push((up, 0, random::tensor(kind, Storage::Dense(Dtype::F16), 31)));
                let out = val(3, shape.heads * shape.value);
                Op::AttendMla { q, cache, up, shape, out }
            }
        };
        let writes = [(first, 0), (second, 1)].map(|(x, part)| Op::CacheWrite { x: x.into(), cache, part });
        let all = [&writes[..], &[attend]].concat();
        setup.programs = vec![Program::of(&all), Program::of(&writes)];
        let part = |(val, format): (Val, Format)| Part { cols: val.cols, format };
        let parts = [first, second].into_iter().zip(self.formats()).map(part).collect();
        setup.caches = vec![CacheSpec { life: Life::PerToken, parts }];
        setup
    }

    /// Random inputs for `rows` rows.
    pub(super) fn inputs(&self, rows: u32, random: &mut SplitMix64) -> Vec<Values> {
        let [first, second] = self.cached();
        // Queries of twice the size make some keys stand out.
        [(self.query(), 2.0), (first, 1.0), (second, 1.0)]
            .map(|(val, scale)| (val, random.normals((rows * val.cols) as usize, scale)))
            .to_vec()
    }
}

/// Rows `from .. to` of each value.
pub(super) fn rows_of(values: &[Values], from: u32, to: u32) -> Vec<Values> {
    let cut =
        |(val, rows): &Values| (*val, rows[(from * val.cols) as usize..(to * val.cols) as usize].to_vec());
    values.iter().map(cut).collect()
}

/// The rows of `a`, then those of `b`.
fn joined(a: &[Values], b: &[Values]) -> Vec<Values> {
    let join = |((val, a), (_, b)): (&Values, &Values)| (*val, [&a[..], b].concat());
    a.iter().zip(b).map(join).collect()
}

/// `rows` rows that continue a sequence of which `cached` places are taken.
fn next_rows(pages: &[PageId], cached: u32, rows: u32) -> Batch {
    Batch::default().and(pages, cached, &vec![0; rows as usize])
}

fn first_steps(subject: &mut Subject<'_>, attention: &Attention) -> Check {
    let mut trial = subject.trial(&attention.setup())?;
    let mut random = SplitMix64::new(32);
    for rows in ROWS {
        trial.compare(&Batch::rows(rows), &attention.inputs(rows, &mut random))?;
    }
    Ok(())
}

/// More rows than a device is likely to take at once, and a few more over what they cached.
fn long_prompt(subject: &mut Subject<'_>, attention: &Attention) -> Check {
    let rows = 577;
    let setup = Setup { tokens: rows, ..attention.setup() };
    let mut trial = subject.trial(&setup)?;
    let inputs = attention.inputs(rows + 40, &mut SplitMix64::new(39));
    trial.compare(&Batch::rows(rows), &rows_of(&inputs, 0, rows))?;
    trial.compare(&next_rows(&pages_for(rows + 40), rows, 40), &rows_of(&inputs, rows, rows + 40))
}

fn chunks(subject: &mut Subject<'_>, attention: &Attention) -> Check {
    let rows = 130;
    let mut trial = subject.trial(&attention.setup())?;
    let inputs = attention.inputs(rows, &mut SplitMix64::new(33));
    let want = trial.want(&Batch::rows(rows), &inputs)?;
    let pages = shuffled_pages(PAGES - 1, 34);
    for (size, pages) in [1, 7, 64, 65, rows].into_iter().zip(pages.chunks(pages_for(rows).len())) {
        let mut cached = 0;
        while cached < rows {
            let end = (cached + size).min(rows);
            let batch = next_rows(pages, cached, end - cached);
            let got = trial.device.run(&batch, &rows_of(&inputs, cached, end))?;
            trial
                .same(&got, &rows_of(&want, cached, end))
                .map_err(|what| format!("chunks of {size}, rows from {cached}: {what}"))?;
            cached = end;
        }
    }
    Ok(())
}

fn several_sequences(subject: &mut Subject<'_>, attention: &Attention) -> Check {
    let mut trial = subject.trial(&attention.setup())?;
    let mut random = SplitMix64::new(35);
    let pages = shuffled_pages(PAGES - 1, 36);
    // How much is cached and how many rows follow, for sequences that are and are not in the same state.
    let lengths = [(100, 1), (0, 17), (63, 2), (0, 1), (64, 65), (5, 1)];
    let mut batch = Batch::default();
    let (mut inputs, mut want) = (Vec::new(), Vec::new());
    for ((cached, rows), pages) in lengths.into_iter().zip(pages.chunks(3)) {
        let all = attention.inputs(cached + rows, &mut random);
        if cached > 0 {
            trial.device.run(&next_rows(pages, 0, cached), &rows_of(&all, 0, cached))?;
        }
        let solo = trial.want(&next_rows(pages, 0, cached + rows), &all)?;
        batch = batch.and(pages, cached, &vec![0; rows as usize]);
        for (lists, values) in [(&mut inputs, &all), (&mut want, &solo)] {
            let new = rows_of(values, cached, cached + rows);
            *lists = if lists.is_empty() { new } else { joined(lists, &new) };
        }
    }
    let got = trial.device.run(&batch, &inputs)?;
    trial.same(&got, &want)
}

fn shared_pages(subject: &mut Subject<'_>, attention: &Attention) -> Check {
    let mut trial = subject.trial(&attention.setup())?;
    let mut random = SplitMix64::new(37);
    let [first, second, third] = [PageId(9), PageId(4), PageId(11)];
    let prefix = attention.inputs(PAGE_TOKENS, &mut random);
    trial.device.run(&next_rows(&[first], 0, PAGE_TOKENS), &prefix)?;
    let mut batch = Batch::default();
    let (mut inputs, mut want) = (Vec::new(), Vec::new());
    for (rows, page) in [(5, second), (9, third)] {
        let more = attention.inputs(rows, &mut random);
        let solo = trial.want(&Batch::rows(PAGE_TOKENS + rows), &joined(&prefix, &more))?;
        let solo = rows_of(&solo, PAGE_TOKENS, PAGE_TOKENS + rows);
        batch = batch.and(&[first, page], PAGE_TOKENS, &vec![0; rows as usize]);
        inputs = if inputs.is_empty() { more } else { joined(&inputs, &more) };
        want = if want.is_empty() { solo } else { joined(&want, &solo) };
    }
    let got = trial.device.run(&batch, &inputs)?;
    trial.same(&got, &want)
}

fn past_the_last_page(subject: &mut Subject<'_>, attention: &Attention) -> Check {
    let mut trial = subject.trial(&attention.setup())?;
    let mut random = SplitMix64::new(38);
    let prefix = attention.inputs(PAGE_TOKENS, &mut random);
    trial.compare(&Batch::rows(PAGE_TOKENS), &prefix)?;
    let one_more = attention.inputs(1, &mut random);
    if trial.device.run(&next_rows(&[PageId(1)], PAGE_TOKENS, 1), &one_more).is_ok() {
        return Err("a token past the only page was taken".into());
    }
    // The device goes on, and the page is as it was.
    let want = trial.want(&Batch::rows(PAGE_TOKENS + 1), &joined(&prefix, &one_more))?;
    let got = trial.device.run(&next_rows(&pages_for(PAGE_TOKENS + 1), PAGE_TOKENS, 1), &one_more)?;
    trial.same(&got, &rows_of(&want, PAGE_TOKENS, PAGE_TOKENS + 1))
}
