//! Steps under way, tokens that never leave the device, answers, and what must be refused.

use super::batch::{Batch, pages_for};
use super::prepared::{PAGES, Prepared, SIZE, Setup, said, val};
use super::sample::{Architecture, KNOWN, Sample, VOCAB};
use super::trial::{Subject, same_bits};
use super::{Case, Check, EXACT};
use crate::draw::{Candidates, log_probability};
use crate::random::SplitMix64;
use crate::{
    Activation, Answer, CacheSize, Device, Draw, Format, Op, Options, Outcome, PageId, Program, ProgramId,
    Role, Rows, Score, Ticket, Token, Val, Want,
};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("answer: tokens, log-probabilities and logits as asked for", answers),
        Case::new("answer: ids that the tokenizer does not know are never drawn", unknown_ids),
        Case::new("answer: what a model gives belongs to its own logits", answers_of_a_model),
        Case::new("steps: the same step twice gives the same bits", twice),
        Case::new(
            "steps: a second one is taken before the first is waited for, a third is not",
            two_under_way,
        ),
        Case::new("steps: a token drawn on the device equals the same token from the host", previous),
        Case::new("steps: without outputs there are no answers", no_outputs),
        Case::new("steps: reserving again empties the caches", reserving_again),
        Case::new("refusals: malformed steps", malformed_steps),
        Case::new("refusals: values that cannot be read or written", unknown_values),
        Case::new("refusals: a weight that is not there", missing_weight),
    ]
}

fn logits_val() -> Val {
    Val { id: 0, rows: Rows::Outputs, cols: VOCAB, role: Role::Logits }
}

/// Draws of all kinds, with random numbers that lie on no boundary but by chance.
fn draws(count: usize, random: &mut SplitMix64) -> Vec<Draw> {
    let draw = |index: usize, random: f32| match index % 6 {
        0 => Draw::GREEDY,
        1 => Draw { temperature: 1.0, random, ..Draw::GREEDY },
        2 => Draw { temperature: 0.7, top_k: 10, random, ..Draw::GREEDY },
        3 => Draw { temperature: 1.3, top_p: 0.9, random, ..Draw::GREEDY },
        4 => Draw { temperature: 1.0, min_p: 0.05, random, ..Draw::GREEDY },
        _ => Draw { temperature: 0.9, top_k: 40, top_p: 0.95, min_p: 0.01, random },
    };
    (0..count).map(|index| draw(index, random.uniform())).collect()
}

fn answers(subject: &mut Subject<'_>) -> Check {
    let setup = Setup::of(&[Op::Answer { logits: logits_val(), known: KNOWN }]);
    let mut device = Prepared::new((subject.make)(), &setup)?;
    let mut random = SplitMix64::new(61);
    for outputs in [1, 2, 5, 64, 150] {
        let numbers = random.normals(outputs * VOCAB as usize, 2.0);
        let mut batch = Batch::rows(7);
        for draw in draws(outputs, &mut random) {
            let want = match random.below(3) {
                0 => Want::Choose(draw),
                1 => Want::Score(random.below(VOCAB)),
                _ => Want::Logits,
            };
            batch = batch.wanting(random.below(7), want);
        }
        let given = device.answers(&batch, &[(logits_val(), numbers.clone())])?;
        check_answers(&batch, &given, &numbers)?;
    }
    Ok(())
}

/// Compares answers with what the host makes of the same logits, one row an output.
fn check_answers(batch: &Batch, given: &(Vec<Answer>, Vec<f32>), logits: &[f32]) -> Check {
    let rows = logits.chunks_exact(VOCAB as usize);
    for (index, ((output, answer), row)) in batch.outputs.iter().zip(&given.0).zip(rows).enumerate() {
        let fault = |what: String| Err(format!("output {index}, {:?}: {what}", output.want));
        match (output.want, answer) {
            (Want::Choose(draw), Answer::Token(token)) => {
                let needed = draw.token(&row[..KNOWN as usize], &mut Candidates::default());
                if *token != needed {
                    return fault(format!("token {token}, needed {needed}"));
                }
            }
            (Want::Score(token), Answer::Score(score)) => {
                let needed = log_probability(row, token);
                let error = f64::from((score - needed).abs());
                if error.is_nan() || error > EXACT * f64::from(needed.abs().max(1.0)) {
                    return fault(format!("score {score}, needed {needed}"));
                }
            }
            (Want::Logits, Answer::Logits(at)) => {
                let start = (*at * VOCAB) as usize;
                let found = given.1.get(start..start + VOCAB as usize).unwrap_or_default();
                same_bits(found, row, VOCAB as usize).or_else(fault)?;
            }
            (_, other) => return fault(format!("the answer is {other:?}")),
        }
    }
    Ok(())
}

