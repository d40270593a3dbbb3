//! One answer under way, running or waiting.

use std::ops::Range;
use std::time::{Duration, Instant};

use program::{Output, Want};

use crate::request::{Finish, Report, SampleId};
use crate::{Reply, Sequence};

/// Who goes first: the lower one. No two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The number, moved back by its class.
    pub(super) place: u64,
    /// The how-manieth answer asked for it is.
    pub(super) number: u64,
}

/// One answer under way. What it keeps on the host outlives a preemption; what its sequence holds on the device does
/// not.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: SampleId,
    pub(super) rank: Rank,
    pub(super) sequence: Sequence,
    pub(super) reply: Reply,
    /// Tokens of the prompt, and the most of the answer.
    pub(super) prompt: usize,
    pub(super) max_tokens: usize,
    /// How many of the most probable tokens go with each token drawn, and with each of the prompt.
    pub(super) top: Option<u32>,
    pub(super) prompt_top: Option<u32>,
    /// Tokens of the prompt whose log-probabilities have been told; the first has none.
    pub(super) scored: usize,
    pub(super) deadline: Option<Instant>,
    pub(super) taken_back: usize,
    pub(super) preemptions: u32,
    /// Tokens that were cached already when it first began.
    pub(super) cached_tokens: usize,
    pub(super) submitted: Instant,
    pub(super) begun: Option<Instant>,
    pub(super) first_drawn: Option<Instant>,
}

impl Job {
    /// Up to how many of its tokens it can take as cached: one must be fed to draw from, and the log-probability of a
    /// prompt's token comes from the row before it.
    pub(super) fn may_be_cached(&self) -> usize {
        let all_but_one = self.sequence.tokens().len() - 1;
        match self.prompt_top {
            Some(_) if self.scored < self.prompt => all_but_one.min(self.scored - 1),
            _ => all_but_one,
        }
    }

    /// Of its next `rows` rows, those that tell the log-probability of the prompt's token after them.
    pub(super) fn scored_rows(&self, rows: u32) -> Range<u32> {
        let cached = self.sequence.cached() as usize;
        match self.prompt_top {
            Some(_) if self.scored < self.prompt => {
                let first = (self.scored - 1).saturating_sub(cached).min(rows as usize);
                let end = (self.prompt - 1).saturating_sub(cached).min(rows as usize);
                first as u32..end.max(first) as u32
            }
            _ => 0..0,
        }
    }

    /// Whether a token is drawn after its next `rows` rows.
    pub(super) fn draws_after(&self, rows: u32) -> bool {
        rows == self.sequence.waiting() && self.max_tokens > 0
    }

    /// Appends what it wants of its next `rows` rows.
    pub(super) fn outputs(&self, rows: u32, outputs: &mut Vec<Output>) {
        let cached = self.sequence.cached() as usize;
        outputs.extend(self.scored_rows(rows).map(|row| {
            let token = self.sequence.tokens()[cached + row as usize + 1];
            let want = if self.prompt_top == Some(0) { Want::Score(token) } else { Want::Logits };
            Output { row, want }
        }));
        if self.draws_after(rows) {
            let want = if self.top.is_some() { Want::Logits } else { self.reply.want() };
            outputs.push(Output { row: rows - 1, want });
        }
    }

    /// What came of it, if it ends now.
    pub(super) fn report(&self, finish: Finish) -> Report {
        let now = Instant::now();
        let begun = self.begun.unwrap_or(now);
        let first_drawn = self.first_drawn.unwrap_or(now);
        Report {
            finish,
            prompt_tokens: self.prompt,
            cached_tokens: self.cached_tokens,
            tokens: self.reply.tokens(),
            taken_back: self.taken_back,
            preemptions: self.preemptions,
            queue_time: begun - self.submitted,
            prompt_time: if self.begun.is_some() { first_drawn - begun } else { Duration::ZERO },
            answer_time: now - first_drawn,
        }
    }
}
