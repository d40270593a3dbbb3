//! `--profile`: its tables and files, on every command that runs steps.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::{Finished, command, finish};

/// Runs a command with a profile into a file, and gives what it left and what it wrote.
fn profiled(words: &str, profile: &str, more: &[&str]) -> (Finished, Value) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("profile.json");
    let flag = format!("--profile={profile}{}", path.display());
    let finished = finish(command(words).arg(flag).args(more));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stderr.contains(&path.display().to_string()), "{}", finished.stderr);
    let profile = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    (finished, profile)
}

fn number(found: &Value, key: &str) -> f64 {
    found[key].as_f64().unwrap_or_else(|| panic!("{key} in {found}"))
}

fn list<'a>(found: &'a Value, key: &str) -> &'a [Value] {
    found[key].as_array().unwrap_or_else(|| panic!("{key} in {found}"))
}

#[test]
fn operations_lie_within_their_step_and_sums_within_its_time() {
    let (words, prompt) = ("run models/tiny-glm -n 4 -t 1", ["-p", "Once upon a time"]);
    let (finished, profile) = profiled(words, "", &prompt);
    assert_eq!(finished.stdout, finish(command(words).args(prompt)).stdout);
    let events = list(&profile, "traceEvents");
    let of = |category: &str| events.iter().filter(|event| event["cat"] == category).collect::<Vec<_>>();
    let (steps, operations) = (of("step"), of("operation"));
    // A prompt and three tokens; the fourth is drawn and not fed.
    assert_eq!(steps.len(), 4);
    let end = |event: &Value| number(event, "ts") + number(event, "dur");
    for pair in steps.windows(2) {
        assert!(end(pair[0]) <= number(pair[1], "ts") + 1e-3);
    }
    let within = |event: &&Value| {
        steps
            .iter()
            .any(|step| number(step, "ts") <= number(event, "ts") + 1e-3 && end(event) <= end(step) + 1e-3)
    };
    assert!(operations.len() > 300 && operations.iter().all(within));
    let mut wall = 0.0;
    for section in list(&profile["summary"], "steps") {
        let sum = |key: &str| list(section, key).iter().map(|row| number(row, "ms")).sum::<f64>();
        let operations = number(section, "operations_ms");
        for key in ["by_operation", "by_layer"] {
            assert!((sum(key) / operations - 1.0).abs() < 1e-6, "{key} of {section}");
        }
        assert!(operations <= number(section, "wall_ms") && number(section, "outside_ms") >= 0.0);
        wall += number(section, "wall_ms");
    }
    let traced: f64 = steps.iter().map(|step| number(step, "dur")).sum();
    assert!((wall * 1e3 / traced - 1.0).abs() < 1e-6);
}

#[test]
fn layers_and_parts_are_those_that_the_names_of_weights_tell() {
    let (finished, profile) = profiled("bench models/tiny-glm -p 0 -n 1 -r 1 --no-warmup", "", &[]);
    let [section] = list(&profile["summary"], "steps") else { panic!("{profile}") };
    assert_eq!((&section["rows"], &section["count"]), (&"one row".into(), &1.into()));
    let layers: Vec<&str> =
        list(section, "by_layer").iter().map(|row| row["layer"].as_str().unwrap()).collect();
    assert_eq!(layers, ["embedding", "0", "1", "2", "3", "4", "5", "head"]);
    let calls: HashMap<(&str, &str), u64> = list(section, "by_operation")
        .iter()
        .map(|row| {
            ((row["op"].as_str().unwrap(), row["part"].as_str().unwrap()), row["calls"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(calls[&("embed", "model.embed_tokens")], 1);
    assert_eq!(calls[&("linear", "lm_head")], 1);
    assert_eq!(calls[&("linear", "self_attn.o_proj")], 6);
    assert_eq!(calls[&("attend_mla", "self_attn.kv_b_proj")], 6);
    assert_eq!(calls[&("experts", "mlp.experts")], 5);
    for text in ["operation", "layer", "mlp.experts", "head", "steps of one row: 1,"] {
        assert!(finished.stderr.contains(text), "{text}: {}", finished.stderr);
    }
}

#[test]
fn every_command_that_runs_steps_takes_a_profile() {
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(text.path(), "The ship sailed, and the captain slept.").unwrap();
    let text = text.path().display().to_string();
    for words in [
        format!("eval models/tiny-glm --window 8 --text {text}"),
        "verify models/tiny-glm --tokens 2 --against reference".to_owned(),
    ] {
        let (_, profile) = profiled(&words, "", &[]);
        assert!(list(&profile, "traceEvents").len() > 100, "{words}");
        let sections = list(&profile["summary"], "steps");
        assert!(sections.iter().any(|section| !list(section, "by_layer").is_empty()), "{words}");
    }
}

#[test]
fn memory_is_told_by_stage_by_layer_and_by_operation() {
    let (finished, profile) = profiled("run models/tiny-glm -n 2 -c 128 -p a", "memory:", &[]);
    let stages: Vec<&str> =
        list(&profile, "stages").iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    let want = [
        "start",
        "model opened",
        "weights loaded",
        "caches reserved",
        "program prepared",
        "first step",
        "end",
    ];
    assert_eq!(stages, want);
    let sum = |rows: &[Value], key: &str| rows.iter().map(|row| number(row, key)).sum::<f64>();
    let weights = sum(list(&profile, "by_layer"), "weights_planned");
    assert_eq!(weights, sum(list(&profile, "by_operation"), "planned"));
    assert!((14e6..20e6).contains(&weights), "{weights}");
    // Two pages and the scratch page, in each of six layers.
    assert!(sum(list(&profile, "by_layer"), "cache_planned") > 0.0);
    let largest = list(&profile, "largest");
    assert_eq!(largest.len(), 10);
    assert!(largest.windows(2).all(|pair| number(&pair[0], "planned") >= number(&pair[1], "planned")));
    if cfg!(target_os = "linux") {
        let measured: Vec<f64> =
            list(&profile, "stages").iter().map(|stage| number(stage, "measured")).collect();
        assert!(measured[2] - measured[0] > weights, "{measured:?}, {weights} planned");
    }
    assert!(finished.stderr.contains("resident after"), "{}", finished.stderr);
}

#[test]
fn both_profiles_can_be_asked_for_and_have_names_by_themselves() {
    let folder = TempDir::new().unwrap();
    let model = crate::repository().join("models/tiny-glm");
    let mut command = command("bench --profile --profile memory -p 2 -n 0 -r 1");
    let finished = finish(command.arg(model).current_dir(folder.path()));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for name in ["billfish-trace.json", "billfish-memory.json"] {
        let text = std::fs::read_to_string(Path::new(folder.path()).join(name)).unwrap();
        assert!(serde_json::from_str::<Value>(&text).unwrap().is_object(), "{name}");
    }
}

#[test]
fn a_profile_that_cannot_be_written_is_an_error() {
    let finished = crate::billfish("run models/tiny-glm -n 1 -p a --profile=no/such/folder/trace.json");
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("error: cannot write the profile"), "{}", finished.stderr);
}
