//! `billfish bench kernel`: what a record holds and how it is printed, never how fast anything is.

use serde_json::Value;

use crate::billfish;

/// Flags that keep a measurement short.
const SHORT: &str = "-t 1 -r 2 --rotate 1";

fn number(record: &Value, key: &str) -> f64 {
    record[key].as_f64().unwrap_or_else(|| panic!("{key} in {record}"))
}

#[test]
fn one_size_is_one_object_whose_rates_follow_from_its_time() {
    let record = billfish(&format!(
        "bench kernel linear --in 384 --out 256 --bits 3 --codebook mcg --rows 2 {SHORT} -o json"
    ))
    .json();
    assert_eq!((&record["test"], &record["codebook"]), (&"linear".into(), &"mcg".into()));
    assert_eq!(["in", "out", "bits", "rows"].map(|key| number(&record, key)), [384.0, 256.0, 3.0, 2.0]);
    // Codes and the signs and scales of both sides.
    let bytes = 384.0 * 256.0 * 3.0 / 8.0 + 2.0 * (384.0 + 256.0);
    assert_eq!(number(&record, "bytes"), bytes);
    assert_eq!(number(&record, "copies"), (1e6 / bytes).ceil());
    let ns = number(&record, "us") * 1e3;
    let near = |key: &str, want: f64| {
        let found = number(&record, key);
        assert!((found / want - 1.0).abs() < 1e-9, "{key}: {found}, needed {want}");
    };
    near("weights_per_ns", 384.0 * 256.0 * 2.0 / ns);
    near("gbps", bytes / ns);
    near("roofline_share", bytes / ns / number(&record, "read_gbps"));
    assert_eq!(record["samples_us"].as_array().unwrap().len(), 2);
    assert_eq!(record["threads"], 1);
    assert!(record["device"].as_str().unwrap().contains("1 thread"), "{record}");
    assert!(!record["commit"].as_str().unwrap().is_empty());
}

#[test]
fn lists_give_every_combination_in_every_format() {
    let flags = format!("bench kernel linear --in 128,256 --out 128 --bits 2,2.5,f16 --rows 1,3 {SHORT}");
    let list = billfish(&format!("{flags} -o json")).json();
    let list = list.as_array().unwrap();
    let sizes: Vec<_> = list.iter().map(|row| ["in", "bits", "rows"].map(|key| number(row, key))).collect();
    let mut want = Vec::new();
    for inputs in [128.0, 256.0] {
        for bits in [2.0, 2.5, 16.0] {
            want.extend([1.0, 3.0].map(|rows| [inputs, bits, rows]));
        }
    }
    assert_eq!(sizes, want);
    let lines = billfish(&format!("{flags} -o jsonl")).text();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 12);
    assert_eq!(lines[4]["codebook"], "plain");
    let csv = billfish(&format!("{flags} -o csv")).text();
    assert_eq!(csv.lines().count(), 13);
    assert!(csv.starts_with("test,in,out,bits,codebook,rows,us,stddev_us,samples_us,weights_per_ns,gbps,"));
    let table = billfish(&flags).text();
    assert_eq!(table.lines().filter(|line| line.starts_with("| linear |")).count(), 12, "{table}");
}

#[test]
fn every_operation_can_be_timed_alone() {
    let operations = [
        "linear --in 128 --out 128",
        "experts --experts 6/2 --hidden 128 --width 128 --shared 128 --rows 1,3",
        "attend --heads 4 --kv-heads 2 --dims 32 --depth 0,70 --batch 2",
        "attend --heads 4 --kv-heads 2 --dims 32 --depth 70 --rows 3 -cq 6",
        "attend-mla --heads 2 --nope 32 --rotary 16 --value 32 --rank 64 --depth 70",
        "rms-norm --cols 100",
        "add-rms-norm --cols 100",
        "add --cols 100",
        "act-mul --cols 100",
        "rope --cols 128 --dims 64",
        "cache-write --cols 128 -cq 8",
        "embed --cols 100 --rows 2",
    ];
    for (device, operations) in [("cpu", &operations[..]), ("reference", &operations[..2])] {
        for operation in operations {
            let flags = "--rotate 0 -r 1 -o jsonl";
            let text = billfish(&format!("bench kernel {operation} --device {device} {flags}")).text();
            for line in text.lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                let name = operation.split(' ').next().unwrap().replace('-', "_");
                assert_eq!(record["test"], name.as_str());
                assert_eq!(number(&record, "copies"), 1.0);
                assert!(number(&record, "us") > 0.0 && number(&record, "gbps") > 0.0, "{record}");
            }
        }
    }
}

