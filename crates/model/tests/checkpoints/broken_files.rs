//! Broken files and folders, one test each.

use serde_json::{Value, json};

use crate::folder::{Folder, LLAMA, join, may_read_all, serialize};

const DAMAGED: &str = "the file is damaged or was not fetched wholly; fetch it again";

#[test]
fn a_truncated_shard_is_refused_with_the_tensor_that_is_cut() {
    let folder = Folder::with(LLAMA);
    let file = folder.read("model.safetensors");
    folder.write("model.safetensors", &file[..file.len() - 1000]);
    let (cut, whole) = (file.len() - 1000, file.len());
    assert_eq!(
        folder.refusal(),
        format!("model.safetensors: lm_head.mul1: ends at byte {whole} of a file of {cut} bytes; {DAMAGED}")
    );
}

#[test]
fn a_shard_cut_within_its_header_is_refused() {
    let folder = Folder::with(LLAMA);
    let file = folder.read("model.safetensors");
    let header = u64::from_le_bytes(*file.first_chunk().unwrap());
    folder.write("model.safetensors", &file[..100]);
    assert_eq!(
        folder.refusal(),
        format!("model.safetensors: the file has 100 bytes, its header alone announces {header}; {DAMAGED}")
    );
    folder.write("model.safetensors", "");
    assert_eq!(
        folder.refusal(),
        format!("model.safetensors: ends after 0 bytes, before the header; {DAMAGED}")
    );
}

#[test]
fn a_header_that_is_too_large_is_refused() {
    let folder = Folder::with(LLAMA);
    let mut file = folder.read("model.safetensors");
    file[..8].copy_from_slice(&100_000_001u64.to_le_bytes());
    folder.write("model.safetensors", &file);
    assert_eq!(
        folder.refusal(),
        format!(
            "model.safetensors: the header is too large (100000001 bytes, at most 100,000,000 are read); {DAMAGED}"
        )
    );
}

#[test]
fn a_header_that_is_no_json_is_refused() {
    let folder = Folder::with(LLAMA);
    for (header, what) in [
        ("version https://git-lfs", "the header is no JSON of tensors (expected value at line 1 column 1)"),
        ("[1, 2]", "the header is no JSON of tensors (invalid type: sequence, expected "),
        (
            r#"{"a": {"dtype": "F17", "shape": [], "data_offsets": [0, 0]}}"#,
            "the header is no JSON of tensors (unknown variant",
        ),
    ] {
        folder.write("model.safetensors", join(header, &[]));
        let refusal = folder.refusal();
        assert!(refusal.starts_with(&format!("model.safetensors: {what}")), "{refusal}");
        assert!(refusal.ends_with(DAMAGED), "{refusal}");
    }
    folder.write("model.safetensors", [&3u64.to_le_bytes()[..], &[0xff, 0xfe, 0xfd]].concat());
    assert_eq!(folder.refusal(), format!("model.safetensors: the header is no text; {DAMAGED}"));
}

#[test]
fn offsets_past_the_end_are_refused() {
    let folder = Folder::with(LLAMA);
    folder.change_header(|header| {
        let last = &mut header["model.norm.weight"];
        let end = last["data_offsets"][1].as_u64().unwrap() + 1_000_000;
        last["data_offsets"] = json!([end - 256, end]);
    });
    let size = folder.read("model.safetensors").len();
    let refusal = folder.refusal();
    assert!(refusal.starts_with("model.safetensors: model.norm.weight: ends at byte "), "{refusal}");
    assert!(refusal.ends_with(&format!(" of a file of {size} bytes; {DAMAGED}")), "{refusal}");
}

#[test]
fn overlapping_tensors_are_refused() {
    let folder = Folder::with(LLAMA);
    folder.change_header(|header| {
        header["model.layers.1.input_layernorm.weight"]["data_offsets"] =
            header["model.layers.0.input_layernorm.weight"]["data_offsets"].clone();
    });
    let refusal = folder.refusal();
    assert!(refusal.starts_with("model.safetensors: model.layers."), "{refusal}");
    assert!(refusal.contains(".input_layernorm.weight: its offsets overlap another tensor's"), "{refusal}");
}

#[test]
fn a_shape_that_contradicts_its_offsets_is_refused_with_the_tensor() {
    let folder = Folder::with(LLAMA);
    folder.change_header(|header| header["model.norm.weight"]["shape"] = json!([127]));
    let sentence =
        format!("model.safetensors: model.norm.weight: its shape and its offsets disagree; {DAMAGED}");
    assert_eq!(folder.refusal(), sentence);
    folder
        .change_header(|header| header["model.norm.weight"]["shape"] = json!([u32::MAX, u32::MAX, u32::MAX]));
    assert_eq!(folder.refusal(), sentence);
}

#[test]
fn bytes_after_the_last_tensor_are_refused() {
    let folder = Folder::with(LLAMA);
    folder.write("model.safetensors", [folder.read("model.safetensors"), vec![0; 8]].concat());
    assert_eq!(folder.refusal(), format!("model.safetensors: has bytes after its last tensor; {DAMAGED}"));
}

#[test]
fn an_index_that_names_an_absent_shard_is_refused() {
    let folder = Folder::with(LLAMA);
    in_two_shards(&folder);
    std::fs::remove_file(folder.path("model-00002-of-00002.safetensors")).unwrap();
    assert_eq!(
        folder.refusal(),
        "model.safetensors.index.json: names the file model-00002-of-00002.safetensors, which is not there; fetch it"
    );
}

