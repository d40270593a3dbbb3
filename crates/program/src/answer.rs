//! Outcomes of devices that compute on the host: two steps may be under way, and each is answered from
//! its rows of logits.

use std::time::{Duration, Instant};

use crate::draw::{Candidates, is_distribution, log_probability};
use crate::{Answer, Error, Outcome, Output, Result, Ticket, Want};

/// What one step gave.
#[derive(Debug, Default)]
struct Given {
    answers: Vec<Answer>,
    logits: Vec<f32>,
    vocab: usize,
    times: Vec<Duration>,
}

/// The outcomes of the last two steps. Nothing is allocated between the calls that make room and the end.
#[derive(Debug, Default)]
pub struct Answers {
    given: [Given; 2],
    candidates: Candidates,
    submitted: u64,
    waited: u64,
    /// When the operation before this one ended, if operations are timed.
    clock: Option<Instant>,
}

impl Answers {
    /// Makes room for steps of up to `outputs` outputs over `vocab` logits, beside what there was room for
    /// before.
    pub fn reserve(&mut self, outputs: usize, vocab: usize) {
        for given in &mut self.given {
            given.answers.reserve(outputs.saturating_sub(given.answers.len()));
            given.logits.reserve((outputs * vocab).saturating_sub(given.logits.len()));
        }
        self.candidates.reserve(vocab);
    }

    /// Makes room for the times of steps of up to `operations` operations.
    pub fn reserve_times(&mut self, operations: usize) {
        for given in &mut self.given {
            given.times.reserve(operations.saturating_sub(given.times.len()));
        }
    }

    /// Opens the next step's outcome, empty.
    ///
    /// # Errors
    /// If two steps are under way already.
    pub fn submit(&mut self, device: &str) -> Result<Ticket> {
        if self.submitted - self.waited >= 2 {
            return Err(Error::Use {
                device: device.into(),
                what: "two steps are under way; wait for one first".into(),
            });
        }
        let ticket = Ticket(self.submitted);
        self.submitted += 1;
        let given = &mut self.given[(ticket.0 % 2) as usize];
        given.answers.clear();
        given.logits.clear();
        given.times.clear();
        Ok(ticket)
    }

    /// Takes back the step just opened: it failed.
    pub fn abandon(&mut self) {
        self.submitted -= 1;
    }

    /// The token drawn for output `output` of the step before the one opened last.
    pub fn previous(&self, output: u32) -> Option<u32> {
        let before = self.submitted.checked_sub(2)?;
        match self.given[(before % 2) as usize].answers.get(output as usize) {
            Some(Answer::Token(token)) => Some(*token),
            _ => None,
        }
    }

    /// Answers the outputs of the step opened last from their rows of `logits`, `vocab` numbers each, of
    /// which the first `known` can be drawn.
    pub fn answer(&mut self, outputs: &[Output], logits: &[f32], vocab: usize, known: usize) {
        let given = &mut self.given[((self.submitted + 1) % 2) as usize];
        given.vocab = vocab;
        for (output, row) in outputs.iter().zip(logits.chunks_exact(vocab)) {
            given.answers.push(match output.want {
                Want::Choose(draw) => match is_distribution(&row[..known]) {
                    true => Answer::Token(draw.token(&row[..known], &mut self.candidates)),
                    false => Answer::NotFinite,
                },
                Want::Score(token) => Answer::Score(log_probability(row, token)),
                Want::Logits => {
                    given.logits.extend_from_slice(row);
                    Answer::Logits((given.logits.len() / vocab - 1) as u32)
                }
            });
        }
    }

    /// Starts the clock over the operations of the step opened last; without `timing` it stays off.
    pub fn start_clock(&mut self, timing: bool) {
        self.clock = timing.then(Instant::now);
    }

    /// Says that the next operation has been run: what passed since the one before is its time.
    pub fn operation_done(&mut self) {
        if let Some(before) = &mut self.clock {
            let now = Instant::now();
            self.given[((self.submitted + 1) % 2) as usize].times.push(now - *before);
            *before = now;
        }
    }

    /// Hands over the outcome of the oldest step under way.
    ///
    /// # Errors
    /// If `ticket` is not that step's.
    pub fn wait(&mut self, ticket: &Ticket, device: &str) -> Result<Outcome<'_>> {
        if ticket.0 != self.waited || self.waited == self.submitted {
            let what = format!("step {} was waited for out of order, the next is {}", ticket.0, self.waited);
            return Err(Error::Use { device: device.into(), what });
        }
        self.waited += 1;
        let given = &self.given[(ticket.0 % 2) as usize];
        let Given { answers, logits, vocab, times } = given;
        Ok(Outcome { answers, logits, vocab: *vocab, times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draw;

    #[test]
    fn no_token_is_drawn_from_logits_that_make_no_distribution() {
        let choose = Output { row: 0, want: Want::Choose(Draw::GREEDY) };
        for (logits, answer) in [
            ([1.0, f32::NAN, 2.0], Answer::NotFinite),
            ([1.0, f32::INFINITY, 2.0], Answer::NotFinite),
            ([f32::NEG_INFINITY; 3], Answer::NotFinite),
            ([f32::NEG_INFINITY, 0.0, -1.0], Answer::Token(1)),
        ] {
            let mut answers = Answers::default();
            let ticket = answers.submit("test").unwrap();
            answers.answer(&[choose], &logits, 3, 3);
            assert_eq!(answers.wait(&ticket, "test").unwrap().answers, [answer]);
        }
    }

    #[test]
    fn two_steps_can_be_under_way_and_the_second_sees_the_token_of_the_first() {
        let mut answers = Answers::default();
        let choose = Output { row: 0, want: Want::Choose(Draw::GREEDY) };
        let first = answers.submit("test").unwrap();
        assert_eq!(answers.previous(0), None);
        answers.answer(&[choose], &[0.0, 2.0, 1.0], 3, 3);
        let second = answers.submit("test").unwrap();
        assert_eq!(answers.previous(0), Some(1));
        answers.answer(
            &[choose, Output { row: 1, want: Want::Logits }],
            &[3.0, 0.0, 9.0, 4.0, 5.0, 6.0],
            3,
            2,
        );
        assert!(answers.submit("test").is_err());
        assert!(answers.wait(&second, "test").is_err());
        assert_eq!(answers.wait(&first, "test").unwrap().token(0), Some(1));
        let outcome = answers.wait(&second, "test").unwrap();
        // Id 2 has the largest logit, but only two ids are known.
        assert_eq!(outcome.token(0), Some(0));
        assert_eq!(outcome.logits(1), Some(&[4.0, 5.0, 6.0][..]));
        assert_eq!(outcome.logits(0), None);
        assert!(answers.wait(&second, "test").is_err());
    }
}
