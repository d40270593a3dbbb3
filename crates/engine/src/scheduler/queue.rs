//! Who runs: beginning, yielding, and ending before the end.

use std::time::Instant;

use super::{Emit, Job, Scheduler};
use crate::request::{Event, Finish};
use crate::sharing::Prospects;
use crate::{Error, Result};

impl Scheduler {
    /// Puts an answer among those that wait, at its place.
    pub(super) fn wait(&mut self, job: Box<Job>) {
        let place = self.waiting.partition_point(|other| other.rank < job.rank);
        self.waiting.insert(place, job);
    }

    /// Gives each running answer the pages for all of its tokens. Where there is none left the last one yields.
    pub(super) fn grow(&mut self) -> Result<()> {
        let mut index = 0;
        while let Some(job) = self.running.get_mut(index) {
            let tokens = job.sequence.tokens().len() as u32;
            match self.engine.make_room(&mut job.sequence, tokens) {
                Ok(()) => index += 1,
                Err(Error::OutOfPages { .. }) => self.yield_last(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Begins answers in their order, as long as there are slots and pages. One that is before its time behind
    /// those that run (its class is ahead of theirs) makes them yield.
    pub(super) fn begin_waiting(&mut self) -> Result<()> {
        let mut index = 0;
        while let Some(job) = self.waiting.get_mut(index) {
            let most = job.may_be_cached();
            let prospects = self.engine.prospects(&mut job.sequence, most);
            let rank = job.rank;
            if self.an_older_one_computes(index, &prospects) {
                index += 1;
            } else if self.fits(&prospects) {
                self.begin(index, prospects.ready)?;
            } else if self.running.last().is_some_and(|last| rank < last.rank) {
                self.yield_last();
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Whether a running answer before this one is about to compute the next page that this one needs.
    fn an_older_one_computes(&self, waiting: usize, prospects: &Prospects) -> bool {
        let Some((index, page)) = prospects.promised else { return false };
        let rank = self.waiting[waiting].rank;
        self.running.iter().any(|other| other.rank < rank && other.sequence.pages.get(index) == Some(&page))
    }

    /// Whether there are a slot and pages for one more. Each answer that runs may need one more page soon, and should
    /// not have to take it from the one that has just begun.
    fn fits(&self, prospects: &Prospects) -> bool {
        let running = self.running.len();
        running < self.engine.limits().sequences as usize
            && prospects.needs + running <= self.engine.available_pages()
    }

    fn begin(&mut self, waiting: usize, ready: usize) -> Result<()> {
        self.engine.admit(&mut self.waiting[waiting].sequence, ready)?;
        let mut job = self.waiting.remove(waiting);
        self.counts.prefix_tokens += job.sequence.tokens().len() as u64;
        self.counts.prefix_hits += u64::from(job.sequence.cached());
        if job.begun.is_none() {
            job.begun = Some(Instant::now());
            job.cached_tokens = job.sequence.cached() as usize;
        }
        let place = self.running.partition_point(|other| other.rank < job.rank);
        self.running.insert(place, job);
        Ok(())
    }

    /// The last one running gives back all it holds and waits.
    fn yield_last(&mut self) {
        if let Some(mut job) = self.running.pop() {
            self.engine.release(&mut job.sequence);
            job.preemptions += 1;
            self.counts.preemptions += 1;
            self.wait(job);
        }
    }

    /// Ends the answers that `which` picks.
    pub(super) fn end_where(&mut self, finish: Finish, which: &dyn Fn(&Job) -> bool, emit: &mut Emit<'_>) {
        for list in [&mut self.running, &mut self.waiting] {
            list.retain_mut(|job| {
                let end = which(job);
                if end {
                    self.engine.release(&mut job.sequence);
                    self.scratch.text.clear();
                    job.reply.finish(&mut self.scratch.text);
                    emit(job.id, Event::Finished { text: &self.scratch.text, report: job.report(finish) });
                }
                !end
            });
        }
    }
}
