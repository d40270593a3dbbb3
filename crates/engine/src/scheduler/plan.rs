//! What goes into a step.

use super::Scheduler;

/// What a running answer does in a step.
#[derive(Debug)]
pub(super) struct Turn {
    /// Rows of it; none if the step had no room.
    pub(super) rows: u32,
    /// Which output of the step is its first.
    pub(super) output: usize,
    /// What comes of it.
    pub(super) after: After,
}

/// What is to be done for an answer after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing more.
    GoOn,
    /// It has one more token.
    Append(u32),
    /// It has only so many tokens, prompt included.
    GoBack { length: usize },
    /// It is at its end.
    End,
    /// It failed, and nothing that it cached is to be used.
    Fail,
}

impl Scheduler {
    /// Puts a step together: one row of each answer that has no more, then prompts in order as far as there is room.
    /// Every answer has a slot and pages, and there is a row and an output for each.
    pub(super) fn plan(&mut self) {
        let Scheduler { engine, running, turns, scratch, .. } = self;
        let limits = engine.limits();
        let mut rows = limits.chunk;
        turns.clear();
        for job in &*running {
            let single = u32::from(job.sequence.waiting() == 1);
            rows -= single;
            turns.push(Turn { rows: single, output: 0, after: After::GoOn });
        }
        // Each answer has one output to itself; the others go to prompts whose log-probabilities are asked for.
        let mut spare = limits.outputs - running.len() as u32;
        let mut outputs = 0;
        engine.begin();
        for (job, turn) in running.iter().zip(turns) {
            if turn.rows == 0 {
                turn.rows = job.sequence.waiting().min(rows);
                let scored = job.scored_rows(turn.rows);
                if !scored.is_empty() {
                    turn.rows = turn.rows.min(scored.start + spare + 1);
                }
                rows -= turn.rows;
            }
            if turn.rows == 0 {
                continue;
            }
            scratch.outputs.clear();
            job.outputs(turn.rows, &mut scratch.outputs);
            turn.output = outputs;
            outputs += scratch.outputs.len();
            spare -= (scratch.outputs.len() as u32).saturating_sub(1);
            engine.add(&job.sequence, turn.rows, &scratch.outputs);
        }
    }
}
