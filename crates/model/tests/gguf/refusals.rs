//! What is not read from GGUF files, and what contradicts itself, by name.

use half::f16;
use model::Model;

use crate::writer::{Gguf, OPTIONS, Tensor, Value, f32_value, flag, list, text, u32_value};

/// The sentence that a changed file is refused with.
fn refusal(change: impl FnOnce(&mut Gguf)) -> String {
    let mut gguf = Gguf::llama();
    change(&mut gguf);
    let model = match gguf.file().open() {
        Err(error) => return error.to_string(),
        Ok(model) => model,
    };
    let mut device = program::reference::Reference::new();
    model.load(&mut device, &mut |_| {}).expect_err("the file is accepted").to_string()
}

fn says(refusal: &str, parts: &[&str]) {
    for part in parts.iter().chain(&["small.gguf"]) {
        assert!(refusal.contains(part), "{part} is not in: {refusal}");
    }
}

#[test]
fn other_architectures_and_what_llamas_may_have_besides() {
    let cases: [(&str, Value, &[&str]); 9] = [
        ("general.architecture", text("qwen3"), &["\"qwen3\"", "only \"llama\""]),
        ("llama.expert_count", u32_value(8), &["llama.expert_count", "is 8"]),
        ("split.count", u32_value(3), &["split.count", "is 3"]),
        ("llama.rope.scaling.type", text("yarn"), &["\"yarn\"", "safetensors"]),
        ("llama.rope.dimension_count", u32_value(8), &["is 8", "16 dimensions"]),
        ("tokenizer.ggml.model", text("llama"), &["\"llama\"", "only \"gpt2\"", "tokenizer.json"]),
        ("tokenizer.ggml.pre", text("qwen2"), &["\"qwen2\"", "only \"smollm\""]),
        ("general.alignment", u32_value(0), &["general.alignment", "is 0"]),
        ("llama.attention.head_count", u32_value(0), &["llama.attention.head_count", "is 0"]),
    ];
    for (key, value, parts) in cases {
        says(&refusal(|gguf| gguf.set(key, value)), parts);
    }
    says(
        &refusal(|gguf| {
            let data = vec![0; 4 * 8];
            gguf.tensors.push(Tensor { name: "rope_freqs.weight".into(), sides: vec![8], format: 0, data });
        }),
        &["rope_freqs.weight", "rotary", "safetensors"],
    );
}

#[test]
fn keys_that_are_absent_or_of_another_kind() {
    for key in ["llama.block_count", "llama.context_length", "tokenizer.ggml.merges", "general.architecture"]
    {
        says(&refusal(|gguf| gguf.metadata.retain(|(known, _)| known != key)), &[key, "is absent"]);
    }
    says(
        &refusal(|gguf| gguf.set("llama.block_count", text("two"))),
        &["llama.block_count", "\"two\"", "whole number"],
    );
    says(
        &refusal(|gguf| gguf.set("llama.rope.freq_base", flag(true))),
        &["llama.rope.freq_base", "a number"],
    );
    says(
        &refusal(|gguf| gguf.set("tokenizer.ggml.tokens", f32_value(1.0))),
        &["tokenizer.ggml.tokens", "a list"],
    );
    says(
        &refusal(|gguf| gguf.metadata.push(("split.count".into(), Value(13, vec![])))),
        &["unknown kind 13"],
    );
    says(
        &refusal(|gguf| gguf.metadata.push(("llama.block_count".into(), u32_value(1)))),
        &["llama.block_count twice"],
    );
}

#[test]
fn tokens_that_contradict_each_other() {
    let tokens = |change: fn(&mut Vec<String>)| {
        let mut tokens = crate::writer::tokens();
        change(&mut tokens);
        list(&tokens.iter().map(|token| text(token)).collect::<Vec<_>>())
    };
    let key = "tokenizer.ggml.tokens";
    says(&refusal(|gguf| gguf.set(key, tokens(|all| all[3] = all[4].clone()))), &[key, "twice"]);
    says(
        &refusal(|gguf| gguf.set(key, tokens(|all| all.truncate(250)))),
        &["token_type", "260 values for 250"],
    );
    says(&refusal(|gguf| gguf.set(key, tokens(|all| all[256] = "x y".into()))), &["merges", "\"t h\""]);
    let key = "tokenizer.ggml.merges";
    says(&refusal(|gguf| gguf.set(key, list(&[text("th")]))), &[key, "\"th\""]);
    says(&refusal(|gguf| gguf.set(key, list(&[u32_value(1)]))), &[key, "something else than texts"]);
}

