//! Steps under way, tokens that never leave the device, and what is left behind in memory.

use std::time::{Duration, Instant};

use super::batch::{Batch, pages_for};
use super::models::MODEL_TOLERANCE;
use super::prepared::{PAGES, Prepared, SIZE, Setup, said};
use super::sample::{Architecture, Sample, VOCAB};
use super::trial::{Subject, same_bits, same_rows};
use super::{Case, Check};
use crate::random::SplitMix64;
use crate::reference::Reference;
use crate::{
    CacheSize, Device, Draw, Format, Op, Options, Outcome, PageId, ProgramId, Score, Ticket, Token, Want,
};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("steps: the same step twice gives the same bits", twice),
        Case::new(
            "steps: a second one is taken before the first is waited for, a third is not",
            two_under_way,
        ),
        Case::new("steps: a token drawn on the device equals the same token from the host", previous),
        Case::new("steps: without outputs there are no answers", no_outputs),
        Case::new("steps: reserving again empties the caches", reserving_again),
        Case::new("steps: every value can be read where all are kept", keep_all),
        Case::new("steps: operations are timed where that is asked for, and give the same bits", timing),
    ]
}

/// The sample whose experts are chosen by a hash, so that no rounding turns over a choice.
fn hashed_sample() -> Result<Sample, String> {
    let architecture = Architecture::Experts(Score::Hash { layer: 0 });
    Sample::new(architecture, Format::F16).map_err(|error| error.to_string())
}

/// A whole model, prepared.
pub(super) struct Model {
    pub(super) device: Box<dyn Device>,
    pub(super) id: ProgramId,
}

impl Model {
    pub(super) fn new(subject: &mut Subject<'_>) -> Result<Model, String> {
        let setup = Setup::of_model(&hashed_sample()?);
        let prepared = Prepared::new((subject.make)(), &setup)?;
        Ok(Model { id: prepared.id(), device: prepared.device })
    }

