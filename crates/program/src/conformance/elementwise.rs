//! Embedding, norms, rotary embedding, activations, sums and the choice of outputs.

use exl3::Bits;

use super::batch::Batch;
use super::prepared::{Setup, val};
use super::trial::Subject;
use super::{Case, Check, ROWS};
use crate::random::{self, SplitMix64};
use crate::{Activation, Dtype, Heads, Kind, Op, Pairing, Role, Rope, Rows, Storage, Val, Want, WeightId};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        cases.push(Case::new(format!("embed {dtype:?}"), move |subject| {
            embed(subject, Storage::Dense(dtype), 33)
        }));
    }
    for bits in (1..=8).filter_map(Bits::whole) {
        for hidden in [256, 300] {
            let storage = Storage::Exl3Table { bits };
            let name = format!("embed EXL3 {bits} bits mul1, {hidden} columns");
            cases.push(Case::new(name, move |subject| embed(subject, storage, hidden)));
        }
    }
    for (name, fill) in FILLS {
        for cols in [33, 256, 768] {
            cases.push(Case::new(format!("rms_norm of {name}, {cols} columns"), move |subject| {
                rms_norm(subject, (cols, cols), fill)
            }));
            cases.push(Case::new(format!("add_rms_norm of {name}, {cols} columns"), move |subject| {
                add_rms_norm(subject, cols, fill)
            }));
        }
        cases.push(Case::new(format!("rms_norm of {name}, by heads"), move |subject| {
            rms_norm(subject, (96, 32), fill)
        }));
    }
    for pairing in [Pairing::Interleaved, Pairing::HalfSplit] {
        for (first, rotary) in [(0, 24), (0, 8), (16, 8)] {
            let name = format!("rope {pairing:?}, {rotary} dims from {first}");
            cases.push(Case::new(name, move |subject| {
                rope(subject, pairing, Heads { count: 3, dims: 24, first, rotary })
            }));
        }
    }
    cases.push(Case::new("act_mul", act_mul));
    cases.push(Case::new("add", |subject| add(subject, Role::Activation)));
    cases.push(Case::new("add to the residual stream", |subject| add(subject, Role::Stream)));
    cases.push(Case::new("outputs", outputs));
    cases
}

/// Makes a row of numbers.
type Fill = fn(&mut SplitMix64, usize) -> Vec<f32>;

/// Rows that norms must be right for.
const FILLS: [(&str, Fill); 6] = [
    ("normal numbers", |random, cols| random.normals(cols, 1.0)),
    // A residual stream: the squares pass what an f16 holds.
    ("plus and minus 1,200", |random, cols| {
        (0..cols).map(|_| if random.bits() & 1 == 0 { 1200.0 } else { -1200.0 }).collect()
    }),
    // 256 squared is 65,536: just past the largest f16.
    ("numbers beside 256", |random, cols| (0..cols).map(|_| 256.0 + random.uniform() - 0.5).collect()),
    ("small beside large numbers", |random, cols| {
        (0..cols).map(|_| random.normal() * if random.bits() & 1 == 0 { 1e-3 } else { 1e3 }).collect()
    }),
    // The mean square is about as large as eps, so that eps counts.
    ("numbers of about 3e-3", |random, cols| random.normals(cols, 3e-3)),
    ("zeros", |_, cols| vec![0.0; cols]),
];

fn embed(subject: &mut Subject<'_>, storage: Storage, hidden: u32) -> Check {
    let vocab = 70;
    let table = random::tensor(Kind::Table { vocab, hidden }, storage, 1);
    let out = val(0, hidden);
    let setup = Setup {
        weights: vec![(WeightId(0), 0, table)],
        ..Setup::of(&[Op::Embed { table: WeightId(0), out }])
    };
    let mut trial = subject.trial(&setup)?;
    let mut random = SplitMix64::new(2);
    for rows in ROWS {
        // The first and the last token are among them.
        let mut tokens: Vec<u32> = (0..rows).map(|_| random.below(vocab)).collect();
        tokens[0] = vocab - 1;
        tokens[rows as usize / 2] = 0;
        let pages = super::batch::pages_for(rows);
        trial.compare(&Batch::default().and(&pages, 0, &tokens), &[])?;
    }
    Ok(())
}

/// A norm of columns 8 .. 8 + `cols` of a wider value.
fn rms_norm(subject: &mut Subject<'_>, (cols, len): (u32, u32), fill: Fill) -> Check {
    let (x, out) = (val(0, cols + 13), val(1, cols));
    let weight = random::tensor(Kind::Vector { len }, Storage::Dense(Dtype::Bf16), 3);
    let setup = Setup {
        weights: vec![(WeightId(0), 0, weight)],
        ..Setup::of(&[Op::RmsNorm { x: x.cols(8, cols), weight: WeightId(0), eps: 1e-5, out }])
    };
    let mut trial = subject.trial(&setup)?;
    let mut random = SplitMix64::new(4);
    for rows in ROWS {
        let inputs: Vec<f32> = (0..rows).flat_map(|_| fill(&mut random, x.cols as usize)).collect();
        trial.compare(&Batch::rows(rows), &[(x, inputs)])?;
    }
    Ok(())
}

