//! `billfish eval`.

use std::io::Write;

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::checkpoints::llama;
use crate::{command, finish};

/// A text of four documents, a few hundred tokens in all.
fn text() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    for day in ["Monday", "Tuesday", "Wednesday", "Thursday"] {
        let document = format!(
            "It was on a {day} that the old captain came to the house by the sea.\n\nHe had a letter with \
             him, and he did not say from whom. \"Read it,\" he said, and sat down by the fire.\n"
        );
        writeln!(file, "{document}{document}<|endoftext|>").unwrap();
    }
    file
}

fn eval(flags: &str, text: &NamedTempFile) -> Value {
    finish(command(&format!("eval {flags} --json --text")).arg(text.path())).json()
}

fn number(found: &Value, key: &str) -> f64 {
    found[key].as_f64().unwrap()
}

#[test]
fn every_token_but_the_first_is_predicted_once() {
    let text = text();
    let found = eval("models/tiny-glm", &text);
    let tokens = number(&found, "tokens");
    assert!(tokens > 250.0, "{found}");
    for flags in ["--window 64", "--window 64 --stride 16", "--window 50 --stride 50"] {
        let found = eval(&format!("models/tiny-glm {flags}"), &text);
        assert_eq!(number(&found, "tokens"), tokens, "{flags}");
    }
    let found = eval("models/tiny-glm --max-tokens 100", &text);
    assert_eq!(number(&found, "tokens"), 100.0);
}

#[test]
fn chunks_change_perplexity_by_rounding_only_and_with_deterministic_not_at_all() {
    let text = text();
    let fast = number(&eval("models/tiny-glm --window 128", &text), "perplexity");
    let whole = number(&eval("models/tiny-glm --window 128 --deterministic", &text), "perplexity");
    // Bits of an activation and of a cached number are 11; the mean of some 250 scores moves by less.
    assert!((fast / whole - 1.0).abs() < 1e-3, "{fast} {whole}");
    // The story repeats itself within a document.
    assert!((1.5..40.0).contains(&whole), "{whole}");
    for chunk in [1, 7, 64, 65] {
        let found = eval(&format!("models/tiny-glm --window 128 --chunk {chunk} --deterministic"), &text);
        assert_eq!(number(&found, "perplexity"), whole, "chunks of {chunk}");
    }
}

#[test]
fn more_context_predicts_better() {
    let text = text();
    let short = number(&eval("models/tiny-glm --window 32", &text), "perplexity");
    let overlapping = number(&eval("models/tiny-glm --window 32 --stride 8", &text), "perplexity");
    let long = number(&eval("models/tiny-glm --window 256", &text), "perplexity");
    assert!(short > overlapping && overlapping > long, "{short} {overlapping} {long}");
}

#[test]
fn a_model_does_not_diverge_from_itself_and_a_compressed_cache_diverges_a_little() {
    let text = text();
    let plain = eval("models/tiny-glm", &text);
    let same = eval("models/tiny-glm --against models/tiny-glm", &text);
    assert_eq!([number(&same, "kl_mean"), number(&same, "kl_max")], [0.0, 0.0]);
    assert_eq!(number(&same, "top1_agreement"), 1.0);
    // Both are means of the same log-probabilities, rounded to f32 in one of them.
    assert!((number(&same, "perplexity") / number(&plain, "perplexity") - 1.0).abs() < 1e-6);
    let compressed = eval("models/tiny-glm -cq 4 --against models/tiny-glm", &text);
    let (mean, p95, max) =
        (number(&compressed, "kl_mean"), number(&compressed, "kl_p95"), number(&compressed, "kl_max"));
    assert!(0.0 < mean && mean < p95 && p95 < max && max < 1.0, "{compressed}");
    let agreement = number(&compressed, "top1_agreement");
    assert!((0.8..1.0).contains(&agreement), "{compressed}");
}

#[test]
fn models_of_different_vocabularies_are_not_compared() {
    let llama = llama();
    let text = text();
    let mut command = command("eval models/tiny-glm --against");
    let refusal = finish(command.arg(llama.path()).arg("--text").arg(text.path())).refusal();
    assert!(refusal.contains("cannot be compared"), "{refusal}");
}

#[test]
fn a_text_that_predicts_nothing_is_refused() {
    let text = NamedTempFile::new().unwrap();
    for (content, needed) in [
        ("", "white space"),
        (" \n\t\n", "white space"),
        ("a", "two tokens"),
        ("<|endoftext|>\n", "two tokens"),
    ] {
        std::fs::write(text.path(), content).unwrap();
        let refusal = finish(command("eval models/tiny-glm --text").arg(text.path())).refusal();
        assert!(refusal.contains(needed), "{content:?}: {refusal}");
    }
}

#[test]
fn a_text_without_separators_is_one_document() {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "The ship sailed.").unwrap();
    let alone = number(&eval("models/tiny-glm", &file), "tokens");
    std::fs::write(file.path(), "The ship sailed.\n<|endoftext|>\n").unwrap();
    let ended = number(&eval("models/tiny-glm", &file), "tokens");
    assert_eq!(ended, alone + 1.0);
}

#[test]
fn the_source_model_has_the_perplexity_that_transformers_finds() {
    let Some(shared) = golden::shared() else {
        println!("skipped: ../shared is absent");
        return;
    };
    let run = |model: &str| {
        let mut command = command("eval --max-tokens 10240 --json");
        let found =
            finish(command.arg(shared.join(model)).arg("--text").arg(shared.join("text/valid.txt"))).json();
        number(&found, "perplexity")
    };
    // The first 20 windows of 512; the published figure is for the first 20 of 400.
    let perplexity = run("models/tiny-glm");
    assert!((perplexity / 11.5138 - 1.0).abs() < 1e-3, "{perplexity}");
}
