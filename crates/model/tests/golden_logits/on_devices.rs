//! Whole models on the cpu device, and on a GPU where there is one, beside the reference device, which the other
//! tests here hold against golden logits.
//!
//! A rounding can turn over a near tie of a router, and from there on two devices compute different things.
//! So the error of a whole model is measured with the reference's choices, and free choices are held to
//! differ at near ties only.

use std::env;

use cpu::{Cpu, CpuOptions};
use cuda::{Cuda, CudaOptions};
use golden::relative_errors;
use model::Model;
use program::compare::{Choice, Comparison, NEAR_TIE, OPERATION, WHOLE};
use program::reference::Reference;
use program::{CacheSize, Device, ModelSpec, Output, PAGE_TOKENS, PageId, Sequence, Size, Step, Token, Want};

use crate::{CONVERSIONS, open, shared, sources};

/// The devices that are held against the reference, empty: the cpu, and the first GPU where there is one.
fn devices() -> Vec<Box<dyn Device>> {
    let mut devices: Vec<Box<dyn Device>> = vec![Box::new(Cpu::new(CpuOptions::default()).unwrap())];
    match Cuda::new(CudaOptions::from_variables(0, &|name| env::var_os(name))) {
        Ok(cuda) => devices.push(Box::new(cuda)),
        Err(error) => println!("skipped: no CUDA ({error})"),
    }
    devices
}

/// The reference and another device with the same model.
struct Pair {
    reference: Reference,
    other: Box<dyn Device>,
}

impl Pair {
    fn new(other: Box<dyn Device>, model: &Model, places: u32) -> Pair {
        let mut pair = Pair { reference: Reference::new(), other };
        let caches = CacheSize { pages: places.div_ceil(PAGE_TOKENS) + 1, slots: 1 };
        for device in [&mut pair.reference as &mut dyn Device, &mut *pair.other] {
            model.load(device, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
            device.reserve(&model.spec.caches, caches).unwrap();
        }
        pair
    }

    /// For steps of up to `tokens` tokens, each of them an output.
    fn comparison<'a>(&'a mut self, spec: &'a ModelSpec, tokens: u32) -> Comparison<'a> {
        let size = Size { tokens, outputs: tokens, sequences: 1 };
        Comparison::new(spec, size, &mut self.reference, &mut *self.other).unwrap()
    }
}

/// Calls `each` with the steps that feed `ids` in chunks, all logits wanted.
fn for_each_step(ids: &[u32], chunk: usize, mut each: impl FnMut(&Step<'_>)) {
    let pages: Vec<PageId> = (1..=(ids.len() as u32).div_ceil(PAGE_TOKENS)).map(PageId).collect();
    let mut cached = 0;
    for ids in ids.chunks(chunk) {
        let rows = ids.len() as u32;
        let tokens: Vec<Token> = ids.iter().map(|&id| Token::Id(id)).collect();
        let positions: Vec<u32> = (cached..cached + rows).collect();
        let outputs: Vec<Output> = (0..rows).map(|row| Output { row, want: Want::Logits }).collect();
        let sequence = Sequence { rows: 0..rows, cached, pages: 0..pages.len() as u32, slot: 0 };
        each(&Step {
            tokens: &tokens,
            positions: &positions,
            sequences: &[sequence],
            pages: &pages,
            outputs: &outputs,
        });
        cached += rows;
    }
}

/// Every golden model with its ids, on each device.
fn for_each_model(mut each: impl FnMut(&str, &mut Pair, &Model, &[u32])) {
    let conversions = shared().into_iter().flat_map(|shared| CONVERSIONS.map(|folder| shared.join(folder)));
    for folder in sources().into_iter().chain(conversions) {
        let (model, golden) = open(&folder);
        for device in devices() {
            let what = format!("{} on {}", folder.display(), device.name());
            each(&what, &mut Pair::new(device, &model, 128), &model, &golden.ids("ids"));
        }
    }
}

#[test]
fn every_operation_on_a_device_is_that_of_the_reference() {
    for_each_model(|folder, pair, model, ids| {
        let mut comparison = pair.comparison(&model.spec, 128);
        for_each_step(ids, 128, |step| {
            let report = comparison.op_by_op(step).unwrap();
            println!("{folder}: {:.1e}", report.largest_error());
            if let Some(difference) = report.first_difference(OPERATION) {
                panic!("{folder}: {difference}");
            }
        });
    });
}

#[test]
fn whole_models_on_a_device_with_the_references_choices_give_its_logits() {
    for_each_model(|folder, pair, model, ids| {
        let mut comparison = pair.comparison(&model.spec, 128);
        for_each_step(ids, 128, |step| {
            let logits = comparison.forced_routing(step).unwrap();
            let errors = relative_errors(&logits.other, &logits.reference, model.facts.vocab as usize);
            let worst = errors.iter().copied().fold(0.0, f64::max);
            println!("{folder}: {worst:.1e}");
            assert!(errors.iter().all(|error| *error <= WHOLE), "{folder}: {worst}");
        });
    });
}

#[test]
fn on_a_device_experts_are_chosen_otherwise_at_near_ties_only() {
    for_each_model(|folder, pair, model, ids| {
        let mut comparison = pair.comparison(&model.spec, 128);
        for_each_step(ids, 128, |step| {
            let free = comparison.free_routing(step).unwrap();
            // After a flip its own row computes something else and, through attention, later rows do.
            let follows = |choice: &Choice| {
                free.choices.iter().any(|before| before.op < choice.op && before.row <= choice.row)
            };
            for choice in &free.choices {
                assert!(choice.gap <= NEAR_TIE || follows(choice), "{folder}: {choice:?}");
            }
            let first = free.choices.iter().map(|choice| choice.row).min().unwrap_or(step.tokens.len());
            let vocab = model.facts.vocab as usize;
            let errors = relative_errors(&free.logits.other, &free.logits.reference, vocab);
            println!("{folder}: {} choices differ, the first in row {first}", free.choices.len());
            assert!(errors[..first].iter().all(|error| *error <= WHOLE), "{folder}: {errors:?}");
        });
    });
}

#[test]
fn the_trained_model_on_a_device_gives_the_references_logits_at_its_full_context() {
    let Some(shared) = shared() else { return };
    let (model, golden) = open(&shared.join("models/tiny-glm"));
    let (vocab, ids) = (model.facts.vocab as usize, golden.ids("long_ids"));
    let want = golden.f32("long_logits_last32");
    let chunks =
        [2048, 64].into_iter().flat_map(|chunk| devices().into_iter().map(move |device| (chunk, device)));
    for (chunk, device) in chunks {
        let mut pair = Pair::new(device, &model, 2048);
        let mut comparison = pair.comparison(&model.spec, chunk);
        let mut last = Vec::new();
        for_each_step(&ids, chunk as usize, |step| last = comparison.forced_routing(step).unwrap().other);
        let errors = relative_errors(&last[last.len() - want.len()..], &want, vocab);
        let worst = errors.iter().copied().fold(0.0, f64::max);
        println!("in chunks of {chunk}: {worst:.1e}");
        assert!(errors.iter().all(|error| *error <= WHOLE), "in chunks of {chunk}: {worst}");
    }
}
