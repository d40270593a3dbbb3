//! Nothing is allocated for a step that only draws tokens.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use cpu::{Cpu, CpuOptions};
use engine::{Ending, Engine, Limits, Request, Sampling, Scheduler, Settings};
use model::{BuildOptions, Model};
use program::Format;

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

/// One test only in this file: another one beside it would be counted as well.
#[test]
fn steps_that_draw_tokens_allocate_nothing_even_where_a_page_is_full() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-glm");
    let model = Model::open(&folder, &BuildOptions { cache: Format::F16 }).unwrap();
    let mut device = Cpu::new(CpuOptions { threads: Some(2), ..CpuOptions::default() }).unwrap();
    model.load(&mut device, &mut |_| {}).unwrap();
    let limits =
        Limits { context: 400, sequences: 4, pages: 20, chunk: 128, outputs: 4, deterministic: false };
    let engine = Engine::new(Box::new(device), &model.spec, limits).unwrap();
    let mut scheduler = Scheduler::new(engine, Settings::default()).unwrap();
    for seed in 0..4 {
        // Drawn by the device, each on over the end of its first page.
        let sampling = Sampling { temperature: 1.0, seed, ..Sampling::GREEDY };
        let ending = Ending { max_tokens: 60, ..Ending::default() };
        let prompt = (0..50 + seed as u32).collect();
        scheduler.submit(Request::new(prompt, sampling, ending), &|_| b"word ").unwrap();
    }
    let mut text = 0;
    let mut step = || {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        assert!(scheduler.step(&|_| b"word ", &mut |_, event| text += event.text().len()).unwrap());
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    // The prompts, and the first tokens.
    (0..4).for_each(|_| assert!(step() < 1000));
    let allocations: Vec<usize> = (0..40).map(|_| step()).collect();
    assert_eq!(allocations, [0; 40]);
    assert!(text > 4 * 40 * 5);
}