fn unknown_ids(subject: &mut Subject<'_>) -> Check {
    let setup = Setup::of(&[Op::Answer { logits: logits_val(), known: KNOWN }]);
    let mut device = Prepared::new((subject.make)(), &setup)?;
    let mut random = SplitMix64::new(62);
    // The unknown ids have by far the largest logits.
    let row = |random: &mut SplitMix64| {
        let mut row = random.normals(VOCAB as usize, 1.0);
        row[KNOWN as usize..].fill(30.0);
        row
    };
    let numbers: Vec<f32> = (0..60).flat_map(|_| row(&mut random)).collect();
    let choices = draws(60, &mut random).into_iter().map(Want::Choose);
    let batch = choices.fold(Batch::rows(1), |batch, want| batch.wanting(0, want));
    let given = device.answers(&batch, &[(logits_val(), numbers.clone())])?;
    check_answers(&batch, &given, &numbers)
}

/// A whole model, prepared.
struct Model {
    device: Box<dyn Device>,
    id: ProgramId,
}

impl Model {
    fn new(subject: &mut Subject<'_>) -> Result<Model, String> {
        let sample = Sample::new(Architecture::Experts(Score::Hash { layer: 0 }), Format::F16);
        let setup = Setup::of_model(&sample.map_err(|error| error.to_string())?);
        let prepared = Prepared::new((subject.make)(), &setup)?;
        Ok(Model { id: prepared.id(), device: prepared.device })
    }

    /// Runs one step from beginning to end.
    fn run<T>(&mut self, batch: &Batch, take: impl Fn(Outcome<'_>) -> T) -> Result<T, String> {
        let ticket = self.device.submit(self.id, &batch.step()).map_err(said("submit"))?;
        self.device.wait(ticket).map(take).map_err(said("wait"))
    }

    fn logits(&mut self, batch: &Batch) -> Result<Vec<f32>, String> {
        self.run(batch, |outcome| outcome.logits.to_vec())
    }
}

fn prompt() -> Batch {
    Batch::default().and(&[PageId(3)], 0, &[5, 17, 80, 3, 3, 41])
}

fn answers_of_a_model(subject: &mut Subject<'_>) -> Check {
    let mut model = Model::new(subject)?;
    let mut random = SplitMix64::new(63);
    // Every row three times: drawn from, scored, and whole.
    let mut batch = prompt();
    for (row, draw) in (0..6).zip(draws(6, &mut random)) {
        let score = Want::Score(random.below(VOCAB));
        batch = batch.wanting(row, Want::Choose(draw)).wanting(row, score).wanting(row, Want::Logits);
    }
    let given = model.run(&batch, |outcome| (outcome.answers.to_vec(), outcome.logits.to_vec()))?;
    if given.1.len() != 6 * VOCAB as usize {
        return Err(format!("{} logits of six rows", given.1.len()));
    }
    let rows = given.1.chunks_exact(VOCAB as usize);
    let thrice: Vec<f32> = rows.flat_map(|row| [row, row, row].concat()).collect();
    check_answers(&batch, &given, &thrice)
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
    super::trial::same_rows(&got, &want, VOCAB as usize, super::models::MODEL_TOLERANCE)
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
    match device.prepare(program, &Options { size: SIZE, keep_all: false }) {
        Ok(_) => Err("a program was prepared without one of its weights".into()),
        Err(_) => Ok(()),
    }
}
