//! The thread pool: one fork and join a phase, tasks handed out by a counter.
//!
//! [`Pool::run`] offers a job to all workers and takes part in it itself. Whoever is free takes the next
//! task by adding one to a counter, so that nobody waits for a slow neighbour and nothing is allocated. A
//! worker that finishes looks for the next job for some microseconds and then goes to sleep; a job does not
//! wait for sleepers, they join it when they wake, if it is still open.
//!
//! The state of a job is one number: whether it is open, and how many workers are inside. A worker enters
//! only while it is open; the owner closes it when all tasks are taken, and then waits for the last worker
//! to leave. So no worker looks at a job whose owner has moved on.

use std::any::Any;
use std::cell::UnsafeCell;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

/// How often a thread looks for what it waits for without lending its core to others: some 10 us, longer than
/// from one phase of a step to the next.
const LOOKS: u32 = 200;

/// How often an idle worker then lends its core and looks again, before it sleeps: some 50 us if nobody
/// wants the core.
const LOANS: u32 = 100;

const OPEN: usize = 1;
const ONE_INSIDE: usize = 2;

/// What a job does: given the index of a task and that of the thread, 0 for the job's owner.
type Work<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// A fixed set of threads that work on one job at a time.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Clone, Copy)]
struct Job {
    work: *const Work<'static>,
    tasks: usize,
}

struct Shared {
    /// Written by the owner while nobody is inside, read by those inside.
    job: UnsafeCell<Option<Job>>,
    /// `OPEN`, plus `ONE_INSIDE` for each worker inside.
    state: AtomicUsize,
    /// The next task to be taken.
    next: AtomicUsize,
    /// Counts jobs, so that workers notice a new one.
    jobs: AtomicUsize,
    /// One a worker: whether it sleeps or is about to.
    asleep: Box<[AtomicBool]>,
    /// Whether a worker panicked in this job.
    panicked: AtomicBool,
    /// The first panic of a worker, until the owner has taken it.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    ended: AtomicBool,
}

// SAFETY: `job` is the only part that is not Sync by itself. It is written while `state` is 0, that is, while
// no worker is inside, and read by workers inside only; entering and leaving synchronise through `state`. What
// it points to is Sync.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is used by whichever thread is inside.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool of `threads`, of which the caller of [`Pool::run`] is one.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub(crate) fn new(threads: NonZero<usize>) -> io::Result<Pool> {
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            state: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            jobs: AtomicUsize::new(0),
            asleep: (1..threads.get()).map(|_| AtomicBool::new(false)).collect(),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
            ended: AtomicBool::new(false),
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
    /// done. No two calls with the same `thread`, which is below [`Pool::threads`], overlap in time.
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
        // SAFETY: this only lets the pointer forget a lifetime. It is dereferenced by workers inside the job,
        // and this call does not end, by a panic either, before the last of them has left.
        let work: *const Work<'static> = unsafe { std::mem::transmute(work) };
        // SAFETY: `state` is 0 here, so that no worker is inside, and `&mut self` keeps other owners away.
        unsafe { *shared.job.get() = Some(Job { work, tasks }) };
        shared.next.store(0, Ordering::Relaxed);
        shared.state.store(OPEN, Ordering::Release);
        shared.jobs.fetch_add(1, Ordering::SeqCst);
        self.wake();
        let own = catch_unwind(AssertUnwindSafe(|| shared.take_tasks(Job { work, tasks }, 0)));
        if own.is_err() {
            shared.next.store(tasks, Ordering::Relaxed);
        }
        shared.close();
        let others = if shared.panicked.swap(false, Ordering::Relaxed) {
            shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
        } else {
            None
        };
        if let Some(panic) = own.err().or(others) {
            resume_unwind(panic);
        }
    }

    fn wake(&self) {
        for (asleep, worker) in self.shared.asleep.iter().zip(&self.workers) {
            if asleep.load(Ordering::SeqCst) {
                asleep.store(false, Ordering::SeqCst);
                worker.thread().unpark();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.jobs.fetch_add(1, Ordering::SeqCst);
        self.wake();
        for worker in self.workers.drain(..) {
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
            seen = self.next_job(thread, seen);
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
            let Some(job) = self.enter() else { continue };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_tasks(job, thread))) {
                self.next.store(job.tasks, Ordering::Relaxed);
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
                // Seen by the owner, which waits until this worker has left.
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.state.fetch_sub(ONE_INSIDE, Ordering::Release);
        }
    }

    /// Waits until more jobs have begun than `seen`, and gives their number.
    fn next_job(&self, thread: usize, seen: usize) -> usize {
        for look in 0..LOOKS + LOANS {
            let jobs = self.jobs.load(Ordering::Acquire);
            if jobs != seen {
                return jobs;
            }
            wait_a_little(look);
        }
        let asleep = &self.asleep[thread - 1];
        loop {
            // Said before looking once more: an owner either sees it and wakes this thread, or began its job
            // early enough to be seen here.
            asleep.store(true, Ordering::SeqCst);
            let jobs = self.jobs.load(Ordering::SeqCst);
            if jobs != seen {
                asleep.store(false, Ordering::SeqCst);
                return jobs;
            }
            thread::park();
        }
    }

    /// Enters the job, unless it is closed already.
    fn enter(&self) -> Option<Job> {
        let one_more = |state| (state & OPEN != 0).then_some(state + ONE_INSIDE);
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).ok()?;
        // SAFETY: this worker is inside, so that the owner does not write `job` until it leaves; the owner
        // wrote it before it opened the job.
        unsafe { *self.job.get() }
    }

    fn take_tasks(&self, job: Job, thread: usize) {
        // SAFETY: the caller is the owner or inside, and until both have gone the work is alive.
        let work = unsafe { &*job.work };
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= job.tasks {
                return;
            }
            work(task, thread);
        }
    }

    /// Lets nobody in any more and waits for those inside.
    fn close(&self) {
        let mut look = 0;
        let mut state = self.state.fetch_and(!OPEN, Ordering::Acquire) & !OPEN;
        while state != 0 {
            wait_a_little(look);
            look = look.saturating_add(1);
            state = self.state.load(Ordering::Acquire);
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
