//! What must be refused, and leaves the device as it was.

use super::batch::Batch;
use super::prepared::{PAGES, Prepared, SIZE, Setup, said, val};
use super::sample::{Architecture, Sample, VOCAB};
use super::steps::{Model, prompt};
use super::trial::{Subject, same_bits};
use super::{Case, Check};
use crate::{Activation, CacheSize, Format, Op, Options, PageId, Program, ProgramId, Token, Want};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("refusals: malformed steps", malformed_steps),
        Case::new("refusals: values that cannot be read or written", unknown_values),
        Case::new("refusals: a weight that is not there", missing_weight),
    ]
}

fn malformed_steps(subject: &mut Subject<'_>) -> Check {
    let mut model = Model::new(subject)?;
    let good = prompt().wanting(5, Want::Logits);
    let want = model.logits(&good)?;
    let changed = |change: fn(&mut Batch)| {
        let mut batch = good.clone();
        change(&mut batch);
        batch
    };
    let bad = [
        ("no rows", Batch::default()),
        ("a token outside the vocabulary", changed(|batch| batch.tokens[1] = Token::Id(VOCAB))),
        ("a token of an output that there was not", changed(|batch| batch.tokens[1] = Token::Previous(9))),
        ("fewer positions than rows", changed(|batch| batch.positions.truncate(5))),
        ("rows of no sequence", changed(|batch| batch.sequences[0].rows.end = 5)),
        ("rows that are not there", changed(|batch| batch.sequences[0].rows.end = 7)),
        ("more places than its pages hold", changed(|batch| batch.sequences[0].cached = 59)),
        ("pages that are not listed", changed(|batch| batch.sequences[0].pages.end = 2)),
        ("the scratch page", changed(|batch| batch.pages[0] = PageId(0))),
        ("a page that was not reserved", changed(|batch| batch.pages[0] = PageId(PAGES))),
        ("a slot that was not reserved", changed(|batch| batch.sequences[0].slot = SIZE.sequences)),
        ("an output of a row that is not there", good.clone().wanting(6, Want::Logits)),
        ("the score of a token outside the vocabulary", good.clone().wanting(5, Want::Score(VOCAB))),
        ("more rows than it was prepared for", Batch::rows(SIZE.tokens + 1)),
    ];
    for (what, batch) in bad {
        if model.device.submit(model.id, &batch.step()).is_ok() {
            return Err(format!("a step with {what} was taken"));
        }
    }
    // None of them counts as under way or has written anything.
    same_bits(&model.logits(&good)?, &want, VOCAB as usize)
}

fn unknown_values(subject: &mut Subject<'_>) -> Check {
    let [gate, up, out, other] = [0, 1, 2, 3].map(|id| val(id, 8));
    let op = Op::ActMul { gate, up, act: Activation::Silu, out };
    let mut prepared = Prepared::new((subject.make)(), &Setup::of(&[op]))?;
    let id = prepared.id();
    prepared.run(&Batch::rows(2), &[(gate, vec![1.0; 16]), (up, vec![1.0; 16])])?;
    let device = &mut prepared.device;
    let refused = [
        ("a value of another program was read", device.read(id, other, &mut [0.0; 16]).is_err()),
        ("a value was read into too little room", device.read(id, out, &mut [0.0; 8]).is_err()),
        ("a value of another program was written", device.write(id, other, &[0.0; 16]).is_err()),
        ("a result was written", device.write(id, out, &[0.0; 16]).is_err()),
        ("half a row was written", device.write(id, gate, &[0.0; 12]).is_err()),
        (
            "more rows than prepared for were written",
            device.write(id, gate, &vec![0.0; 8 * SIZE.tokens as usize + 8]).is_err(),
        ),
        (
            "a program that was never prepared was read",
            device.read(ProgramId(9), out, &mut [0.0; 16]).is_err(),
        ),
    ];
    match refused.iter().find(|(_, refused)| !refused) {
        Some((what, _)) => Err((*what).into()),
        None => Ok(()),
    }
}

fn missing_weight(subject: &mut Subject<'_>) -> Check {
    let sample = Sample::new(Architecture::Dense, Format::F16).map_err(|error| error.to_string())?;
    let mut device = (subject.make)();
    for (id, part, tensor) in &sample.weights[1..] {
        device.upload(*id, *part, tensor.clone()).map_err(said("upload"))?;
    }
    let size = CacheSize { pages: PAGES, slots: SIZE.sequences };
    device.reserve(&sample.spec.caches, size).map_err(said("reserve"))?;
    let program: &Program = &sample.spec.programs[0];
    match device.prepare(program, &Options::new(SIZE)) {
        Ok(_) => Err("a program was prepared without one of its weights".into()),
        Err(_) => Ok(()),
    }
}
