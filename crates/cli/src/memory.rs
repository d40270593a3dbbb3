//! Where memory goes, and whether there is enough.

use anyhow::{Context, Result, bail, ensure};
use engine::Limits;
use model::Model;
use program::{Device, PAGE_TOKENS};
use serde::Serialize;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Bytes that a model takes while it runs, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Memory {
    /// Weights, as the device keeps them.
    pub(crate) weights: u64,
    /// The key-value cache of the whole context.
    pub(crate) cache: u64,
    /// Values and work space of a step.
    pub(crate) scratch: u64,
    /// The process itself: code, tokenizer, tables.
    pub(crate) host: u64,
    /// All of it.
    pub(crate) total: u64,
}

/// What a process takes that has loaded no model: code, flags, stacks. Measured on Linux x86-64 as the peak
/// of `billfish run` with a tokenizer of 256 ids, less the device's plan.
const PROCESS: u64 = 7 << 20;

/// Bytes that one id of a tokenizer takes while it is read: its string in both directions, its merge, its
/// JSON. Measured as 705 with Llama 3's tokenizer (128,256 ids) and 833 with Qwen3's (151,669).
const TOKENIZER_ID: u64 = 780;

/// What `model` takes on `device` within `limits`.
pub(crate) fn plan(model: &Model, device: &dyn Device, limits: &Limits) -> Result<Memory> {
    let device = device.plan(&model.spec, &limits.options(), limits.caches())?;
    let ids = model.tokenizer.as_ref().map_or(0, |tokenizer| u64::from(tokenizer.vocab()));
    let host = PROCESS + TOKENIZER_ID * ids;
    let total = device.weights + device.cache + device.scratch + host;
    Ok(Memory { weights: device.weights, cache: device.cache, scratch: device.scratch, host, total })
}

/// Bytes that can be had without swapping, within the limits of a container.
///
/// # Errors
/// If the system does not tell.
pub(crate) fn available() -> Result<u64> {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(memory).context("cannot tell how much memory there is")?;
    // What a container has cached of files goes when it is needed.
    let within = system.cgroup_limits().map(|limits| limits.total_memory.saturating_sub(limits.rss));
    Ok(within.unwrap_or(u64::MAX).min(system.available_memory()))
}

/// Checks that so many bytes can be had; `remedy` says what would take less.
///
/// # Errors
/// If they cannot.
pub(crate) fn require(bytes: u64, remedy: &str) -> Result<()> {
    let available = available()?;
    let (needed, there) = (size(bytes), size(available));
    ensure!(bytes <= available, "this takes {needed} of memory, {there} are available: {remedy}");
    Ok(())
}

/// The context that was asked for, or the longest one of those the model was made for that memory allows.
///
/// # Errors
/// If that much memory is not there; the message says what would fit.
pub(crate) fn context(model: &Model, device: &dyn Device, asked: Option<u32>) -> Result<u32> {
    let most = model.facts.context;
    let wanted = asked.unwrap_or(most);
    if wanted > most {
        bail!("the model was made for {most} tokens of context, {wanted} are too many");
    }
    let available = available()?;
    let need = |context| plan(model, device, &Limits::one_sequence(context)).map(|memory| memory.total);
    if need(wanted)? <= available {
        return Ok(wanted);
    }
    let fits = longest(wanted, &|context| Ok(need(context)? <= available))?;
    let short = format!(
        "a context of {wanted} tokens takes {}, {} are available",
        size(need(wanted)?),
        size(available)
    );
    match (fits, asked) {
        (0, _) => bail!("{short}, and no context fits beside the weights: use a model of fewer bits"),
        (fits, Some(_)) => bail!("{short}: -c {fits} would fit"),
        (fits, None) => Ok(fits),
    }
}

/// The longest context up to `most`, in whole pages, that fits; 0 if none does.
fn longest(most: u32, fits: &dyn Fn(u32) -> Result<bool>) -> Result<u32> {
    let (mut low, mut high) = (0, most / PAGE_TOKENS);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle * PAGE_TOKENS)? {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(low * PAGE_TOKENS)
}

/// A number of bytes as people read it.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// The most memory that this process has had so far, or since [`reset_peak`], where the system tells (Linux).
pub(crate) fn peak() -> Option<u64> {
    status("VmHWM:")
}

/// The memory that this process has now, where the system tells (Linux).
pub(crate) fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// Makes [`peak`] begin anew with what the process has now, where the system can (Linux); elsewhere, and where it
/// may not, the peak stays that of the whole process.
pub(crate) fn reset_peak() {
    /// What proc(5) tells to write for it.
    const PEAK: &str = "5";
    let _ = std::fs::write("/proc/self/clear_refs", PEAK);
}

/// A line of what the system says of this process, in bytes.
fn status(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_context_that_fits_is_a_whole_number_of_pages() {
        let below = |limit: u32| move |context: u32| Ok(context <= limit);
        assert_eq!(longest(2048, &below(1000)).unwrap(), 960);
        assert_eq!(longest(2048, &below(5000)).unwrap(), 2048);
        assert_eq!(longest(2048, &below(64)).unwrap(), 64);
        assert_eq!(longest(2048, &below(63)).unwrap(), 0);
    }

    #[test]
    fn sizes_are_read_in_powers_of_a_thousand() {
        assert_eq!(size(999), "999 B");
        assert_eq!(size(18_527_321), "18.5 MB");
        assert_eq!(size(2_200_000_000), "2.20 GB");
    }
}
