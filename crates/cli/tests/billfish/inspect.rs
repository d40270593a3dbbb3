//! `billfish inspect`.

use serde_json::Value;

use crate::billfish;

fn bytes(entries: &Value) -> u64 {
    entries.as_array().unwrap().iter().map(|entry| entry["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn json_has_every_tensor_and_a_memory_plan_that_adds_up() {
    let found = billfish("inspect models/tiny-glm -c 1024 --json").json();
    assert_eq!(found["architecture"], "glm4_moe_lite");
    assert_eq!(found["context"], 1024);
    let tensors = found["tensors"].as_array().unwrap();
    let head = tensors.iter().find(|tensor| tensor["name"] == "lm_head").unwrap();
    assert_eq!((&head["bits"], &head["codebook"]), (&6.0.into(), &"mul1".into()));
    assert_eq!(head["shape"], serde_json::json!([8192, 256]));
    let expert = |tensor: &&Value| tensor["name"].as_str().unwrap().contains("mlp.experts.");
    // Five layers of 32 experts with three matrices each.
    assert_eq!(tensors.iter().filter(expert).count(), 5 * 32 * 3);
    let memory = &found["memory"];
    let part = |name: &str| memory[name].as_u64().unwrap();
    assert_eq!(part("total"), part("weights") + part("cache") + part("scratch") + part("host"));
    // 160 numbers a token and layer in f16, and the scratch page.
    assert_eq!(part("cache"), 6 * 160 * 2 * (1024 + 64));
}

#[test]
fn tensors_and_unused_tensors_are_all_that_the_file_holds() {
    let found = billfish("inspect models/tiny-glm --json").json();
    let unused = found["unused"].as_array().unwrap();
    assert!(unused.iter().all(|tensor| tensor["why"] == "multi-token prediction"), "{unused:?}");
    let in_file =
        std::fs::metadata(crate::repository().join("models/tiny-glm/model.safetensors")).unwrap().len();
    let listed = bytes(&found["tensors"]) + bytes(&found["unused"]);
    // The rest is the header, some 100 bytes a tensor, and the codebook marker of each trellis.
    assert!(listed < in_file && in_file - listed < in_file / 20, "{listed} of {in_file}");
}

#[test]
fn a_compressed_cache_takes_less_memory() {
    let cache = |flags: &str| {
        let found = billfish(&format!("inspect models/tiny-glm --json {flags}")).json();
        found["memory"]["cache"].as_u64().unwrap()
    };
    // The rotary 32 of 160 numbers stay in f16; a group of 32 codes has one f16 scale.
    let of = |bits: u64| 6 * (2048 + 64) * (128 / 8 * bits + 128 / 32 * 2 + 32 * 2);
    assert_eq!([cache("-cq 8"), cache("-cq 6"), cache("-cq 4")], [of(8), of(6), of(4)]);
}

#[test]
fn shapes_of_published_models_have_their_published_number_of_parameters() {
    for (shape, parameters) in [
        ("glm-4.7-flash", 29_943_393_920_u64),
        ("llama-3.1-8b", 8_030_261_248),
        ("qwen3-30b-a3b", 30_532_122_624),
    ] {
        let found = billfish(&format!("inspect --shape {shape} -c 4096 --json")).json();
        assert_eq!(found["parameters"], parameters, "{shape}");
    }
}

#[test]
fn the_text_has_one_line_for_experts_that_are_stored_alike() {
    let text = billfish("inspect models/tiny-glm").text();
    assert!(text.contains("model.layers.1.mlp.experts.*.gate_proj"), "{text}");
    assert!(!text.contains("experts.3."), "{text}");
    for needed in ["glm4_moe_lite", "mul1", "multi-token prediction", "total", "available"] {
        assert!(text.contains(needed), "{needed}");
    }
}
