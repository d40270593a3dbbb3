//! `billfish bench`: which records it prints, what they hold, and its exit codes; never how fast anything is.

use serde_json::Value;

use crate::billfish;

const TINY: &str = "bench models/tiny-glm -r 2";

fn number(record: &Value, key: &str) -> f64 {
    record[key].as_f64().unwrap_or_else(|| panic!("{key} in {record}"))
}

/// The records of a run, whose progress goes to stderr.
fn records(flags: &str) -> Vec<Value> {
    let finished = billfish(&format!("{flags} -o json"));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let records: Vec<Value> = serde_json::from_str(&finished.stdout).unwrap();
    for record in &records {
        let test = record["test"].as_str().unwrap();
        assert!(finished.stderr.lines().any(|line| line.starts_with(&format!("{test}: "))), "{test}");
    }
    records
}

fn names(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["test"].as_str().unwrap()).collect()
}

#[test]
fn prompts_come_before_answers_and_a_record_holds_what_was_measured_where() {
    let records = records(&format!("{TINY} -p 24 -n 3"));
    assert_eq!(names(&records), ["pp24", "tg3"]);
    for record in &records {
        let samples: Vec<f64> = serde_json::from_value(record["samples_ts"].clone()).unwrap();
        let mean = (samples[0] + samples[1]) / 2.0;
        assert_eq!(samples.len(), 2);
        assert!((number(record, "avg_ts") / mean - 1.0).abs() < 1e-9, "{record}");
        let deviation = (samples[0] - samples[1]).abs() / 2_f64.sqrt();
        assert!((number(record, "stddev_ts") - deviation).abs() < 1e-6 * mean, "{record}");
        let share = number(record, "bytes_per_token") * mean / number(record, "read_bandwidth");
        assert!((number(record, "roofline_share") / share - 1.0).abs() < 1e-9, "{record}");
        assert_eq!((&record["model"], &record["batch"]), (&"models/tiny-glm".into(), &1.into()));
        for key in ["device", "machine", "commit", "version", "architecture", "kv_cache"] {
            assert!(!record[key].as_str().unwrap().is_empty(), "{key}");
        }
        assert!(number(record, "threads") >= 1.0);
        // A token reads less than all weights: of the experts a few, of the table one row.
        assert!(number(record, "bytes_per_token") < number(record, "weight_bytes"));
        assert!(number(record, "planned_memory_bytes") > number(record, "weight_bytes"));
        if cfg!(target_os = "linux") {
            assert!(number(record, "peak_memory_bytes") > number(record, "weight_bytes"));
        }
    }
    // Rows of a prompt share what they read.
    assert!(number(&records[0], "bytes_per_token") < number(&records[1], "bytes_per_token"));
}

#[test]
fn lists_give_every_test_in_order() {
    let all = records(&format!("{TINY} -p 4,5 -n 2 -d 0,70 --batch 1,3"));
    assert_eq!(
        names(&all),
        ["pp4", "pp5", "tg2", "tg2 b3", "pp4 @ d70", "pp5 @ d70", "tg2 @ d70", "tg2 b3 @ d70"]
    );
    let fields =
        |record: &Value| ["n_prompt", "n_gen", "n_depth", "batch"].map(|key| record[key].as_u64().unwrap());
    assert_eq!(fields(&all[5]), [5, 0, 70, 1]);
    assert_eq!(fields(&all[7]), [0, 2, 70, 3]);
    assert_eq!(names(&records(&format!("{TINY} -p 0 -n 2"))), ["tg2"]);
    assert_eq!(names(&records(&format!("{TINY} -p 4 -n 0"))), ["pp4"]);
}

#[test]
fn every_format_holds_the_same_tests() {
    let run = |format: &str| {
        let finished = billfish(&format!("{TINY} -p 4 -n 2 {format}"));
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        finished.stdout
    };
    let table = run("-o md");
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 4, "{table}");
    assert!(rows.iter().all(|row| row.starts_with("| ") && row.ends_with('|')), "{table}");
    assert!(rows[2].contains("pp4") && rows[3].contains("tg2") && rows[3].contains('±'), "{table}");
    let csv = run("-o csv");
    assert!(csv.starts_with("test,model,") && csv.contains("\npp4,") && csv.contains("\ntg2,"), "{csv}");
    let lines = run("-o jsonl");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(names(&lines), ["pp4", "tg2"]);
}

#[test]
fn a_shape_is_measured_without_a_checkpoint() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("config.json");
    let mut config: Value =
        serde_json::from_str(include_str!("../../../../models/tiny-glm/config.json")).unwrap();
    config.as_object_mut().unwrap().remove("quantization_config");
    std::fs::write(&path, config.to_string()).unwrap();
    let flags = "--bits 2.5 --layers 2 -p 4 -n 2 -r 1 -t 1";
    let records = records(&format!("bench --shape {} {flags}", path.display()));
    for record in &records {
        assert_eq!((number(record, "bits"), number(record, "layers")), (2.5, 2.0));
        assert_eq!((&record["codebook"], &record["threads"]), (&"mul1".into(), &1.into()));
        assert_eq!(number(record, "stddev_ts"), 0.0);
    }
}

#[test]
fn a_missed_bar_has_exit_code_3_and_a_reached_one_none() {
    let run = |bars: &str| billfish(&format!("{TINY} -p 0 -n 2 {bars}"));
    assert_eq!(run("--at-least tg2=0.001 --budget-bytes 1000000000000").code, Some(0));
    let slow = run("--at-least tg2=1e12");
    assert_eq!(slow.code, Some(3));
    assert!(slow.stdout.contains("tg2") && slow.stderr.contains("missed: tg2: "), "{}", slow.stderr);
    if cfg!(target_os = "linux") {
        let large = run("--budget-bytes 1000");
        assert_eq!(large.code, Some(3));
        assert!(large.stderr.contains("missed: memory: "), "{}", large.stderr);
    }
}

#[test]
fn tests_that_cannot_be_run_are_refused_before_anything_is_loaded() {
    for words in ["-n 0", "-n 2 --at-least tg7=1", "-n 2 --at-least tg2", "-n 2 --batch 0", "-n 2 --chunk 0"]
    {
        let finished = billfish(&format!("{TINY} -p 0 {words}"));
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{words}: {}", finished.stderr);
    }
    let refusal = billfish(&format!("{TINY} -p 4000 -n 0")).refusal();
    assert!(refusal.contains("tokens of context"), "{refusal}");
}
