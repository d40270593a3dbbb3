//! Text that is known already: how probable each of its tokens is after those before it.

use program::{Answer, Outcome, Output, Want};

use crate::{Engine, Part, Result};

/// A window of known tokens. Row `i` reads token `i`, and predicts token `i + 1`.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The tokens read, and after them one that is predicted only: at least two.
    pub tokens: &'a [u32],
    /// The first row that counts; those before it are read as context.
    pub first: usize,
}

/// Calls `each` with the natural logarithm of the probability of every predicted token that counts, in
/// order. The window goes through the cache in chunks of [`Limits::chunk`](crate::Limits::chunk) rows.
///
/// # Errors
/// If the window is longer than the context, or the engine fails.
pub fn log_probabilities(engine: &mut Engine, window: Window<'_>, each: &mut dyn FnMut(f32)) -> Result<()> {
    let want = |row: usize| Want::Score(window.tokens[row + 1]);
    feed(engine, window, &want, &mut |outcome| {
        for answer in outcome.answers {
            if let Answer::Score(score) = answer {
                each(*score);
            }
        }
    })
}

/// Calls `each` with the logits of every row that counts, in order, and otherwise does the same.
///
/// # Errors
/// If the window is longer than the context, or the engine fails.
pub fn logits(engine: &mut Engine, window: Window<'_>, each: &mut dyn FnMut(&[f32])) -> Result<()> {
    feed(engine, window, &|_| Want::Logits, &mut |outcome| {
        (0..outcome.answers.len()).filter_map(|output| outcome.logits(output)).for_each(&mut *each);
    })
}

fn feed(
    engine: &mut Engine,
    window: Window<'_>,
    want: &dyn Fn(usize) -> Want,
    take: &mut dyn FnMut(Outcome<'_>),
) -> Result<()> {
    let inputs = window.tokens.len().saturating_sub(1);
    let mut sequence = engine.open(&window.tokens[..inputs])?;
    let mut outputs = Vec::with_capacity(engine.limits().chunk as usize);
    let mut result = Ok(());
    while result.is_ok() && sequence.waiting() > 0 {
        let start = sequence.cached() as usize;
        let rows = sequence.waiting().min(engine.limits().chunk);
        let counted = (0..rows).filter(|row| start + *row as usize >= window.first);
        outputs.clear();
        outputs.extend(counted.map(|row| Output { row, want: want(start + row as usize) }));
        result =
            engine.step(&mut [Part { sequence: &mut sequence, rows, outputs: &outputs }]).map(&mut *take);
    }
    engine.close(sequence);
    result
}
