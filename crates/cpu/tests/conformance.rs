//! The conformance suite on every instruction level that this processor has, with one, two and three threads.
#![expect(clippy::print_stdout, reason = "a level that this processor lacks is said to be skipped")]

use std::sync::Mutex;

use cpu::{Cpu, CpuOptions, SimdLevel};
use program::Device;
use program::conformance::{self, Case};

/// Held by the test that runs: threads of several devices at once would wait for each other's cores.
static CORES: Mutex<()> = Mutex::new(());

/// Runs cases on some levels, each with a number of threads, and fails with a line for each that failed.
fn assert_conforms(cases: &[Case], configurations: &[(SimdLevel, usize)]) {
    let _cores = CORES.lock();
    for (level, threads) in configurations {
        let options = CpuOptions { threads: Some(*threads), simd: Some(*level), ..CpuOptions::default() };
        if let Err(error) = Cpu::new(options) {
            assert_ne!(*level, SimdLevel::Scalar, "{error}");
            println!("skipped: {error}");
            continue;
        }
        let make =
            || -> Box<dyn Device> { Box::new(Cpu::new(options).expect("the same options were fine before")) };
        let failures = conformance::failures(cases, &mut { make });
        assert!(failures.is_empty(), "{level}, {threads} threads:\n{}", failures.join("\n"));
    }
}

/// Plain code with some threads, and all levels of vector code with others.
fn all(plain: usize, vector: usize) -> [(SimdLevel, usize); 4] {
    [
        (SimdLevel::Scalar, plain),
        (SimdLevel::Avx2, vector),
        (SimdLevel::Avx512, vector),
        (SimdLevel::Neon, vector),
    ]
}

#[test]
fn every_operation_is_that_of_the_reference() {
    assert_conforms(&conformance::cases(), &all(2, 1));
    assert_conforms(&conformance::cases(), &all(2, 3)[1..]);
}

#[test]
fn caches_hold_what_their_format_says() {
    assert_conforms(&conformance::cache_formats(), &all(1, 3));
}

#[test]
fn the_bits_of_a_row_depend_on_its_own_sequence_alone() {
    assert_conforms(&conformance::row_invariance(), &all(1, 2));
}
