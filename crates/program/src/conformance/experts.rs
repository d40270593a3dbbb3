//! The router's choice and the experts.

use exl3::{Bits, Codebook};

use super::batch::Batch;
use super::prepared::{SIZE, Setup, val};
use super::trial::Subject;
use super::{Case, Check, EXACT, ROWS};
use crate::random::{self, SplitMix64};
use crate::{
    Activation, Dtype, Gates, Glu, Groups, HostTensor, Kind, Op, Program, Role, Routing, Score, Storage, Val,
    WeightId,
};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let scores =
        [("softmax", Score::Softmax), ("sigmoid", Score::Sigmoid), ("hash", Score::Hash { layer: 5 })];
    for (name, score) in scores {
        for (experts, top_k) in [(64, 4), (128, 8), (32, 1), (5, 5), (1, 1), (37, 3)] {
            for bias in [Bias::Absent, Bias::AroundOne] {
                let gates = GATES[top_k as usize % 2];
                let how = Routing { experts, top_k, groups: None, score, gates, scale: 1.8 };
                let name = format!("route by {name}, {top_k} of {experts}{}", bias.name());
                cases.push(Case::new(name, move |subject| route(subject, how, bias)));
            }
        }
    }
    for (score, bias, [experts, top_k, count, chosen]) in [
        (Score::Sigmoid, Bias::Absent, [256, 8, 8, 4]),
        (Score::Sigmoid, Bias::AroundOne, [256, 8, 8, 4]),
        (Score::Sigmoid, Bias::BelowMinusOne, [256, 8, 8, 4]),
        (Score::Sigmoid, Bias::AroundOne, [16, 4, 8, 4]),
        (Score::Sigmoid, Bias::BelowMinusOne, [16, 4, 8, 4]),
        (Score::Sigmoid, Bias::BelowMinusOne, [6, 3, 2, 1]),
        (Score::Softmax, Bias::Absent, [15, 6, 3, 2]),
        (Score::Softmax, Bias::Absent, [32, 2, 16, 1]),
    ] {
        let groups = Some(Groups { count, chosen });
        let how = Routing { experts, top_k, groups, score, gates: GATES[0], scale: 2.5 };
        let within = format!("within {chosen} of {count} groups");
        let score = format!("{score:?}").to_lowercase();
        let name = format!("route by {score}, {top_k} of {experts} {within}{}", bias.name());
        cases.push(Case::new(name, move |subject| route(subject, how, bias)));
    }
    for mix in Mix::ALL {
        for (hidden, width) in [(160, 96), (256, 128), (128, 320)] {
            let name = format!("experts stored {} {hidden} to {width}", mix.name());
            cases.push(Case::new(name, move |subject| {
                experts(subject, &Layer { hidden, width, mix, shared: None })
            }));
        }
        let name = format!("experts stored {} with a shared expert", mix.name());
        cases.push(Case::new(name, move |subject| {
            experts(subject, &Layer { hidden: 160, width: 96, mix, shared: Some(192) })
        }));
    }
    cases.push(Case::new("experts stored as EXL3 with hundreds of rows", |subject| {
        let layer = Layer { hidden: 128, width: 384, mix: Mix::DifferentExl3, shared: Some(128) };
        rows_of(subject, &layer, &[5, 257])
    }));
    cases
}

const GATES: [Gates; 2] = [Gates::Normalised { epsilon: 1e-20 }, Gates::Raw];

/// What is added to the scores for the choice.
#[derive(Clone, Copy)]
enum Bias {
    Absent,
    AroundOne,
    /// Every key is negative, so that nothing but minus infinity keeps an expert out.
    BelowMinusOne,
}

impl Bias {
    fn name(self) -> &'static str {
        match self {
            Bias::Absent => "",
            Bias::AroundOne => ", bias",
            Bias::BelowMinusOne => ", negative keys",
        }
    }

    fn weights(self, experts: u32) -> Vec<(WeightId, u32, HostTensor)> {
        let kind = Kind::Vector { len: experts };
        let tensor = match self {
            Bias::Absent => return Vec::new(),
            Bias::AroundOne => random::tensor(kind, Storage::Dense(Dtype::F32), 21),
            Bias::BelowMinusOne => {
                let mut random = SplitMix64::new(21);
                let data = (0..experts).flat_map(|_| (-1.0 - random.uniform()).to_le_bytes()).collect();
                HostTensor::Dense { kind, dtype: Dtype::F32, data, bias: None }
            }
        };
        vec![(WeightId(0), 0, tensor)]
    }
}

/// Logits are multiples of 1/64, so that different ones differ by more than an approximate exp errs, and
/// equal ones are frequent: ties must go to the lower index. By softmax they are multiples of 1/2, so
/// that groups tie as well; by sigmoid such groups would tie but for a rounding, since the scores of `l` and
/// `-l` sum to 1.
fn route(subject: &mut Subject<'_>, how: Routing, bias: Bias) -> Check {
    let logits = Val { role: Role::Logits, ..val(0, how.experts) };
    let ids = Val { role: Role::Index, ..val(1, how.top_k) };
    let gates = Val { role: Role::Logits, ..val(2, how.top_k) };
    let weights = bias.weights(how.experts);
    let bias = weights.first().map(|(id, ..)| *id);
    let steps = if how.score == Score::Softmax && how.groups.is_some() { 2.0 } else { 64.0 };
    let setup = Setup { weights, ..Setup::of(&[Op::Route { logits, bias, how, ids, gates }]) };
    let mut trial = subject.trial(&setup)?;
    trial.tolerance = EXACT;
    let mut random = SplitMix64::new(22);
    for rows in ROWS {
        let tokens: Vec<u32> = (0..rows).map(|_| random.below(1000)).collect();
        let batch = Batch::default().and(&super::batch::pages_for(rows), 0, &tokens);
        let numbers = random.normals((rows * how.experts) as usize, 2.0);
        let inputs = [(logits, numbers.into_iter().map(|x| (x * steps).round() / steps).collect())];
        trial.compare(&batch, &inputs)?;
    }
    Ok(())
}

