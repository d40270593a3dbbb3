//! The thread pool: one fork and join a phase, tasks handed out by a counter.
//!
//! [`Pool::run`] offers a job to all workers and takes part in it itself. Whoever is free takes the next
//! task by adding one to a counter, so that nobody waits for a slow neighbour and nothing is allocated. A
//! worker that finds no task looks for the next job for about a millisecond, which is longer than from one
//! step of a text to the next, and then goes to sleep; a job does not wait for sleepers, they join it when
//! they wake, if it has tasks left.
//!
//! The counter's word also says which job it counts for and how many tasks that has ([`Ticket`]). Whoever
//! added to it therefore knows, without looking at anything else, whether the task is one of the job under
//! way, and the owner does not go on before it is done. So a worker that comes late takes nothing of a job
//! that has ended and looks at nothing that its owner may have changed.

use std::any::Any;
use std::cell::UnsafeCell;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

/// How often a thread looks for what it waits for without lending its core to others: some 30 us, longer than
/// one thread works alone between two phases of a step.
const LOOKS: u32 = 1_000;

/// How often an idle worker then lends its core and looks again, before it sleeps: about a millisecond if
/// nobody wants the core.
const LOANS: u32 = 3_000;

/// What a job does: given the index of a task and that of the thread, 0 for the job's owner.
type Work<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// A fixed set of threads that work on one job at a time.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// The next task of a job: in 16 bits the job's number, in 24 its number of tasks, in 24 how often somebody
/// asked for a task of it. Each worker asks once too often, so that the count ends long before it overflows.
#[derive(Clone, Copy)]
struct Ticket(u64);

impl Ticket {
    const MOST_TASKS: usize = 1 << 23;

    fn first(job: u16, tasks: usize) -> Ticket {
        assert!(tasks < Ticket::MOST_TASKS, "{tasks} tasks in one job");
        Ticket(u64::from(job) << 48 | (tasks as u64) << 24)
    }

