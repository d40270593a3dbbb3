//! Windows of known tokens.

use engine::Limits;
use engine::score::{Window, log_probabilities, logits};
use program::draw::log_probability;

use crate::{assert_idle, engine, fake};

fn tokens() -> Vec<u32> {
    (0..131).map(|token| token * 7 % fake::VOCAB).collect()
}

#[test]
fn log_probabilities_are_those_of_the_next_tokens_and_independent_of_the_chunk() {
    let tokens = tokens();
    let mut want = Vec::new();
    let window = Window { tokens: &tokens, first: 0 };
    let mut next = tokens[1..].iter();
    logits(&mut engine(Limits::one_window(130, 130)), window, &mut |row| {
        want.push(log_probability(row, *next.next().unwrap()));
    })
    .unwrap();
    assert_eq!(want.len(), 130);
    for chunk in [1, 7, 64, 65, 130] {
        let mut engine = engine(Limits::one_window(130, chunk));
        let mut got = Vec::new();
        log_probabilities(&mut engine, window, &mut |score| got.push(score)).unwrap();
        assert_eq!(got, want, "chunks of {chunk}");
        assert_idle(&engine);
    }
}

#[test]
fn rows_before_the_first_that_counts_are_read_and_not_scored() {
    let tokens = tokens();
    let mut engine = engine(Limits::one_window(130, 50));
    let mut all = Vec::new();
    log_probabilities(&mut engine, Window { tokens: &tokens, first: 0 }, &mut |score| all.push(score))
        .unwrap();
    let mut last = Vec::new();
    let window = Window { tokens: &tokens, first: 101 };
    log_probabilities(&mut engine, window, &mut |score| last.push(score)).unwrap();
    assert_eq!(last, all[101..]);
    let mut rows = 0;
    logits(&mut engine, window, &mut |_| rows += 1).unwrap();
    assert_eq!(rows, 29);
}

#[test]
fn a_window_longer_than_the_context_is_refused() {
    let tokens = tokens();
    let mut engine = engine(Limits::one_window(129, 129));
    let window = Window { tokens: &tokens, first: 0 };
    assert!(log_probabilities(&mut engine, window, &mut |_| {}).is_err());
    assert_idle(&engine);
}
