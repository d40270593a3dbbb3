//! What comes of each output: a drawn token, a log-probability, logits.

use super::batch::Batch;
use super::prepared::{Prepared, Setup};
use super::sample::{KNOWN, VOCAB};
use super::steps::{Model, prompt};
use super::trial::{Subject, same_bits};
use super::{Case, Check, EXACT};
use crate::draw::{Candidates, log_probability};
use crate::random::SplitMix64;
use crate::{Answer, Draw, Op, Role, Rows, Val, Want};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("answer: tokens, log-probabilities and logits as asked for", answers),
        Case::new("answer: ids that the tokenizer does not know are never drawn", unknown_ids),
        Case::new("answer: what a model gives belongs to its own logits", answers_of_a_model),
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
