//! The conformance suite on the first GPU; a machine without one says so.
//!
//! There is a test for each family of cases, so that a kernel that ends its process (an address that is none) takes the
//! others with it in no more than its own.
#![expect(clippy::print_stdout, reason = "what is skipped, and each failure at once, is said")]

use std::env;

use cuda::{Cuda, CudaOptions};
use program::Device;
use program::conformance::{self, Case};

/// Runs the cases whose name begins with one of `families` and fails with a line for each that failed.
fn assert_conforms(families: &[&str]) {
    let options = CudaOptions::from_variables(0, &|name| env::var_os(name));
    if let Err(error) = Cuda::new(options.clone()) {
        println!("skipped: no CUDA ({error})");
        return;
    }
    let mut make = || -> Box<dyn Device> {
        Box::new(Cuda::new(options.clone()).expect("the same options were fine before"))
    };
    let of_families = |case: &Case| families.iter().any(|family| case.name().starts_with(family));
    let cases: Vec<Case> = conformance::cases().into_iter().filter(of_families).collect();
    assert!(!cases.is_empty(), "no case begins with {families:?}");
    let mut failures = Vec::new();
    for case in &cases {
        if let Err(what) = case.check(&mut make) {
            println!("failed: {}: {what}", case.name());
            failures.push(case.name());
        }
    }
    println!("{} of {} cases of {families:?} passed", cases.len() - failures.len(), cases.len());
    assert!(
        failures.is_empty(),
        "{} of {} cases failed:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

#[test]
fn linear_maps_of_plain_numbers() {
    assert_conforms(&["linear F", "linear B", "linear with"]);
}

#[test]
fn linear_maps_of_codes() {
    assert_conforms(&["linear EXL3"]);
}

#[test]
fn rows_and_numbers() {
    assert_conforms(&["embed", "rms_norm", "add", "rope", "act_mul", "outputs"]);
}

#[test]
fn routes() {
    assert_conforms(&["route"]);
}

#[test]
fn experts() {
    assert_conforms(&["experts"]);
}

#[test]
fn grouped_query_attention() {
    assert_conforms(&["attend "]);
}

#[test]
fn latent_attention() {
    assert_conforms(&["attend_mla"]);
}

#[test]
fn models() {
    assert_conforms(&["model"]);
}

#[test]
fn answers() {
    assert_conforms(&["answer"]);
}

#[test]
fn steps_and_refusals() {
    assert_conforms(&["steps", "refusals"]);
}

#[test]
fn every_case_is_of_a_family() {
    let families = [
        "linear", "embed", "rms_norm", "add", "rope", "act_mul", "outputs", "route", "experts", "attend",
        "model", "answer", "steps", "refusals",
    ];
    for case in conformance::cases() {
        assert!(families.iter().any(|family| case.name().starts_with(family)), "{}", case.name());
    }
}