#[test]
fn the_parts_of_routing_add_up() {
    let flags = "bench kernel route --experts 8/2 --hidden 128 --width 128 --rows 1,5";
    let records = billfish(&format!("{flags} {SHORT} -o json")).json();
    let records = records.as_array().unwrap();
    assert_eq!(records.len(), 2);
    for record in records {
        let parts = ["logits_us", "top_k_us", "normalise_us", "grouping_us"].map(|key| number(record, key));
        assert!(parts.iter().all(|part| *part >= 0.0), "{record}");
        assert!((number(record, "route_us") / parts.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{record}");
        let share = number(record, "share");
        assert!(share > 0.0 && share.is_finite(), "{record}");
    }
}

#[test]
fn sizes_that_do_not_fit_together_are_wrong_usage() {
    for words in [
        "linear --bits 9",
        "linear --bits 2.5 --codebook mcg",
        "linear --rows 0",
        "attend --heads 5 --kv-heads 2",
        "attend --dims 20 --kv-heads 1 -cq 4",
        "rope --cols 100 --dims 64",
        "experts --experts 4/5",
        "experts --experts 4",
        "dance",
    ] {
        let finished = billfish(&format!("bench kernel {words}"));
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{words}: {}", finished.stderr);
    }
}

#[test]
fn a_layer_of_experts_is_timed_for_one_user_many_and_a_prompt_within_budgets() {
    let flags = "bench moe --experts 8/2 --hidden 128 --width 256 --shared 128 --bits 3 -t 1 -r 1 --rotate 0";
    let finished = billfish(&format!("{flags} --batch 1,3 --prompt 5 -o json"));
    let records: Value = serde_json::from_str(&finished.text()).unwrap();
    let records = records.as_array().unwrap();
    let cases: Vec<_> = records.iter().map(|record| (&record["use_case"], number(record, "rows"))).collect();
    let want =
        [("one_user", 1.0), ("many_users", 3.0), ("prompt", 5.0)].map(|(case, rows)| (case.into(), rows));
    assert!(
        cases.iter().zip(&want).all(|((case, rows), want)| (*case, *rows) == (&want.0, want.1)),
        "{cases:?}"
    );
    for record in records {
        let us = number(record, "us");
        assert!(
            (number(record, "tokens_per_second") / (number(record, "rows") * 1e6 / us) - 1.0).abs() < 1e-9
        );
        // Codes, and the signs and scales of both sides of each of eight experts.
        let projection = 8.0 * (128.0 * 256.0 * 3.0 / 8.0 + 2.0 * (128.0 + 256.0));
        let parts = ["gate_bytes", "up_bytes", "down_bytes"].map(|key| number(record, key));
        assert_eq!(parts, [projection; 3]);
        assert_eq!(number(record, "least_bytes"), (8.0 * 256.0 + 128.0) * 128.0 * 3.0 * 3.0 / 8.0);
        assert!(number(record, "scratch_bytes") > 0.0);
    }
    let finished = billfish(&format!("{flags} --batch 1 --prompt 0 --budget-ms 0.000001"));
    assert_eq!(finished.code, Some(3));
    assert!(finished.stderr.contains("missed: 1 rows took"), "{}", finished.stderr);
}
