//! Whole models on the reference device against logits that this project did not compute.
//!
//! Two witnesses: transformers in float32 on the exactly dequantised weights, whose rounding alone may
//! differ, and the format's own runtime, which computes in f16 and may choose other experts at near-ties.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests fail by panics and say what they skip")]

mod on_devices;
mod runner;
mod smollm2;
mod wrong_choices;

use std::path::{Path, PathBuf};

use golden::Tensors;
use model::{BuildOptions, Model, Why};
use program::Format;
use runner::Runner;

/// Sums of up to 1,024 products in another order, over a few layers, are within a few eps of f32 (6e-8) times
/// the square root of that: the measured errors are near 3e-6.
const FLOAT32: f64 = 1e-4;

const OPTIONS: BuildOptions = BuildOptions { cache: Format::F16 };

/// Larger sources in f16 or bf16, by their golden `logits`.
const SOURCES: [&str; 13] = [
    "golden/conversions/llama-even",
    "golden/conversions/qwen2",
    "golden/conversions/qwen3-moe",
    "golden/sources/deepseek-v3-groups-yarn",
    "golden/sources/glm4-moe",
    "golden/sources/glm4-moe-lite",
    "golden/sources/llama-odd",
    "golden/sources/llama-rope-linear",
    "golden/sources/llama-rope-llama3",
    "golden/sources/llama-rope-yarn",
    "golden/sources/minimax-m2",
    "golden/sources/qwen3",
    "golden/sources/qwen3-moe-raw-gates",
];

/// EXL3 checkpoints, by their golden `logits_f32` and `logits`.
const CONVERSIONS: [&str; 11] = [
    "golden/conversions/glm4-moe-lite-4bpw-mul1",
    "golden/conversions/llama-even-1.5bpw-mul1-eb4",
    "golden/conversions/llama-even-2bpw-mcg",
    "golden/conversions/llama-even-3.5bpw-mul1-hb2.5",
    "golden/conversions/llama-even-4bpw-3inst",
    "golden/conversions/llama-even-5bpw-mul1",
    "golden/conversions/qwen2-6bpw-mul1",
    "golden/conversions/qwen3-moe-3.5bpw-mul1",
    "golden/conversions/tiny-glm-2bpw-mul1",
    "golden/conversions/tiny-glm-3bpw-mul1",
    "golden/conversions/tiny-glm-4bpw-mul1",
];

fn shared() -> Option<PathBuf> {
    let shared = golden::shared();
    if shared.is_none() {
        println!("skipped: ../shared is not here");
    }
    shared
}

/// The small sources in the repository: one for each architecture, in a folder of its name.
fn small_sources() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(golden::folder().join("sources")).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort_unstable();
    folders
}

/// All sources that there are.
fn sources() -> Vec<PathBuf> {
    let larger = shared().into_iter().flat_map(|shared| {
        SOURCES.iter().chain(&["models/tiny-glm"]).map(move |folder| shared.join(folder)).collect::<Vec<_>>()
    });
    small_sources().into_iter().chain(larger).collect()
}

fn open(folder: &Path) -> (Model, Tensors) {
    let model = Model::open(folder, &OPTIONS).unwrap_or_else(|error| panic!("{error}"));
    (model, Tensors::open(folder.join("golden.safetensors")))
}

/// The largest relative error of a row.
fn worst(got: &[f32], want: &[f32], vocab: usize) -> f64 {
    let errors = golden::relative_errors(got, want, vocab);
    errors.into_iter().reduce(|worst, error| if worst >= error { worst } else { error }).unwrap()
}

#[test]
fn every_tensor_of_every_golden_checkpoint_is_used_or_known_as_unused() {
    for folder in small_sources() {
        assert_eq!(open(&folder).0.unused().len(), 0, "{}", folder.display());
    }
    let Some(shared) = shared() else { return };
    for folder in SOURCES.iter().chain(&CONVERSIONS).chain(&["models/tiny-glm"]) {
        let (model, _) = open(&shared.join(folder));
        let drafts = model.unused().iter().filter(|unused| unused.why == Why::Draft).count();
        assert_eq!(drafts, model.unused().len(), "{folder}");
        assert_eq!(drafts > 0, folder.contains("tiny-glm"), "{folder}");
    }
}