    fn job(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The task that this ticket is for, if the job has so many.
    fn task(self) -> Option<usize> {
        let (tasks, next) = (self.0 >> 24 & 0xFF_FFFF, self.0 & 0xFF_FFFF);
        (next < tasks).then_some(next as usize)
    }
}

/// Something that no other thread's data shares a cache line with, nor the line fetched along with it.
#[repr(align(128))]
struct Apart<T>(T);

struct Shared {
    offer: Apart<Offer>,
    /// Tasks of the job that are done.
    done: Apart<AtomicUsize>,
    rest: Apart<Rest>,
}

/// What a thread needs to take a task.
struct Offer {
    ticket: AtomicU64,
    /// Written by the owner while no task is under way, read by those who have taken one.
    work: UnsafeCell<Option<*const Work<'static>>>,
}

/// What is rarely written.
struct Rest {
    /// Workers that sleep or are about to.
    sleepers: AtomicUsize,
    /// One a worker: whether it is one of those.
    asleep: Box<[AtomicBool]>,
    /// Whether a task of the job panicked; the tasks after it are left out.
    panicked: AtomicBool,
    /// The first panic of a job, until the owner has taken it.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    ended: AtomicBool,
}

// SAFETY: `work` is the only part that is not Sync by itself. It is written while no task is taken and not
// done, and read by threads that have taken one; taking a task and counting it as done synchronise through
// `ticket` and `done`. What it points to is Sync.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is used by whichever thread has taken a task.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool of `threads`, of which the caller of [`Pool::run`] is one.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub(crate) fn new(threads: NonZero<usize>) -> io::Result<Pool> {
        let shared = Arc::new(Shared {
            offer: Apart(Offer {
                ticket: AtomicU64::new(Ticket::first(0, 0).0),
                work: UnsafeCell::new(None),
            }),
            done: Apart(AtomicUsize::new(0)),
            rest: Apart(Rest {
                sleepers: AtomicUsize::new(0),
                asleep: (1..threads.get()).map(|_| AtomicBool::new(false)).collect(),
                panicked: AtomicBool::new(false),
                panic: Mutex::new(None),
                ended: AtomicBool::new(false),
            }),
        });
        let mut pool = Pool { shared, workers: Vec::new() };
        // A thread allocates while it starts, and a step must not: all are waited for.
        let (started, starts) = mpsc::channel();
        for thread in 1..threads.get() {
            let (shared, started) = (Arc::clone(&pool.shared), started.clone());
            let worker = thread::Builder::new().name(format!("billfish-{thread}"));
            pool.workers.push(worker.spawn(move || {
                drop(started);
                shared.serve(thread);
            })?);
        }
        drop(started);
        // Nothing is ever sent; this ends when the last worker has dropped its end.
        let _ = starts.recv() as Result<(), _>;
        Ok(pool)
    }

    /// How many threads work on a job.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `work(task, thread)` once for each task in `0..tasks`, on all threads, and returns when all are
    /// done. No two calls with the same `thread`, which is below [`Pool::threads`], overlap in time. One task
    /// alone is done by the caller, without a word to the others.
    ///
    /// # Panics
    /// If a task panics, with that task's panic, once no thread works on the job any more.
    pub(crate) fn run(&mut self, tasks: usize, work: &Work<'_>) {
        if tasks <= 1 || self.workers.is_empty() {
            (0..tasks).for_each(|task| work(task, 0));
            return;
        }
        let shared = &*self.shared;
        let work: *const Work<'_> = work;
        // SAFETY: this only lets the pointer forget a lifetime. It is dereferenced by threads that have taken
        // a task, and this call does not end, by a panic either, before all tasks are done.
        let work: *const Work<'static> = unsafe { std::mem::transmute(work) };
        // SAFETY: all tasks of all jobs are done here, and `&mut self` keeps other owners away.
        unsafe { *shared.offer.0.work.get() = Some(work) };
        shared.done.0.store(0, Ordering::Relaxed);
        self.offer(tasks);
        shared.take_tasks(0);
        let mut look = 0;
        while shared.done.0.load(Ordering::Acquire) != tasks {
            wait_a_little(look);
            look = look.saturating_add(1);
        }
        if shared.rest.0.panicked.swap(false, Ordering::Relaxed) {
            let panic = shared.rest.0.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        }
    }

    /// Opens a job, and wakes sleepers if it has a task for them.
    fn offer(&self, tasks: usize) {
        let Shared { offer, rest: Apart(rest), .. } = &*self.shared;
        let job = Ticket(offer.0.ticket.load(Ordering::Relaxed)).job().wrapping_add(1);
        offer.0.ticket.store(Ticket::first(job, tasks).0, Ordering::SeqCst);
        if rest.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        let sleepers = rest.asleep.iter().zip(&self.workers);
        let sleepers = sleepers.filter(|(asleep, _)| asleep.swap(false, Ordering::SeqCst));
        for (_, worker) in sleepers.take(tasks.saturating_sub(1)) {
            rest.sleepers.fetch_sub(1, Ordering::SeqCst);
            worker.thread().unpark();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.rest.0.ended.store(true, Ordering::SeqCst);
        self.offer(0);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches the panics of its tasks, so that it cannot have ended by one.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// The life of worker `thread`.
    fn serve(&self, thread: usize) {
        let mut seen = 0;
        loop {
            self.wait_for_a_job(thread, seen);
            // It may be a later job by now, the one that ends the pool as well: this is asked afterwards.
            seen = self.take_tasks(thread);
            if self.rest.0.ended.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Waits until another job than `seen` has begun.
    fn wait_for_a_job(&self, thread: usize, seen: u16) {
        let offered = |order| Ticket(self.offer.0.ticket.load(order)).job() != seen;
        for look in 0..LOOKS + LOANS {
            if offered(Ordering::Acquire) {
                return;
            }
            wait_a_little(look);
        }
        let Rest { sleepers, asleep, .. } = &self.rest.0;
        let asleep = &asleep[thread - 1];
        // Said before looking once more: an owner either sees it and wakes this thread, or began its job
        // early enough to be seen here. Whoever takes it back counts the sleeper out.
        sleepers.fetch_add(1, Ordering::SeqCst);
        asleep.store(true, Ordering::SeqCst);
        while !offered(Ordering::SeqCst) {
            thread::park();
        }
        if asleep.swap(false, Ordering::SeqCst) {
            sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Works on the job under way until all its tasks are taken, and gives its number.
    fn take_tasks(&self, thread: usize) -> u16 {
        let mut done = 0;
        loop {
            let ticket = Ticket(self.offer.0.ticket.fetch_add(1, Ordering::AcqRel));
            let Some(task) = ticket.task() else {
                if done > 0 {
                    self.done.0.fetch_add(done, Ordering::Release);
                }
                return ticket.job();
            };
            // SAFETY: a task was taken and is not done, so that the owner waits and neither writes `work` nor
            // ends what it points to; the owner wrote it before it offered the task.
            let work = unsafe { (*self.offer.0.work.get()).map(|work| &*work) };
            if let Some(work) = work
                && !self.rest.0.panicked.load(Ordering::Relaxed)
                && let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(task, thread)))
            {
                let mut first = self.rest.0.panic.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(panic);
                // Seen by the owner, who waits until this task is done.
                self.rest.0.panicked.store(true, Ordering::Relaxed);
            }
            done += 1;
        }
    }
}

/// What a thread does after it looked for the `look`-th time in vain.
fn wait_a_little(look: u32) {
    if look < LOOKS {
        std::hint::spin_loop();
    } else {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(threads: usize) -> Pool {
        Pool::new(NonZero::new(threads).unwrap()).unwrap()
    }

    #[test]
    fn every_task_is_done_once_whatever_the_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            let mut pool = pool(threads);
            assert_eq!(pool.threads(), threads);
            for tasks in [0, 1, 2, 3, 64, 1000] {
                let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(tasks, &|task, _| {
                    done[task].fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn calls_with_the_same_thread_index_never_overlap() {
        let mut pool = pool(4);
        let inside: Vec<AtomicBool> = (0..4).map(|_| AtomicBool::new(false)).collect();
        for _ in 0..200 {
            pool.run(50, &|_, thread| {
                assert!(!inside[thread].swap(true, Ordering::SeqCst));
                std::hint::spin_loop();
                inside[thread].store(false, Ordering::SeqCst);
            });
        }
    }

    #[test]
    fn a_pool_ends_whatever_its_workers_are_about_to_do() {
        for round in 0..500 {
            let mut pool = pool(3);
            for _ in 0..round % 3 {
                pool.run(2 + round % 5, &|_, _| std::hint::spin_loop());
            }
        }
    }

    #[test]
    fn a_job_after_a_long_pause_is_done_as_well() {
        let mut pool = pool(3);
        for _ in 0..3 {
            thread::sleep(std::time::Duration::from_millis(5));
            let sum = AtomicUsize::new(0);
            pool.run(10, &|task, _| {
                sum.fetch_add(task, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 45);
        }
    }

    #[test]
    fn what_a_job_wrote_is_seen_by_the_next_one() {
        let mut pool = pool(3);
        let cells: Vec<AtomicUsize> = (0..64).map(|_| AtomicUsize::new(0)).collect();
        for round in 0..2_000 {
            pool.run(64, &|task, _| {
                let neighbour = cells[(task + round) % 64].load(Ordering::Relaxed);
                assert!(neighbour == round || neighbour == round + 1);
                cells[task].store(round + 1, Ordering::Relaxed);
            });
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let mut pool = pool(3);
        for task_that_fails in [0, 17, 99] {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(100, &|task, _| assert!(task != task_that_fails, "task {task} failed"));
            }));
            let message = *result.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(message, format!("task {task_that_fails} failed"));
            let sum = AtomicUsize::new(0);
            pool.run(100, &|task, _| {
                sum.fetch_add(task, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 4_950);
        }
    }
}
