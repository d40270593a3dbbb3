//! Row invariance of the cpu device as the engine uses it: a row's bits do not depend on the other rows
//! of its steps, nor on how its sequence came there.

use std::ops::Range;

use engine::score::{Window, logits};
use engine::{Engine, Limits, Part, Sequence};
use program::random::SplitMix64;
use program::{Format, Output, Want};

use crate::{cpu, engine, quantised, shipped};

/// Random tokens that the model knows.
fn tokens(count: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| random.below(8192)).collect()
}

/// The bits of the logits after each token but the last.
fn rows(engine: &mut Engine, tokens: &[u32]) -> Vec<Vec<u32>> {
    let mut rows = Vec::new();
    logits(engine, Window { tokens, first: 0 }, &mut |row| rows.push(bits(row))).unwrap();
    rows
}

/// One window of 200 tokens in chunks, with nothing in use that rounds otherwise for other rows.
fn deterministic(chunk: u32) -> Limits {
    Limits { deterministic: true, ..Limits::one_window(200, chunk) }
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|logit| logit.to_bits()).collect()
}

#[test]
fn chunks_of_any_size_give_the_same_bits_as_one_go_in_every_cache_format() {
    let tokens = tokens(201, 1);
    for cache in [Format::F16, quantised(8), quantised(6), quantised(4)] {
        let whole = rows(&mut engine(&shipped(), cache, cpu(), deterministic(200)), &tokens);
        for chunk in [1, 7, 64, 65] {
            let mut engine = engine(&shipped(), cache, cpu(), deterministic(chunk));
            assert!(rows(&mut engine, &tokens) == whole, "chunks of {chunk}, {cache:?}");
        }
    }
}

/// A sequence under way and the rows that it should give.
struct Expected {
    sequence: Sequence,
    rows: Vec<Vec<u32>>,
}

/// Feeds up to so many rows of each sequence in one step, and panics unless every row is as expected.
fn step(engine: &mut Engine, all: &mut [Expected], counts: &[u32]) {
    let fed: Vec<Range<u32>> = all
        .iter()
        .zip(counts)
        .map(|(one, count)| {
            let start = one.sequence.cached();
            start..start + (*count).min(one.sequence.waiting())
        })
        .collect();
    let outputs: Vec<Vec<Output>> = fed
        .iter()
        .map(|fed| (0..fed.len() as u32).map(|row| Output { row, want: Want::Logits }).collect())
        .collect();
    let mut parts: Vec<Part<'_>> = all
        .iter_mut()
        .zip(&outputs)
        .filter(|(_, outputs)| !outputs.is_empty())
        .map(|(one, outputs)| Part { sequence: &mut one.sequence, rows: outputs.len() as u32, outputs })
        .collect();
    let outcome = engine.step(&mut parts).unwrap();
    let mut got = (0..outcome.answers.len()).map(|output| bits(outcome.logits(output).unwrap()));
    for (number, (one, fed)) in all.iter().zip(fed).enumerate() {
        for row in fed {
            assert!(got.next().as_ref() == Some(&one.rows[row as usize]), "row {row} of sequence {number}");
        }
    }
}

#[test]
fn sequences_of_different_lengths_in_one_step_give_the_same_bits_as_alone() {
    let texts = [tokens(131, 2), tokens(66, 3), tokens(8, 4), tokens(3, 5)];
    let mut alone = engine(&shipped(), Format::F16, cpu(), deterministic(200));
    let limits =
        Limits { context: 200, sequences: 4, pages: 12, chunk: 200, outputs: 200, deterministic: true };
    let mut together = engine(&shipped(), Format::F16, cpu(), limits);
    // Pages and slots that another sequence used before, and not in order.
    let mut before: Vec<Sequence> = (0..3).map(|_| together.open(&tokens(100, 6)).unwrap()).collect();
    for sequence in &mut before {
        together.step(&mut [Part { sequence, rows: 100, outputs: &[] }]).unwrap();
    }
    before.into_iter().for_each(|sequence| together.close(sequence));

    let mut all: Vec<Expected> = texts
        .iter()
        .map(|text| Expected {
            sequence: together.open(&text[..text.len() - 1]).unwrap(),
            rows: rows(&mut alone, text),
        })
        .collect();
    // A prompt by itself, single rows beside prompts, several prompts at once, then single rows.
    for counts in [[63, 0, 0, 0], [1, 64, 0, 0], [1, 1, 5, 0], [60, 0, 1, 2], [1, 0, 1, 0], [200, 0, 0, 0]] {
        step(&mut together, &mut all, &counts);
    }
    assert!(all.iter().all(|one| one.sequence.waiting() == 0));
}
