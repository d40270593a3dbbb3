//! Whether `inspect` predicts what `run` takes.

#![cfg(target_os = "linux")]

use model::Shape;

use crate::{command, finish};

/// A size as `--verbose` prints it.
fn bytes(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap();
    let unit = match unit {
        "GB" => 1e9,
        "MB" => 1e6,
        other => panic!("{other}"),
    };
    number.parse::<f64>().unwrap() * unit
}

#[test]
fn the_peak_memory_of_a_large_model_is_within_10_percent_of_the_plan() {
    let folder = tempfile::TempDir::new().unwrap();
    let shape = Shape::named("llama-3.2-1b").unwrap().with_layers(4);
    model::write_checkpoint(&shape, folder.path()).unwrap();
    // The context is filled, so that all of the cache is in use.
    let prompt = "The ship sailed. ".repeat(15);
    let run = |words: &str| finish(command(words).arg(folder.path()));
    let planned = run("inspect --json -c 256").json()["memory"]["total"].as_f64().unwrap();
    assert!(planned > 500e6, "{planned}");
    let finished = finish(command("run -v -n 8 -c 256 -p").arg(prompt).arg(folder.path()));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let line = finished.stderr.lines().find_map(|line| line.strip_prefix("memory: ")).unwrap();
    let peak = line.split_once(" planned, ").unwrap().1.strip_suffix(" at most so far").unwrap();
    let ratio = bytes(peak) / planned;
    assert!((0.9..1.1).contains(&ratio), "{peak} of {planned} bytes planned");
}
