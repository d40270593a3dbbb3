//! How many threads are worth having: one a physical core.
//!
//! Two hardware threads of one core share its vector units, which a step keeps busy: a second one adds little,
//! and all wait for the slower of the two.

use std::num::NonZero;
use std::{fs, thread};

/// Physical cores that this process may use, and no more than the threads that the system grants it. Where
/// the system does not say which hardware threads share a core, each counts as one.
pub fn physical() -> NonZero<usize> {
    let granted = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let cores = fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        count(allowed.trim(), |cpu| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")).ok()
        })
    });
    cores.map_or(granted, |cores| cores.min(granted))
}

/// How many cores the hardware threads in a list such as `0-3,8` have; `siblings` says who shares the core
/// of one. None if that is not known of each.
fn count(allowed: &str, siblings: impl Fn(usize) -> Option<String>) -> Option<NonZero<usize>> {
    let mut cores = Vec::new();
    for run in allowed.split(',') {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        for cpu in first.parse().ok()?..=last.parse().ok()? {
            cores.push(siblings(cpu)?);
        }
    }
    cores.sort_unstable();
    cores.dedup();
    NonZero::new(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_threads_of_one_core_count_once_and_only_allowed_ones_count() {
        let pairs = |cpu: usize| (cpu < 8).then(|| format!("{},{}\n", cpu % 4, cpu % 4 + 4));
        let count = |allowed| count(allowed, pairs).map(NonZero::get);
        assert_eq!(count("0-7"), Some(4));
        assert_eq!(count("0-1,4"), Some(2));
        assert_eq!(count("3"), Some(1));
        assert_eq!(count("0-8"), None);
        assert_eq!(count("all"), None);
    }

    #[test]
    fn there_are_no_more_threads_than_the_system_grants() {
        assert!(physical() <= thread::available_parallelism().unwrap());
    }
}