#[test]
fn an_index_and_its_shards_must_agree_both_ways() {
    let folder = Folder::with(LLAMA);
    let index = in_two_shards(&folder);
    folder.open().unwrap();

    let mut more = index.clone();
    more["weight_map"]["model.extra.weight"] = "model-00001-of-00002.safetensors".into();
    folder.write("model.safetensors.index.json", more.to_string());
    assert_eq!(
        folder.refusal(),
        "model.safetensors.index.json: model.extra.weight: is said to be in model-00001-of-00002.safetensors, which \
         does not have it; fetch both again"
    );

    let mut fewer = index.clone();
    fewer["weight_map"].as_object_mut().unwrap().remove("model.norm.weight");
    folder.write("model.safetensors.index.json", fewer.to_string());
    assert_eq!(
        folder.refusal(),
        "model.safetensors.index.json: model.norm.weight: is in model-00002-of-00002.safetensors, but not according to \
         this index; fetch both again"
    );
}

#[test]
fn an_index_that_is_none_or_leads_out_of_the_folder_is_refused() {
    let folder = Folder::with(LLAMA);
    folder.write("model.safetensors.index.json", "{}");
    assert_eq!(folder.refusal(), "model.safetensors.index.json: has no object weight_map");
    folder.write("model.safetensors.index.json", r#"{"weight_map": {"a": "../model.safetensors"}}"#);
    assert_eq!(
        folder.refusal(),
        "model.safetensors.index.json: a: is said to be in \"../model.safetensors\", the name of a file in this folder is \
         needed"
    );
}

#[test]
fn a_tensor_in_two_shards_is_refused() {
    let folder = Folder::with(LLAMA);
    let mut tensors = folder.tensors();
    std::fs::remove_file(folder.path("model.safetensors")).unwrap();
    let second = tensors.split_off("model.norm.weight");
    tensors.extend(second.clone());
    folder.write("model-00001-of-00002.safetensors", serialize(&tensors));
    folder.write("model-00002-of-00002.safetensors", serialize(&second));
    assert_eq!(
        folder.refusal(),
        "model-00002-of-00002.safetensors: model.norm.weight: is in model-00001-of-00002.safetensors too; only one of the \
         two belongs here"
    );
}

#[test]
fn shards_without_an_index_are_read_and_must_be_complete() {
    let folder = Folder::with(LLAMA);
    in_two_shards(&folder);
    std::fs::remove_file(folder.path("model.safetensors.index.json")).unwrap();
    folder.open().unwrap();
    std::fs::remove_file(folder.path("model-00001-of-00002.safetensors")).unwrap();
    assert_eq!(
        folder.refusal(),
        "FOLDER: has 1 of 2 shards and no model.safetensors.index.json; fetch the others"
    );
}

#[test]
fn folders_without_configuration_or_weights_are_refused() {
    let folder = Folder::with(LLAMA);
    std::fs::remove_file(folder.path("model.safetensors")).unwrap();
    assert_eq!(
        folder.refusal(),
        "FOLDER: has no model.safetensors and no shards; weights in safetensors files are needed"
    );
    std::fs::remove_file(folder.path("config.json")).unwrap();
    assert_eq!(folder.refusal(), "FOLDER: has no config.json; the folder of a whole checkpoint is needed");
}

#[test]
fn what_is_no_folder_or_no_file_is_refused() {
    let folder = Folder::empty();
    let absent =
        model::Model::open(&folder.path("absent"), &model::BuildOptions { cache: program::Format::F16 });
    assert!(absent.err().unwrap().to_string().ends_with("absent: there is no such file or folder"));

    let folder = Folder::with(LLAMA);
    let file = folder.path("config.json");
    let opened = model::Model::open(&file, &model::BuildOptions { cache: program::Format::F16 });
    assert!(opened.err().unwrap().to_string().ends_with(": is a file; the folder of a checkpoint is needed"));

    std::fs::remove_file(folder.path("model.safetensors")).unwrap();
    std::fs::create_dir(folder.path("model.safetensors")).unwrap();
    assert_eq!(folder.refusal(), "model.safetensors: is no regular file");
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with(LLAMA);
    for file in ["model.safetensors", "tokenizer.json", "config.json"] {
        let path = folder.path(file);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        if may_read_all(&path) {
            println!("skipped: this user may read every file");
            return;
        }
        assert_eq!(folder.refusal(), format!("{file}: permission denied; make it readable for this user"));
    }
}

#[test]
fn a_folder_of_the_old_kind_is_recognised_and_refused() {
    let old = "FOLDER: is a folder of the old \"trellis_v2\" kind, which is no trellis code; quantise the original model \
               again";
    let folder = Folder::empty();
    folder.write("quantization_index.json", "{}");
    assert_eq!(folder.refusal(), old);

    let folder = Folder::empty();
    std::fs::create_dir(folder.path("layer_0000")).unwrap();
    assert_eq!(folder.refusal(), old);

    let folder = Folder::changed(LLAMA, |tensors| {
        let tensor = tensors.remove("model.norm.weight").unwrap();
        tensors.insert("model.layers.0.self_attn.q_proj__indices".into(), tensor);
    });
    assert_eq!(folder.refusal(), old);
}

/// Splits the weights into two files with an index, and gives the index.
fn in_two_shards(folder: &Folder) -> Value {
    let mut tensors = folder.tensors();
    std::fs::remove_file(folder.path("model.safetensors")).unwrap();
    let second = tensors.split_off("model.layers.1.");
    let mut map = serde_json::Map::new();
    for (file, tensors) in
        [("model-00001-of-00002.safetensors", tensors), ("model-00002-of-00002.safetensors", second)]
    {
        map.extend(tensors.keys().map(|name| (name.clone(), file.into())));
        folder.write(file, serialize(&tensors));
    }
    let index = json!({ "metadata": { "total_size": 0 }, "weight_map": map });
    folder.write("model.safetensors.index.json", index.to_string());
    index
}
