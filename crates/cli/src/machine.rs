//! What is told of the machine beside a measurement: its name, its caches, and how fast it reads memory.

use std::array;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use sysinfo::{CpuRefreshKind, RefreshKind, System};

/// The commit that this program was built from.
pub(crate) const COMMIT: &str = env!("BILLFISH_COMMIT");

/// What a measurement rotates over is so many times as large as the last-level cache, so that hardly a byte
/// of it is still there when its turn comes again.
const ROTATION: u64 = 8;

/// The last-level cache where the system does not tell.
const USUAL_CACHE: u64 = 32 << 20;

/// The processor's market name and how many cores this process may use.
pub(crate) fn name() -> String {
    let cpu = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let brand = System::new_with_specifics(cpu)
        .ok()
        .and_then(|system| Some(system.cpus().first()?.brand().trim().to_owned()));
    let brand = brand.filter(|brand| !brand.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.into());
    match threads() {
        1 => format!("{brand}, 1 core"),
        cores => format!("{brand}, {cores} cores"),
    }
}

/// Threads that a device uses where nobody asked for a number.
pub(crate) fn threads() -> usize {
    cpu::cores::physical().get()
}

/// Bytes that have to be gone through for reads to come from memory and not from a cache.
pub(crate) fn uncached_bytes() -> u64 {
    ROTATION * last_level_cache().unwrap_or(USUAL_CACHE)
}

/// Bytes of the largest cache of the first processor, where the system tells (Linux).
fn last_level_cache() -> Option<u64> {
    let size = |index: u32| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().strip_suffix('K')?.parse::<u64>().ok()
    };
    (0..8).filter_map(size).max().map(|kilobytes| kilobytes << 10)
}

/// Bytes a second that so many threads together read from memory, each from a part of its own: the best of some
/// passes that differ in how many places a thread reads at once, since processors differ in what they like.
pub(crate) fn read_bandwidth(threads: usize) -> f64 {
    /// The first one also finds the processor awake.
    const PASSES: u32 = 4;
    let words = uncached_bytes() as usize / 8 / threads;
    let parts: Vec<Vec<u64>> = (0..threads as u64).map(|part| vec![part + 1; words]).collect();
    let pass = |read: fn(&[u64]) -> u64| {
        let start = Instant::now();
        thread::scope(|scope| {
            for part in &parts {
                scope.spawn(move || black_box(read(part)));
            }
        });
        start.elapsed()
    };
    let reads: [fn(&[u64]) -> u64; 3] = [union::<1>, union::<4>, union::<8>];
    let best = (0..PASSES).flat_map(|_| reads.map(pass)).min().unwrap_or(Duration::MAX);
    (words * 8 * threads) as f64 / best.as_secs_f64()
}

/// The bits that are set in any number, read from `PLACES` places at once, up to a rest of a few numbers.
fn union<const PLACES: usize>(numbers: &[u64]) -> u64 {
    const LINE: usize = 8;
    let lines = numbers.as_chunks::<LINE>().0;
    let each = lines.len() / PLACES;
    let places: [_; PLACES] = array::from_fn(|place| &lines[place * each..(place + 1) * each]);
    let mut union = [0; LINE];
    for index in 0..each {
        for place in places {
            for (bits, number) in union.iter_mut().zip(&place[index]) {
                *bits |= number;
            }
        }
    }
    union.iter().fold(0, |all, bits| all | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read() {
        for bit in 0..64 {
            let mut numbers = [0; 64];
            numbers[bit] = 1 << bit;
            assert_eq!([union::<1>(&numbers), union::<4>(&numbers), union::<8>(&numbers)], [1 << bit; 3]);
        }
    }

    #[test]
    fn a_rotation_is_larger_than_any_cache() {
        assert!(uncached_bytes() >= 8 << 20, "{}", uncached_bytes());
    }
}