fn add_rms_norm(subject: &mut Subject<'_>, cols: u32, fill: Fill) -> Check {
    let [x, delta, sum, out] = [0, 1, 2, 3].map(|id| val(id, cols));
    let (x, sum) = (Val { role: Role::Stream, ..x }, Val { role: Role::Stream, ..sum });
    let weight = random::tensor(Kind::Vector { len: cols }, Storage::Dense(Dtype::F32), 5);
    let setup = Setup {
        weights: vec![(WeightId(0), 0, weight)],
        ..Setup::of(&[Op::AddRmsNorm { x, delta, weight: WeightId(0), eps: 1e-5, sum, out }])
    };
    let mut trial = subject.trial(&setup)?;
    let mut random = SplitMix64::new(6);
    for rows in ROWS {
        let stream: Vec<f32> = (0..rows).flat_map(|_| fill(&mut random, cols as usize)).collect();
        // A delta that is small beside the stream, as a layer's is.
        let deltas = stream.iter().map(|x| x * 0.1 * random.normal()).collect();
        trial.compare(&Batch::rows(rows), &[(x, stream), (delta, deltas)])?;
    }
    Ok(())
}

fn rope(subject: &mut Subject<'_>, pairing: Pairing, heads: Heads) -> Check {
    let cols = heads.count * heads.dims;
    let (x, out) = (val(0, cols + 5), val(1, cols));
    let frequency = |pair: u32| 10_000_f32.powf(-2.0 * pair as f32 / heads.rotary as f32);
    let settings =
        Rope { inverse_frequencies: (0..heads.rotary / 2).map(frequency).collect(), gain: 1.25, pairing };
    let setup = Setup::of(&[Op::Rope { x: x.cols(5, cols), heads, rope: settings, out }]);
    let mut trial = subject.trial(&setup)?;
    let mut random = SplitMix64::new(7);
    for rows in ROWS {
        let mut batch = Batch::rows(rows);
        // Positions are not places: they may be anything that the model allows, here GLM-4.7-Flash's 202,752.
        batch.positions = (0..rows).map(|_| random.below(202_752)).collect();
        trial.compare(&batch, &[(x, random.normals((rows * x.cols) as usize, 2.0))])?;
    }
    Ok(())
}

fn act_mul(subject: &mut Subject<'_>) -> Check {
    let [gate, up, out] = [0, 1, 2].map(|id| val(id, 37));
    let setup = Setup::of(&[Op::ActMul { gate, up, act: Activation::Silu, out }]);
    let mut trial = subject.trial(&setup)?;
    let mut random = SplitMix64::new(8);
    for rows in ROWS {
        let mut gates = random.normals((rows * 37) as usize, 4.0);
        // exp(-x) overflows below -88.
        gates[..4].copy_from_slice(&[-100.0, 100.0, -0.0, -1e4]);
        let ups = random.normals(gates.len(), 1.0);
        trial.compare(&Batch::rows(rows), &[(gate, gates), (up, ups)])?;
    }
    Ok(())
}

/// A sum that has its first term's role, as the builder records it.
fn add(subject: &mut Subject<'_>, role: Role) -> Check {
    let [a, b, out] = [0, 1, 2].map(|id| val(id, 37));
    let (a, out) = (Val { role, ..a }, Val { role, ..out });
    let mut trial = subject.trial(&Setup::of(&[Op::Add { a, b, out }]))?;
    let mut random = SplitMix64::new(9);
    for rows in ROWS {
        let [x, y] = [3.0, 500.0].map(|scale| random.normals((rows * 37) as usize, scale));
        trial.compare(&Batch::rows(rows), &[(a, x), (b, y)])?;
    }
    Ok(())
}

fn outputs(subject: &mut Subject<'_>) -> Check {
    let x = val(0, 37);
    let out = Val { id: 1, rows: Rows::Outputs, ..x };
    let mut trial = subject.trial(&Setup::of(&[Op::Outputs { x, out }]))?;
    let mut random = SplitMix64::new(10);
    for rows in ROWS {
        let mut batch = Batch::rows(rows);
        // Rows in any order, some more than once, some not at all; and none.
        for _ in 0..random.below(rows + 2) {
            batch = batch.wanting(random.below(rows), Want::Logits);
        }
        trial.compare(&batch, &[(x, random.normals((rows * 37) as usize, 1.0))])?;
    }
    Ok(())
}
