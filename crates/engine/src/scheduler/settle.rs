//! What comes of a step: tokens, text, ends, and pages that others can use.

use std::time::Instant;

use program::draw::is_distribution;
use program::{Answer, Outcome};

use super::plan::{After, Turn};
use super::{Emit, Job, Scheduler, Scratch};
use crate::log_probabilities::log_probabilities;
use crate::reply::Next;
use crate::request::{Event, Finish, LogProbabilities};
use crate::sampling::TokenBytes;
use crate::{Error, Result};

impl Scheduler {
    /// Runs the step that was planned, and settles it.
    pub(super) fn run(&mut self, token_bytes: &TokenBytes<'_>, emit: &mut Emit<'_>) -> Result<()> {
        let Scheduler { engine, running, turns, scratch, counts, .. } = self;
        let (context, known) = (engine.limits().context as usize, engine.known());
        let start = Instant::now();
        let outcome = match engine.run() {
            Ok(outcome) => outcome,
            Err(error) => return Err(self.fail_all(error, emit)),
        };
        counts.device += start.elapsed();
        counts.steps += 1;
        let mut listener = Listener { outcome: &outcome, known, context, token_bytes, scratch, emit };
        for (job, turn) in running.iter_mut().zip(turns.iter_mut()).filter(|(_, turn)| turn.rows > 0) {
            turn.after = listener.settle(job, turn).unwrap_or_else(|error| {
                counts.failed += 1;
                (listener.emit)(job.id, Event::Failed(error));
                After::Fail
            });
            counts.rows += u64::from(turn.rows);
            counts.drawn += u64::from(job.draws_after(turn.rows));
        }
        self.advance();
        Ok(())
    }

    /// Moves the sequences on, and lets go of those at their end.
    fn advance(&mut self) {
        let Scheduler { engine, running, turns, .. } = self;
        let mut turns = turns.iter();
        running.retain_mut(|job| {
            let turn = turns.next().expect("each running answer has a turn");
            let sequence = &mut job.sequence;
            if turn.after == After::Fail {
                // Rows that are no numbers may be in any of its pages.
                engine.withdraw(sequence);
                engine.release(sequence);
                return false;
            }
            if turn.rows > 0 {
                engine.commit(sequence, turn.rows);
            }
            match turn.after {
                After::Append(token) => sequence.push(token),
                After::GoBack { length } => engine.truncate(sequence, length),
                After::End => engine.release(sequence),
                After::GoOn | After::Fail => {}
            }
            turn.after != After::End
        });
    }

    /// The step failed as a whole: so do all that took part in it.
    fn fail_all(&mut self, error: Error, emit: &mut Emit<'_>) -> Error {
        for (job, turn) in self.running.iter().zip(&mut self.turns).filter(|(_, turn)| turn.rows > 0) {
            self.counts.failed += 1;
            emit(job.id, Event::Failed(error.clone()));
            turn.after = After::Fail;
        }
        self.advance();
        error
    }
}

/// Who hears of what a step gave.
struct Listener<'a, 'emit, 'bytes> {
    outcome: &'a Outcome<'a>,
    /// Ids from here on are never drawn.
    known: u32,
    context: usize,
    token_bytes: &'a TokenBytes<'bytes>,
    scratch: &'a mut Scratch,
    emit: &'a mut Emit<'emit>,
}

impl Listener<'_, '_, '_> {
    /// Tells what an answer's rows gave, and says what is to be done.
    fn settle(&mut self, job: &mut Job, turn: &Turn) -> Result<After> {
        let mut output = turn.output;
        for row in job.scored_rows(turn.rows) {
            self.tell_prompt(job, job.sequence.cached() as usize + row as usize + 1, output)?;
            output += 1;
        }
        if job.draws_after(turn.rows) {
            return self.draw(job, output);
        }
        if turn.rows == job.sequence.waiting() {
            return Ok(self.end(job, Finish::Length));
        }
        Ok(After::GoOn)
    }

    /// Tells how probable the prompt's token at `place` was.
    fn tell_prompt(&mut self, job: &mut Job, place: usize, output: usize) -> Result<()> {
        let token = job.sequence.tokens()[place];
        let top = &mut self.scratch.top;
        top.clear();
        let score = match self.outcome.answers[output] {
            Answer::Score(score) => score,
            _ => match self.outcome.logits(output).filter(|logits| is_distribution(logits)) {
                Some(logits) => log_probabilities(logits, token, job.prompt_top.unwrap_or(0), top),
                None => f32::NAN,
            },
        };
        if score.is_nan() {
            return Err(Error::NotFinite { tokens: place as u32 });
        }
        let log_probabilities = LogProbabilities { token: score, top };
        (self.emit)(job.id, Event::Prompt { place, token, log_probabilities });
        job.scored = place + 1;
        Ok(())
    }

    /// Draws the next token of an answer.
    fn draw(&mut self, job: &mut Job, output: usize) -> Result<After> {
        let Scratch { text, top, draws, .. } = &mut *self.scratch;
        let tokens = job.sequence.tokens();
        let token = job.reply.token(tokens, self.known, (self.outcome, output), draws)?;
        job.first_drawn.get_or_insert_with(Instant::now);
        let probable = match (job.top, self.outcome.logits(output)) {
            (Some(count), Some(logits)) => Some(log_probabilities(logits, token, count, top)),
            _ => None,
        };
        text.clear();
        let next = job.reply.push(token, (self.token_bytes)(token), tokens, text);
        if let Next::Append | Next::AppendAndEnd(_) = next {
            let log_probabilities = probable.map(|token| LogProbabilities { token, top });
            (self.emit)(job.id, Event::Token { token, text, log_probabilities });
            text.clear();
        }
        Ok(match next {
            Next::Append if tokens.len() == self.context => self.end(job, Finish::Context),
            Next::Append => After::Append(token),
            Next::AppendAndEnd(finish) | Next::End(finish) => {
                (self.emit)(job.id, Event::Finished { text, report: job.report(finish) });
                After::End
            }
            Next::GoBack { length } => {
                job.taken_back += tokens.len() + 1 - length;
                if length < tokens.len() {
                    (self.emit)(job.id, Event::TakenBack { tokens: tokens.len() - length });
                }
                After::GoBack { length }
            }
        })
    }

    /// Ends an answer, and tells what text it held.
    fn end(&mut self, job: &mut Job, finish: Finish) -> After {
        let text = &mut self.scratch.text;
        text.clear();
        job.reply.finish(text);
        (self.emit)(job.id, Event::Finished { text, report: job.report(finish) });
        After::End
    }
}