    /// Runs one step from beginning to end.
    pub(super) fn run<T>(&mut self, batch: &Batch, take: impl Fn(Outcome<'_>) -> T) -> Result<T, String> {
        let ticket = self.device.submit(self.id, &batch.step()).map_err(said("submit"))?;
        self.device.wait(ticket).map(take).map_err(said("wait"))
    }

    pub(super) fn logits(&mut self, batch: &Batch) -> Result<Vec<f32>, String> {
        self.run(batch, |outcome| outcome.logits.to_vec())
    }
}

/// Six rows of one sequence.
pub(super) fn prompt() -> Batch {
    Batch::default().and(&[PageId(3)], 0, &[5, 17, 80, 3, 3, 41])
}

fn twice(subject: &mut Subject<'_>) -> Check {
    let mut model = Model::new(subject)?;
    let batch = prompt().and(&pages_for(40), 0, &[9; 40]).wanting_all_logits();
    let first = model.logits(&batch)?;
    // Other rows in between leave other numbers in scratch memory and caches.
    model.logits(&Batch::default().and(&[PageId(7)], 0, &[60; 50]).wanting_all_logits())?;
    same_bits(&model.logits(&batch)?, &first, VOCAB as usize)
}

fn greedy() -> Want {
    Want::Choose(Draw::GREEDY)
}

fn two_under_way(subject: &mut Subject<'_>) -> Check {
    let mut model = Model::new(subject)?;
    let [one, two] = [[1, 2, 3], [4, 5, 6]].map(|tokens| {
        Batch::default()
            .and(&[PageId(1 + tokens[0])], 0, &tokens)
            .wanting(2, greedy())
            .wanting(1, Want::Logits)
    });
    let answers = |outcome: Outcome<'_>| (outcome.answers.to_vec(), outcome.logits.to_vec());
    let (want_one, want_two) = (model.run(&one, answers)?, model.run(&two, answers)?);
    let first = model.device.submit(model.id, &one.step()).map_err(said("submit"))?;
    let second = model.device.submit(model.id, &two.step()).map_err(said("the second submit"))?;
    if model.device.submit(model.id, &one.step()).is_ok() {
        return Err("a third step was taken while two were under way".into());
    }
    if model.device.wait(Ticket(second.0)).is_ok() {
        return Err("the second step was handed over before the first".into());
    }
    let got_one = model.device.wait(first).map(answers).map_err(said("wait"))?;
    let got_two = model.device.wait(second).map(answers).map_err(said("wait"))?;
    if got_one != want_one || got_two != want_two {
        return Err("steps under way together gave other answers than one after the other".into());
    }
    // The device goes on.
    if model.run(&one, answers)? != want_one {
        return Err("a step after a refused one gave another answer".into());
    }
    Ok(())
}

fn previous(subject: &mut Subject<'_>) -> Check {
    let mut model = Model::new(subject)?;
    let warm = Draw { temperature: 1.0, random: 0.6, ..Draw::GREEDY };
    // Two sequences; the outputs are not in the order of the rows, and one of them draws nothing.
    let first = prompt()
        .and(&[PageId(6)], 0, &[8, 9])
        .wanting(7, Want::Choose(warm))
        .wanting(2, Want::Logits)
        .wanting(5, greedy());
    let next = |a: Token, b: Token| {
        let mut batch = Batch::default().and(&[PageId(3)], 6, &[0]).and(&[PageId(6)], 2, &[0]);
        batch.tokens = vec![a, b];
        batch.wanting_all_logits()
    };
    let drawn = model.run(&first, |outcome| [outcome.token(2), outcome.token(0)])?;
    let [Some(a), Some(b)] = drawn else { return Err(format!("no tokens were drawn: {drawn:?}")) };
    let want = model.logits(&next(Token::Id(a), Token::Id(b)))?;
    let ticket = model.device.submit(model.id, &first.step()).map_err(said("submit"))?;
    let second = next(Token::Previous(2), Token::Previous(0));
    let following = model.device.submit(model.id, &second.step()).map_err(said("submit"))?;
    model.device.wait(ticket).map_err(said("wait"))?;
    let got = model.device.wait(following).map_err(said("wait"))?.logits.to_vec();
    same_bits(&got, &want, VOCAB as usize)?;
    // The step before drew no token at all, and this one cannot be run.
    match model.device.submit(model.id, &second.step()) {
        Ok(_) => Err("a row read a token that the step before did not draw".into()),
        Err(_) => Ok(()),
    }
}

fn no_outputs(subject: &mut Subject<'_>) -> Check {
    let mut model = Model::new(subject)?;
    let want = model.logits(&prompt().wanting(5, Want::Logits))?;
    let first = Batch::default().and(&[PageId(4)], 0, &[5, 17, 80]);
    let answers = model.run(&first, |outcome| outcome.answers.len())?;
    if answers != 0 {
        return Err(format!("{answers} answers to no outputs"));
    }
    // What the step cached is there all the same: the row that follows is near the one computed in one go.
    let got = model.logits(&Batch::default().and(&[PageId(4)], 3, &[3, 3, 41]).wanting(2, Want::Logits))?;
    same_rows(&got, &want, VOCAB as usize, MODEL_TOLERANCE)
}

fn reserving_again(subject: &mut Subject<'_>) -> Check {
    // Three places count as cached that were not written since: they must be zero as on a fresh device.
    let attention = super::attention::Attention::samples(Format::F16)[0];
    let setup = attention.setup();
    let mut device = Prepared::new((subject.make)(), &setup)?;
    let mut random = SplitMix64::new(64);
    device.run(&Batch::rows(3), &attention.inputs(3, &mut random))?;
    let last = attention.inputs(1, &mut random);
    let next = Batch::default().and(&[PageId(1)], 3, &[0]);
    let mut fresh = Prepared::new((subject.make)(), &setup)?;
    let want = fresh.run(&next, &last)?;
    device
        .device
        .reserve(&setup.caches, CacheSize { pages: PAGES, slots: SIZE.sequences })
        .map_err(said("reserve"))?;
    let got = device.run(&next, &last)?;
    same_bits(&got[0].1, &want[0].1, want[0].0.cols as usize)
}

fn timing(subject: &mut Subject<'_>) -> Check {
    let program = &hashed_sample()?.spec.programs[0];
    let mut model = Model::new(subject)?;
    let batch = prompt().wanting_all_logits();
    let (want, times) = model.run(&batch, |outcome| (outcome.logits.to_vec(), outcome.times.len()))?;
    if times != 0 {
        return Err(format!("{times} operations were timed, though nobody asked"));
    }
    let options = Options { timing: true, ..Options::new(SIZE) };
    model.id = model.device.prepare(program, &options).map_err(said("prepare"))?;
    for _ in 0..2 {
        let start = Instant::now();
        let (got, times) = model.run(&batch, |outcome| (outcome.logits.to_vec(), outcome.times.to_vec()))?;
        let whole = start.elapsed();
        same_bits(&got, &want, VOCAB as usize)?;
        let sum: Duration = times.iter().sum();
        if times.len() != program.ops.len() || sum.is_zero() || sum > whole {
            let (found, needed) = (times.len(), program.ops.len());
            return Err(format!("{found} times of {needed} operations, {sum:?} in a step of {whole:?}"));
        }
    }
    Ok(())
}

fn keep_all(subject: &mut Subject<'_>) -> Check {
    let sample = hashed_sample()?;
    let program = &sample.spec.programs[0];
    let batch = prompt().wanting_all_logits();
    let run = |mut device: Box<dyn Device>| {
        sample.upload(&mut *device).map_err(said("upload"))?;
        let size = CacheSize { pages: PAGES, slots: SIZE.sequences };
        device.reserve(&sample.spec.caches, size).map_err(said("reserve"))?;
        let id = device
            .prepare(program, &Options { keep_all: true, ..Options::new(SIZE) })
            .map_err(said("prepare"))?;
        let ticket = device.submit(id, &batch.step()).map_err(said("submit"))?;
        let logits = device.wait(ticket).map_err(said("wait"))?.logits.to_vec();
        let mut values = Vec::new();
        for val in program.ops.iter().flat_map(Op::writes) {
            let mut rows = vec![f32::NAN; batch.tokens.len() * val.cols as usize];
            device.read(id, val, &mut rows).map_err(said("read"))?;
            values.push((val, rows));
        }
        Ok::<_, String>((values, logits))
    };
    let (want, _) = run(Box::<Reference>::default())?;
    let (values, logits) = run((subject.make)())?;
    for ((val, got), (_, want)) in values.iter().zip(&want) {
        same_rows(got, want, val.cols as usize, MODEL_TOLERANCE)
            .map_err(|what| format!("value {}: {what}", val.id))?;
    }
    // Where values share memory the numbers are the same.
    same_bits(&logits, &Model::new(subject)?.logits(&batch)?, VOCAB as usize)
}