#[test]
fn every_architecture_has_a_small_source() {
    let folder = std::env::temp_dir().join(format!("no-architecture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), r#"{"model_type": "none"}"#).unwrap();
    let refusal = Model::open(&folder, &OPTIONS).err().unwrap().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    let (_, known) = refusal.split_once("known are ").unwrap();
    let folders: Vec<PathBuf> = small_sources();
    let names: Vec<&str> = folders.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names.join(", "), known);
    for folder in &folders {
        assert_eq!(open(folder).0.facts.architecture, folder.file_name().unwrap().to_str().unwrap());
    }
}

#[test]
fn every_source_gives_the_logits_of_transformers() {
    for folder in sources() {
        let (model, golden) = open(&folder);
        let folder = folder.display();
        let logits = Runner::new(&model, 128).logits(&golden.ids("ids"), 128, 0);
        let error = worst(&logits, &golden.f32("logits"), model.facts.vocab as usize);
        println!("{folder}: {error:.1e}");
        assert!(error <= FLOAT32, "{folder}: {error}");
    }
}

#[test]
fn every_conversion_gives_the_logits_of_transformers_and_is_near_the_runtime_of_the_format() {
    let Some(shared) = shared() else { return };
    for folder in CONVERSIONS {
        let (model, golden) = open(&shared.join(folder));
        let vocab = model.facts.vocab as usize;
        let logits = Runner::new(&model, 128).logits(&golden.ids("ids"), 128, 0);
        let error = worst(&logits, &golden.f32("logits_f32"), vocab);
        assert!(error <= FLOAT32, "{folder}: {error}");

        let mut divergences: Vec<f64> = logits
            .chunks(vocab)
            .zip(golden.f32("logits").chunks(vocab))
            .map(|(ours, theirs)| divergence(theirs, ours))
            .collect();
        divergences.sort_unstable_by(f64::total_cmp);
        let kept = divergences.len() * 95 / 100;
        let mean = divergences[..kept].iter().sum::<f64>() / kept as f64;
        let far = divergences.iter().filter(|&&kl| kl > 1e-3).count();
        println!("{folder}: {error:.1e}; KL {mean:.1e} without the worst 5 %, {far} rows above 1e-3");
        // The runtime rounds activations to f16: 2^-11 relative in each of some ten roundings of a row. Rows
        // whose experts a near-tie flips are few.
        assert!(mean <= 2e-4, "{folder}: {mean}");
        assert!(far * 20 <= divergences.len(), "{folder}: {far} rows");
    }
}

#[test]
fn the_trained_model_gives_the_logits_of_transformers_at_its_full_context() {
    let Some(shared) = shared() else { return };
    let (model, golden) = open(&shared.join("models/tiny-glm"));
    let want = golden.f32("long_logits_last32");
    let ids = golden.ids("long_ids");
    for chunk in [2048, 64] {
        let vocab = model.facts.vocab as usize;
        let first = ids.len() - want.len() / vocab;
        let logits = Runner::new(&model, chunk).logits(&ids, chunk, first as u32);
        let error = worst(&logits, &want, vocab);
        println!("in chunks of {chunk}: {error:.1e}");
        assert!(error <= FLOAT32, "in chunks of {chunk}: {error}");
    }
}

#[test]
fn the_small_golden_checkpoint_in_the_repository_gives_its_golden_rows() {
    let (model, golden) = open(&golden::folder().join("llama-even-1.5bpw-mul1-eb4"));
    check_rows(&model, &golden);
}

#[test]
fn the_model_that_ships_gives_its_golden_rows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-glm");
    let model = Model::open(&folder, &OPTIONS).unwrap_or_else(|error| panic!("{error}"));
    let golden = Tensors::open(golden::folder().join("tiny-glm-4bpw-mul1/golden.safetensors"));
    check_rows(&model, &golden);
}

#[test]
fn the_model_that_ships_recalls_facts_planted_up_to_1900_tokens_before() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-glm");
    let model = Model::open(&folder, &OPTIONS).unwrap_or_else(|error| panic!("{error}"));
    let golden = Tensors::open(golden::folder().join("tiny-glm-4bpw-mul1/golden.safetensors"));
    check_continuations(&model, &golden, 4);
}

#[test]
fn the_trained_source_continues_every_prompt_as_transformers_does() {
    let Some(shared) = shared() else { return };
    let (model, golden) = open(&shared.join("models/tiny-glm"));
    check_continuations(&model, &golden, 10);
}

/// Checks that each token of every `_out` is the best one after its `_prompt` and the tokens before it, which
/// is what greedy decoding gives.
fn check_continuations(model: &Model, golden: &Tensors, count: usize) {
    let mut runner = Runner::new(model, 2048);
    let vocab = model.facts.vocab as usize;
    let names = golden.names();
    let names: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix("_prompt")).collect();
    assert_eq!(names.len(), count);
    for name in names {
        let (prompt, out) = (golden.ids(&format!("{name}_prompt")), golden.ids(&format!("{name}_out")));
        let ids = [&*prompt, &out[..out.len() - 1]].concat();
        let logits = runner.logits(&ids, 2048, prompt.len() as u32 - 1);
        let best: Vec<u32> = logits.chunks(vocab).map(best).collect();
        assert_eq!(best, out, "{name}");
    }
}

/// The id of the largest logit, the lower one of equals.
fn best(logits: &[f32]) -> u32 {
    (0..logits.len()).fold(0, |best, id| if logits[id] > logits[best] { id } else { best }) as u32
}

/// Compares with a file that holds some rows and says which.
fn check_rows(model: &Model, golden: &Tensors) {
    let vocab = model.facts.vocab as usize;
    let logits = Runner::new(model, 128).logits(&golden.ids("ids"), 128, 0);
    let rows = golden.ids("rows");
    let kept: Vec<f32> =
        rows.iter().flat_map(|&row| &logits[row as usize * vocab..][..vocab]).copied().collect();
    let error = worst(&kept, &golden.f32("logits_f32"), vocab);
    assert!(error <= FLOAT32, "{error}");
}

/// The Kullback-Leibler divergence of softmax(q) from softmax(p), in nats.
fn divergence(p: &[f32], q: &[f32]) -> f64 {
    let (p, q) = (log_softmax(p), log_softmax(q));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum();
    logits.iter().map(|&logit| f64::from(logit) - largest - sum.ln()).collect()
}