#[test]
fn tensors_that_are_absent_left_over_or_of_another_shape() {
    says(
        &refusal(|gguf| gguf.tensors.retain(|tensor| tensor.name != "blk.1.ffn_up.weight")),
        &["model.layers.1.mlp.up_proj", "blk.1.ffn_up.weight"],
    );
    says(&refusal(|gguf| gguf.tensor("token_embd.weight").name = "embd".into()), &["token_embd.weight"]);
    says(
        &refusal(|gguf| {
            let data = vec![0; 4 * 64];
            gguf.tensors.push(Tensor { name: "blk.0.attn_q.bias".into(), sides: vec![64], format: 0, data });
        }),
        &["blk.0.attn_q.bias", "no part of this architecture"],
    );
    says(
        &refusal(|gguf| gguf.tensor("blk.0.ffn_up.weight").sides = vec![96, 64]),
        &["ffn_up", "[64, 96]", "[96, 64]"],
    );
    says(&refusal(|gguf| gguf.tensor("blk.0.ffn_up.weight").sides = vec![1; 5]), &["5 dimensions"]);
    says(
        &refusal(|gguf| gguf.tensor("blk.0.ffn_up.weight").sides = vec![u64::MAX, 2]),
        &["blk.0.ffn_up.weight"],
    );
    says(&refusal(|gguf| gguf.tensor("blk.0.ffn_up.weight").format = 10), &["number format 10", "q6_k"]);
    says(&refusal(|gguf| gguf.tensor("blk.0.attn_norm.weight").sides = vec![8, 8]), &["attn_norm", "[8, 8]"]);
    says(
        &refusal(|gguf| {
            let down = gguf.tensor("blk.0.ffn_down.weight");
            (down.sides, down.format) = (vec![8, 768], 2);
        }),
        &["blk.0.ffn_down.weight", "rows of 8 numbers", "32"],
    );
    says(
        &refusal(|gguf| gguf.tensor("output.weight").data.truncate(64)),
        &["output.weight", "not all in the file"],
    );
    // The tensor after it begins where this one goes on.
    says(&refusal(|gguf| gguf.tensor("blk.0.attn_q.weight").data.truncate(64)), &["shares bytes with"]);
}

#[test]
fn numbers_that_are_none() {
    says(
        &refusal(|gguf| gguf.tensor("output_norm.weight").data[..4].copy_from_slice(&f32::NAN.to_le_bytes())),
        &["model.norm.weight", "NaN"],
    );
    says(
        &refusal(|gguf| {
            let table = gguf.tensor("token_embd.weight");
            table.format = 8;
            table.data = [&f16::INFINITY.to_le_bytes()[..], &[1; 32]].concat().repeat(260 * 2);
        }),
        &["model.embed_tokens", "inf"],
    );
}

#[test]
fn what_is_no_gguf_file_or_not_the_only_one() {
    let file = Gguf::llama().file();
    let bytes = std::fs::read(file.path()).unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        crate::writer::File::new(&bytes).open().err().unwrap().to_string()
    };
    says(&with(0, b'g'), &["no GGUF file"]);
    says(&with(4, 1), &["version 1"]);
    std::fs::write(file.folder().join("second.gguf"), "").unwrap();
    let refusal = Model::open(&file.folder(), &OPTIONS).err().unwrap().to_string();
    says(&refusal, &["several GGUF files", "second.gguf"]);
    // A folder of safetensors may have one beside them.
    std::fs::write(file.folder().join("config.json"), "{}").unwrap();
    let refusal = Model::open(&file.folder(), &OPTIONS).err().unwrap().to_string();
    assert!(refusal.contains("config.json: model_type"), "{refusal}");
}
