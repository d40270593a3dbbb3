//! Sequences that share steps, pages and slots, against the same sequences alone.

use engine::{Ending, Engine, Error, Limits, Part, Request, Sampling, Sequence};
use program::{Output, Want};
use proptest::prelude::*;

use crate::alone::{ask, scheduler};
use crate::{assert_idle, engine, fake};

const LIMITS: Limits =
    Limits { context: 300, sequences: 4, pages: 9, chunk: 120, outputs: 4, deterministic: false };

/// What happens next. Numbers that pick a sequence are taken modulo those that are open.
#[derive(Clone, Debug)]
enum Action {
    /// A sequence with this prompt begins, if there is a slot.
    Open(Vec<u32>),
    /// The picked sequences are fed up to this many rows each.
    Step(Vec<(usize, u32)>),
    /// The picked sequence ends.
    Close(usize),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let prompt = prop_oneof![
        prop::collection::vec(0..fake::VOCAB, 1..4),
        prop::collection::vec(0..fake::VOCAB, 60..68),
        prop::collection::vec(0..fake::VOCAB, 1..200),
    ];
    let rows = prop_oneof![Just(1u32), 1..30u32, 60..68u32, Just(120)];
    let action = prop_oneof![
        2 => prompt.prop_map(Action::Open),
        8 => prop::collection::vec((any::<usize>(), rows), 1..4).prop_map(Action::Step),
        1 => any::<usize>().prop_map(Action::Close),
    ];
    prop::collection::vec(action, 1..60)
}

/// An open sequence and how it began.
struct Open {
    sequence: Sequence,
    prompt: Vec<u32>,
    sampling: Sampling,
}

impl Open {
    /// The tokens that it drew so far.
    fn answer(&self) -> &[u32] {
        &self.sequence.tokens()[self.prompt.len()..]
    }

    /// What an engine of its own would draw in its place.
    fn alone(&self) -> Vec<u32> {
        let ending = Ending { max_tokens: self.answer().len(), ..Ending::default() };
        let request = Request::new(self.prompt.clone(), self.sampling.clone(), ending);
        ask(&mut scheduler(Limits::one_sequence(LIMITS.context)), &request).unwrap().tokens
    }
}

fn close(engine: &mut Engine, open: Open) {
    assert_eq!(open.answer(), open.alone());
    engine.close(open.sequence);
}

/// One step over the picked sequences, which draws a token for each one that has nothing left waiting.
fn step(engine: &mut Engine, all: &mut [Open], picks: &[(usize, u32)]) {
    let count = all.len();
    let mut room = LIMITS.chunk;
    let mut rows = vec![0; count];
    for (pick, wanted) in picks {
        let open = &all[pick % count];
        let left = LIMITS.context - open.sequence.cached();
        let fed = (*wanted).min(open.sequence.waiting()).min(left).min(room);
        if rows[pick % count] == 0 {
            rows[pick % count] = fed;
            room -= fed;
        }
    }
    let outputs: Vec<Option<Output>> = all
        .iter()
        .zip(&rows)
        .map(|(open, &rows)| {
            let last = rows > 0 && rows == open.sequence.waiting();
            let draw = open.sampling.draw(open.sequence.cached() + rows);
            last.then(|| Output { row: rows - 1, want: Want::Choose(draw) })
        })
        .collect();
    let mut parts: Vec<Part<'_>> = all
        .iter_mut()
        .zip(rows.iter().zip(&outputs))
        .filter(|(_, (rows, _))| **rows > 0)
        .map(|(open, (rows, output))| Part {
            sequence: &mut open.sequence,
            rows: *rows,
            outputs: output.as_slice(),
        })
        .collect();
    if parts.is_empty() {
        return;
    }
    let before: Vec<u32> = parts.iter().map(|part| part.sequence.cached()).collect();
    let tokens: Vec<Option<u32>> = match engine.step(&mut parts) {
        Ok(outcome) => (0..outcome.answers.len()).map(|output| outcome.token(output)).collect(),
        Err(Error::OutOfPages { needed, free }) => {
            assert!(needed > free);
            assert_eq!(before, parts.iter().map(|part| part.sequence.cached()).collect::<Vec<_>>());
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let drawing = all.iter_mut().zip(&outputs).filter(|(_, output)| output.is_some());
    for ((open, _), token) in drawing.zip(tokens) {
        open.sequence.push(token.unwrap());
    }
}

proptest! {
    #[test]
    fn sequences_that_share_steps_and_reuse_pages_draw_the_same_tokens_as_alone(actions in actions()) {
        let mut engine = engine(LIMITS);
        let mut all: Vec<Open> = Vec::new();
        for (seed, action) in actions.into_iter().enumerate() {
            match action {
                Action::Open(prompt) => match engine.open(&prompt) {
                    Ok(sequence) => {
                        let sampling = Sampling { temperature: 1.0, seed: seed as u64, ..Sampling::GREEDY };
                        all.push(Open { sequence, prompt, sampling });
                    }
                    Err(error) => {
                        prop_assert!(matches!(error, Error::OutOfSlots { slots: 4 }), "{error}");
                        prop_assert_eq!(all.len(), 4);
                    }
                },
                Action::Step(picks) if !all.is_empty() => step(&mut engine, &mut all, &picks),
                Action::Close(pick) if !all.is_empty() => {
                    let open = all.swap_remove(pick % all.len());
                    close(&mut engine, open);
                }
                Action::Step(_) | Action::Close(_) => {}
            }
        }
        for open in all {
            close(&mut engine, open);
        }
        assert_idle(&engine);
    }
}

#[test]
fn a_step_without_pages_left_fails_and_goes_through_once_a_sequence_is_closed() {
    let mut engine = engine(Limits { pages: 2, ..LIMITS });
    let mut first = engine.open(&[1; 64]).unwrap();
    let mut second = engine.open(&[2; 65]).unwrap();
    engine.step(&mut [Part { sequence: &mut first, rows: 64, outputs: &[] }]).unwrap();
    let refused = engine.step(&mut [Part { sequence: &mut second, rows: 65, outputs: &[] }]).unwrap_err();
    assert!(matches!(refused, Error::OutOfPages { needed: 2, free: 1 }), "{refused}");
    engine.close(first);
    engine.step(&mut [Part { sequence: &mut second, rows: 65, outputs: &[] }]).unwrap();
    assert_eq!((second.cached(), engine.available_pages()), (65, 0));
    engine.close(second);
    assert_idle(&engine);
}

#[test]
fn a_sequence_cannot_outgrow_its_context() {
    let mut engine = engine(Limits { context: 64, ..LIMITS });
    let mut sequence = engine.open(&[1; 65]).unwrap();
    let refused = engine.step(&mut [Part { sequence: &mut sequence, rows: 65, outputs: &[] }]).unwrap_err();
    assert!(matches!(refused, Error::ContextFull { needed: 65, context: 64 }), "{refused}");
    engine.close(sequence);
    assert_idle(&engine);
}