/// How the experts of a layer are stored.
#[derive(Clone, Copy)]
enum Mix {
    Dense,
    Exl3,
    DifferentExl3,
    DenseAndExl3,
}

impl Mix {
    const ALL: [Mix; 4] = [Mix::Dense, Mix::Exl3, Mix::DifferentExl3, Mix::DenseAndExl3];

    fn name(self) -> &'static str {
        match self {
            Mix::Dense => "as f16",
            Mix::Exl3 => "as EXL3",
            Mix::DifferentExl3 => "as EXL3 of different widths and codebooks",
            Mix::DenseAndExl3 => "as bf16 and EXL3",
        }
    }

    /// The storage of matrix `which` (gate, up, down) of an expert.
    fn storage(self, expert: u32, which: u32) -> Storage {
        let mixed = super::linear::exl3_storages();
        let (bits, codebook) = mixed[((expert * 7 + which * 5) as usize) % mixed.len()];
        match self {
            Mix::Dense => Storage::Dense(Dtype::F16),
            Mix::Exl3 => Storage::Exl3 { bits: Bits::ALL[6], codebook: Codebook::Mul1 },
            Mix::DenseAndExl3 if (expert + which).is_multiple_of(2) => Storage::Dense(Dtype::Bf16),
            Mix::DifferentExl3 | Mix::DenseAndExl3 => Storage::Exl3 { bits, codebook },
        }
    }
}

struct Layer {
    hidden: u32,
    width: u32,
    mix: Mix,
    /// The width of the shared expert.
    shared: Option<u32>,
}

const EXPERTS: u32 = 7;
const TOP_K: u32 = 3;

impl Layer {
    fn unit(&self, first: u32, experts: u32, width: u32) -> (Glu, Vec<(WeightId, u32, HostTensor)>) {
        let glu = Glu { gate: WeightId(first), up: WeightId(first + 1), down: WeightId(first + 2) };
        let mut weights = Vec::new();
        for expert in 0..experts {
            for (which, id) in (0..).zip([glu.gate, glu.up, glu.down]) {
                let (out, inputs) = if which == 2 { (self.hidden, width) } else { (width, self.hidden) };
                let kind = Kind::Linear { out, inputs, bias: false };
                let seed = u64::from(100 * first + 10 * expert + which);
                let tensor = random::tensor(kind, self.mix.storage(first + expert, which), seed);
                weights.push((id, expert, tensor));
            }
        }
        (glu, weights)
    }
}

fn experts(subject: &mut Subject<'_>, layer: &Layer) -> Check {
    rows_of(subject, layer, &ROWS)
}

fn rows_of(subject: &mut Subject<'_>, layer: &Layer, all_rows: &[u32]) -> Check {
    let (x, out) = (val(0, layer.hidden), val(3, layer.hidden));
    let ids = Val { role: Role::Index, ..val(1, TOP_K) };
    let gates = Val { role: Role::Logits, ..val(2, TOP_K) };
    let (experts, mut weights) = layer.unit(0, EXPERTS, layer.width);
    let shared = layer.shared.map(|width| {
        let (glu, more) = layer.unit(3, 1, width);
        weights.extend(more);
        glu
    });
    let op = Op::Experts { x, ids, gates, experts, shared, act: Activation::Silu, out };
    let tokens = all_rows.iter().copied().fold(SIZE.tokens, u32::max);
    let setup = Setup { programs: vec![Program::of(&[op])], weights, tokens, ..Setup::default() };
    let mut trial = subject.trial(&setup)?;
    let mut random = SplitMix64::new(23);
    for rows in all_rows.iter().copied() {
        for spread in [Spread::All, Spread::OneNeverChosen, Spread::AllTheSame] {
            let inputs = [
                (x, random.normals((rows * layer.hidden) as usize, 2.0)),
                (ids, (0..rows).flat_map(|_| spread.choose(&mut random)).collect()),
                (gates, (0..rows * TOP_K).map(|_| random.uniform()).collect()),
            ];
            trial.compare(&Batch::rows(rows), &inputs)?;
        }
    }
    Ok(())
}

/// Which experts the rows of a step use.
#[derive(Clone, Copy)]
enum Spread {
    All,
    OneNeverChosen,
    AllTheSame,
}

impl Spread {
    fn choose(self, random: &mut SplitMix64) -> Vec<f32> {
        let mut experts: Vec<u32> = (0..EXPERTS).collect();
        match self {
            Spread::All => random.shuffle(&mut experts),
            Spread::OneNeverChosen => random.shuffle(&mut experts[..EXPERTS as usize - 2]),
            Spread::AllTheSame => {}
        }
        experts[..TOP_K as usize].iter().map(|expert| *expert as f32).collect()
    }
}
