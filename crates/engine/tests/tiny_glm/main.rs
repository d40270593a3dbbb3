//! The engine with a real model: whole texts token for token as another program continues them, and the
//! same bits however a text is cut into steps.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "says which tests were skipped")]

mod concurrent;
mod continuations;
mod conversation;
mod invariance;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use cpu::{Cpu, CpuOptions};
use engine::{Engine, Event, Limits, Report, Request, Scheduler, Settings, generate};
use exl3::kv::CacheBits;
use model::{BuildOptions, Model};
use program::reference::Reference;
use program::{Device, Format};

/// The device that runs fast.
fn cpu() -> Box<dyn Device> {
    Box::new(Cpu::new(CpuOptions::default()).unwrap())
}

/// The device that defines what is right.
fn reference() -> Box<dyn Device> {
    Box::new(Reference::new())
}

/// A cache whose numbers have so many bits.
fn quantised(bits: u8) -> Format {
    Format::Quantised(CacheBits::new(bits).unwrap())
}

/// The model that ships with the repository.
fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-glm")
}

/// An engine with the model of a folder.
fn engine(folder: &Path, cache: Format, mut device: Box<dyn Device>, limits: Limits) -> Engine {
    let model = Model::open(folder, &BuildOptions { cache }).unwrap();
    model.load(&mut *device, &mut |_| {}).unwrap();
    Engine::new(device, &model.spec, limits).unwrap()
}

/// A scheduler with the model of a folder.
fn scheduler(folder: &Path, cache: Format, device: Box<dyn Device>, limits: Limits) -> Scheduler {
    Scheduler::new(engine(folder, cache, device, limits), Settings::default()).unwrap()
}

/// The tokens of an answer that nobody else is about to ask for. Tokens stand for their numbers in brackets.
fn answer(scheduler: &mut Scheduler, request: &Request) -> (Vec<u32>, Report) {
    let names: Vec<String> = (0..8192).map(|token| format!("[{token}]")).collect();
    let (mut tokens, mut text) = (Vec::new(), String::new());
    let bytes = |token: u32| names[token as usize].as_bytes();
    let report = generate(scheduler, request.clone(), &bytes, &AtomicBool::new(false), &mut |event| {
        text.push_str(event.text());
        match event {
            Event::Token { token, .. } => tokens.push(*token),
            Event::TakenBack { tokens: count } => tokens.truncate(tokens.len() - count),
            Event::Prompt { .. } | Event::Finished { .. } | Event::Failed(_) => {}
        }
        ControlFlow::Continue(())
    });
    assert_eq!(text, names_of(&tokens));
    (tokens, report.unwrap())
}

/// What tokens stand for.
fn names_of(tokens: &[u32]) -> String {
    tokens.iter().map(|token| format!("[{token}]")).collect()
}
