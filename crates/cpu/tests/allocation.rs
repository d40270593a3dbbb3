//! Nothing is allocated inside a step, once the caches are reserved and the program is prepared.
#![expect(clippy::unwrap_used, reason = "tests fail by panics")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use cpu::{Cpu, CpuOptions};
use exl3::kv::CacheBits;
use program::conformance::{Architecture, Sample};
use program::{
    CacheSize, Device, Draw, Format, Options, Output, PageId, Program, Score, Sequence, Size, Step, Token,
    Want,
};

/// The system's allocator, counting what it is asked for by any thread.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system's allocator needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Decodes `tokens` tokens, each drawn from the last, and gives the number of allocations in each step.
fn allocations_of_steps(sample: &Sample, tokens: u32, timing: bool) -> Vec<usize> {
    let mut device = Cpu::new(CpuOptions { threads: Some(2), ..CpuOptions::default() }).unwrap();
    sample.upload(&mut device).unwrap();
    device.reserve(&sample.spec.caches, CacheSize { pages: 4, slots: 1 }).unwrap();
    let size = Size { tokens: 1, outputs: 1, sequences: 1 };
    let options = Options { timing, ..Options::new(size) };
    let program = device.prepare(&sample.spec.programs[0], &options).unwrap();
    // Another program beside it, without a head, takes nothing away.
    let embedding = Program::of(&sample.spec.programs[0].ops[..1]);
    let _ = device.prepare(&embedding, &Options::new(size)).unwrap();
    let draw = Draw { temperature: 0.8, top_k: 40, top_p: 0.9, min_p: 0.01, random: 0.5 };
    (0..tokens)
        .map(|cached| {
            let token = if cached == 0 { Token::Id(3) } else { Token::Previous(0) };
            let step = Step {
                tokens: &[token],
                positions: &[cached],
                sequences: &[Sequence { rows: 0..1, cached, pages: 0..2, slot: 0 }],
                pages: &[PageId(3), PageId(1)],
                outputs: &[Output { row: 0, want: Want::Choose(draw) }],
            };
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            let ticket = device.submit(program, &step).unwrap();
            let token = device.wait(ticket).unwrap().token(0);
            let after = ALLOCATIONS.load(Ordering::Relaxed);
            assert!(token.is_some());
            after - before
        })
        .collect()
}

/// One test only in this file: another one beside it would be counted as well.
#[test]
fn decoding_a_token_allocates_nothing() {
    let bits = CacheBits::new(6).unwrap();
    for architecture in [
        Architecture::Dense,
        Architecture::Experts(Score::Sigmoid),
        Architecture::Experts(Score::Hash { layer: 0 }),
    ] {
        for format in [Format::F16, Format::Quantised(bits)] {
            let sample = Sample::new(architecture, format).unwrap();
            // Over the end of a page.
            for timing in [false, true] {
                let counts = allocations_of_steps(&sample, 70, timing);
                assert!(counts.iter().all(|count| *count == 0), "{architecture:?}, {format}: {counts:?}");
            }
        }
    }
}
