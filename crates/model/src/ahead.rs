//! Work done ahead on several threads, its results taken in order.
//!
//! Reading a weight is a matter of page faults, or of making its numbers up; taking it may be a copy to
//! another device. The two overlap, and neither gets far ahead of the other: what is read and not yet taken
//! is memory that nobody planned.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Threads that read; more of them wait for the same memory.
const MOST_THREADS: usize = 8;

/// Results for each thread that may wait to be taken.
const EACH: usize = 4;

/// Where work and taking stand.
struct State<T> {
    /// The next piece of work.
    next: usize,
    taken: usize,
    ready: BTreeMap<usize, T>,
    /// Nobody takes or makes any more: the end is near, or something failed.
    stopped: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// Ends all waiting if it is dropped by a panic.
struct StopOnPanic<'a, T>(&'a Shared<T>);

impl<T> Drop for StopOnPanic<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

/// Calls `make` for each number below `count` on several threads, and `take` on this one with each result, in
/// order.
///
/// # Errors
/// The first one of `take`; the rest is neither made nor taken.
///
/// # Panics
/// If `make` or `take` does.
pub(crate) fn in_order<T: Send, E>(
    count: usize,
    make: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let state = State { next: 0, taken: 0, ready: BTreeMap::new(), stopped: false };
    let shared = Shared { state: Mutex::new(state), changed: Condvar::new() };
    thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| shared.work((count, threads * EACH), &make));
        }
        let _stop = StopOnPanic(&shared);
        for index in 0..count {
            let Some(made) = shared.wait_for(index) else { break };
            if let Err(error) = take(index, made) {
                shared.stop();
                return Err(error);
            }
        }
        Ok(())
    })
}

impl<T> Shared<T> {
    fn work(&self, (count, ahead): (usize, usize), make: impl Fn(usize) -> T) {
        let _stop = StopOnPanic(self);
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while !state.stopped && state.next < count && state.next >= state.taken + ahead {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.stopped || state.next == count {
                return;
            }
            let index = state.next;
            state.next += 1;
            drop(state);
            let made = make(index);
            self.state.lock().unwrap_or_else(PoisonError::into_inner).ready.insert(index, made);
            self.changed.notify_all();
        }
    }

    /// A result, or none if it will never come since its maker panicked.
    fn wait_for(&self, index: usize) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(made) = state.ready.remove(&index) {
                state.taken = index + 1;
                self.changed.notify_all();
                return Some(made);
            }
            if state.stopped {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn results_are_taken_in_order_and_not_made_far_ahead() {
        let made = AtomicUsize::new(0);
        let mut taken = Vec::new();
        let most = MOST_THREADS * (EACH + 1);
        let make = |index: usize| {
            made.fetch_add(1, Ordering::SeqCst);
            index * index
        };
        let result: Result<(), ()> = in_order(300, make, |index, square| {
            assert_eq!(square, index * index);
            assert!(made.load(Ordering::SeqCst) <= index + most);
            taken.push(index);
            Ok(())
        });
        assert_eq!(result, Ok(()));
        assert!(taken.iter().copied().eq(0..300));
        assert_eq!(in_order(0, |index| index, |_, _| Err(())), Ok(()));
    }

    #[test]
    fn an_error_ends_the_work() {
        let made = AtomicUsize::new(0);
        let make = |_| made.fetch_add(1, Ordering::SeqCst);
        let result = in_order(10_000, make, |index, _| if index == 5 { Err("five") } else { Ok(()) });
        assert_eq!(result, Err("five"));
        assert!(made.into_inner() < 1_000);
    }

    #[test]
    fn a_panic_of_either_side_reaches_the_caller() {
        let make = |bad: usize| move |index: usize| assert!(index != bad, "made {index}");
        let outcome = |bad_make: usize, bad_take: usize| {
            catch_unwind(AssertUnwindSafe(|| {
                in_order(100, make(bad_make), |index, ()| -> Result<(), ()> {
                    assert!(index != bad_take, "took {index}");
                    Ok(())
                })
            }))
        };
        assert!(outcome(50, 1_000).is_err() && outcome(1_000, 50).is_err());
        assert_eq!(outcome(1_000, 1_000).unwrap(), Ok(()));
    }
}
