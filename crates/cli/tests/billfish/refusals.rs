//! Input that is broken: exit code 1 and one sentence that names the place.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::checkpoints::{llama_shape, tiny_glm};
use crate::{billfish, command, finish};

/// What `run` says of a model folder.
fn refusal(folder: &TempDir) -> String {
    finish(command("run -p Once -n 1").arg(folder.path())).refusal()
}

fn assert_names(refusal: &str, needed: &[&str]) {
    for part in needed {
        assert!(refusal.contains(part), "{part} is not in: {refusal}");
    }
}

/// Changes a JSON file.
fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut json);
    std::fs::write(path, json.to_string()).unwrap();
}

/// Changes the bytes of the weights' file.
fn damage(folder: &TempDir, change: impl FnOnce(&mut Vec<u8>)) {
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

/// Where a text stands in a file for the first time.
fn find(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap()
}

#[test]
fn a_folder_that_is_not_there() {
    let refusal = billfish("run models/nowhere -p Once").refusal();
    assert_names(&refusal, &["there is no folder models/nowhere", "not in the cache"]);
}

#[test]
fn a_folder_without_a_configuration() {
    let folder = tiny_glm();
    std::fs::remove_file(folder.path().join("config.json")).unwrap();
    assert_names(&refusal(&folder), &["config.json"]);
}

#[test]
fn a_configuration_without_a_needed_key() {
    let folder = tiny_glm();
    edit(&folder.path().join("config.json"), |config| {
        config.as_object_mut().unwrap().remove("kv_lora_rank");
    });
    assert_names(&refusal(&folder), &["config.json", "kv_lora_rank"]);
}

#[test]
fn a_truncated_file_of_weights() {
    let folder = tiny_glm();
    damage(&folder, |bytes| bytes.truncate(bytes.len() / 2));
    assert_names(&refusal(&folder), &["model.safetensors"]);
}

#[test]
fn a_header_that_is_no_json() {
    let folder = tiny_glm();
    damage(&folder, |bytes| bytes[8] = b'?');
    assert_names(&refusal(&folder), &["model.safetensors", "JSON"]);
}

#[test]
fn a_tensor_of_another_name() {
    let folder = tiny_glm();
    damage(&folder, |bytes| {
        let at = find(bytes, "model.norm.weight");
        bytes[at..at + 17].copy_from_slice(b"model.norn.weight");
    });
    let refusal = refusal(&folder);
    assert!(refusal.contains("model.norm.weight") || refusal.contains("model.norn.weight"), "{refusal}");
}

#[test]
fn a_tokenizer_with_an_id_that_the_model_does_not_have() {
    let folder = tiny_glm();
    edit(&folder.path().join("tokenizer.json"), |tokenizer| {
        let added = tokenizer["added_tokens"].as_array_mut().unwrap();
        let mut one_more = added.last().unwrap().clone();
        one_more["content"] = "<one more>".into();
        one_more["id"] = 8192.into();
        added.push(one_more);
    });
    assert_names(&refusal(&folder), &["tokenizer.json", "8192"]);
}

#[test]
fn a_model_without_a_tokenizer() {
    let folder = tiny_glm();
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    assert_names(&refusal(&folder), &["tokenizer.json"]);
}

#[test]
fn a_prompt_that_is_no_text() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"Once \xff").unwrap();
    let refusal = finish(command("run models/tiny-glm -f").arg(file.path())).refusal();
    assert_names(&refusal, &[file.path().to_str().unwrap(), "UTF-8"]);
}

#[test]
fn a_context_longer_than_the_model_was_made_for() {
    assert_names(&billfish("run models/tiny-glm -p Once -c 2049").refusal(), &["2048", "2049"]);
}

#[test]
fn a_context_longer_than_memory_allows_says_what_would_fit() {
    let (_folder, shape) = llama_shape();
    let refusal = finish(command("run -p Once -c 268435456 --layers 256 --shape").arg(shape)).refusal();
    assert_names(&refusal, &["268435456", "available", "-c ", "would fit"]);
}

#[test]
fn control_characters_of_a_tensors_name_are_not_sent_to_the_terminal() {
    let folder = tiny_glm();
    damage(&folder, |bytes| {
        let at = find(bytes, "model.layers.6.hnorm.weight");
        bytes[at..at + 27].copy_from_slice(br"model.norm.\u001b[2J.weight");
    });
    assert_names(&refusal(&folder), &[r"model.norm.\u{1b}[2J.weight", "no part of this architecture"]);
}

#[test]
fn more_tokens_to_verify_than_the_model_was_made_for() {
    let refusal = billfish("verify models/tiny-glm --tokens 2048 --against reference").refusal();
    assert_names(&refusal, &["2048 tokens of context"]);
}
