//! Configurations that lack something or ask for what is not supported, and tokenizers that do not fit.

use serde_json::{Value, json};

use crate::folder::{Folder, GLM, LLAMA, MINIMAX, OLMO};

/// The sentence after changing some keys.
fn refusal(config: &str, changes: Value) -> String {
    let folder = Folder::with(config);
    folder.set(changes);
    folder.refusal()
}

#[test]
fn every_key_that_is_needed_is_named_when_it_is_absent() {
    for (config, keys) in [
        (
            LLAMA,
            &[
                "model_type",
                "vocab_size",
                "hidden_size",
                "num_hidden_layers",
                "num_attention_heads",
                "intermediate_size",
                "rms_norm_eps",
                "max_position_embeddings",
            ][..],
        ),
        (
            GLM,
            &[
                "rope_theta",
                "kv_lora_rank",
                "qk_nope_head_dim",
                "qk_rope_head_dim",
                "v_head_dim",
                "first_k_dense_replace",
                "moe_intermediate_size",
                "n_routed_experts",
                "n_shared_experts",
                "num_experts_per_tok",
                "routed_scaling_factor",
            ][..],
        ),
    ] {
        let folder = Folder::with(config);
        let whole = folder.read("config.json");
        for key in keys {
            folder.write("config.json", &whole);
            folder.set(json!({ *key: null }));
            let refusal = folder.refusal();
            // Experts have several names; the last of them is asked for.
            let named = if *key == "n_routed_experts" { "num_experts" } else { *key };
            assert!(refusal.starts_with(&format!("config.json: {named}: is absent, ")), "{refusal}");
        }
    }
}

#[test]
fn an_unknown_architecture_is_refused_with_the_known_ones() {
    assert_eq!(
        refusal(LLAMA, json!({ "model_type": "mamba" })),
        "config.json: model_type: \"mamba\" is no supported architecture; known are deepseek_v3, glm4_moe, glm4_moe_lite, \
         llama, minimax_m2, olmo2, qwen2, qwen3, qwen3_moe"
    );
}

#[test]
fn variants_that_the_maths_does_not_have_are_refused_by_name() {
    for (config, key, value) in [
        (LLAMA, "hidden_act", json!("gelu")),
        (LLAMA, "attention_bias", json!(true)),
        (LLAMA, "mlp_bias", json!(true)),
        (LLAMA, "use_sliding_window", json!(true)),
        (LLAMA, "partial_rotary_factor", json!(0.5)),
        (GLM, "hidden_act", json!("relu")),
        (GLM, "attention_bias", json!(true)),
        (GLM, "scoring_func", json!("softmax")),
        (GLM, "topk_method", json!("group_limited_greedy")),
        (GLM, "topk_group", json!(2)),
        (GLM, "moe_layer_freq", json!(2)),
        (MINIMAX, "use_qk_norm", json!(false)),
        (MINIMAX, "qk_norm_type", json!("per_head")),
        (MINIMAX, "scoring_func", json!("softmax")),
        (MINIMAX, "use_routing_bias", json!(false)),
        (MINIMAX, "shared_intermediate_size", json!(128)),
        (OLMO, "attention_bias", json!(true)),
        (OLMO, "hidden_act", json!("gelu")),
    ] {
        let refusal = refusal(config, json!({ key: value }));
        assert!(
            refusal.starts_with(&format!("config.json: {key}: {value} is not supported, only ")),
            "{refusal}"
        );
    }
    assert_eq!(
        refusal(LLAMA, json!({ "layer_types": ["full_attention", "sliding_attention"] })),
        "config.json: layer_types: \"sliding_attention\" is not supported, only \"full_attention\" is"
    );
    assert_eq!(
        refusal(MINIMAX, json!({ "attn_type_list": [1, 0] })),
        "config.json: attn_type_list: 0 is not supported, only 1 is"
    );
    assert_eq!(
        refusal(GLM, json!({ "mlp_layer_types": ["dense", "linear"] })),
        "config.json: mlp_layer_types: \"linear\" is not supported, only \"dense\" and \"sparse\" are"
    );
    assert_eq!(
        refusal(GLM, json!({ "mlp_layer_types": ["dense"] })),
        "config.json: mlp_layer_types: lists 1 layers, num_hidden_layers is 2"
    );
}

#[test]
fn an_unknown_kind_of_rotary_scaling_is_refused_by_name() {
    for key in ["rope_scaling", "rope_parameters"] {
        for kind in ["dynamic", "longrope", "mrope"] {
            assert_eq!(
                refusal(LLAMA, json!({ key: { "rope_type": kind, "factor": 2.0 } })),
                format!(
                    "config.json: {key}: rope type \"{kind}\" is not supported for this architecture, only default, linear, \
                     llama3, yarn"
                )
            );
        }
    }
    assert_eq!(
        refusal(GLM, json!({ "rope_scaling": { "type": "linear", "factor": 4.0 } })),
        "config.json: rope_scaling: rope type \"linear\" is not supported for this architecture, only default, yarn"
    );
    assert_eq!(
        refusal(LLAMA, json!({ "rope_parameters": { "full_attention": { "rope_type": "default" } } })),
        "config.json: rope_parameters: has no rope_type (one embedding for each kind of layer?)"
    );
}

#[test]
fn rotary_scaling_that_lacks_a_number_or_cannot_be_is_refused() {
    for (scaling, sentence) in [
        (json!({ "rope_type": "linear" }), "factor: is absent, a number is needed"),
        (json!({ "rope_type": "linear", "factor": -2.0 }), "factor: is -2, a positive number is needed"),
        (
            json!({ "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64 }),
            "high_freq_factor: is 4, more than 4 is needed",
        ),
        (
            json!({ "rope_type": "yarn", "factor": 8.0 }),
            "original_max_position_embeddings: is absent, a positive whole number is needed",
        ),
        (
            json!({ "rope_type": "yarn", "factor": 8.0, "mscale": 1.0, "original_max_position_embeddings": 64 }),
            "mscale_all_dim: is absent beside mscale, both are needed",
        ),
        (
            json!({ "rope_type": "yarn", "factor": 8.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64 }),
            "mscale: is absent beside mscale_all_dim, both are needed",
        ),
        (
            json!({ "rope_type": "yarn", "factor": 8.0, "mscale": 0, "original_max_position_embeddings": 64 }),
            "mscale: is 0, a positive number is needed",
        ),
        (
            json!({ "rope_type": "yarn", "attention_factor": 1.0 }),
            "attention_factor: is not supported with rope type \"yarn\"",
        ),
    ] {
        assert_eq!(
            refusal(LLAMA, json!({ "rope_scaling": scaling })),
            format!("config.json: rope_scaling.{sentence}")
        );
    }
}

#[test]
fn sizes_that_cannot_be_are_refused_and_never_overflow() {
    for (config, key, value, sentence) in [
        (LLAMA, "num_hidden_layers", json!(0), "num_hidden_layers: is 0, a positive whole number is needed"),
        (LLAMA, "num_hidden_layers", json!(9999), "num_hidden_layers: is 9999, at most 4096 is supported"),
        (LLAMA, "hidden_size", json!(-1), "hidden_size: is -1, a positive whole number is needed"),
        (LLAMA, "hidden_size", json!(1.5), "hidden_size: is 1.5, a positive whole number is needed"),
        (LLAMA, "vocab_size", json!("many"), "vocab_size: is \"many\", a positive whole number is needed"),
        (
            LLAMA,
            "head_dim",
            json!(31),
            "head_dim: 4 heads of 31 dims are not supported, an even number is needed",
        ),
        (
            LLAMA,
            "head_dim",
            json!(4_294_967_294u32),
            "head_dim: is 4294967294, at most 268435456 is supported",
        ),
        (LLAMA, "num_attention_heads", json!(3), "head_dim: is absent, and 3 heads do not divide 128"),
        (LLAMA, "rope_theta", json!(0), "rope_theta: is 0, more than 1 is needed"),
        (
            GLM,
            "qk_rope_head_dim",
            json!(7),
            "qk_rope_head_dim: 2 heads with 7 rotary dims are not supported, an even number is needed",
        ),
        (
            GLM,
            "kv_lora_rank",
            json!(u64::MAX),
            "kv_lora_rank: is 18446744073709551615, at most 268435456 is supported",
        ),
        (GLM, "n_routed_experts", json!(99_999), "n_routed_experts: is 99999, at most 65536 is supported"),
        (
            GLM,
            "n_shared_experts",
            json!(u32::MAX),
            "n_shared_experts: 4294967295 shared experts are too many",
        ),
    ] {
        assert_eq!(refusal(config, json!({ key: value })), format!("config.json: {sentence}"));
    }
    assert_eq!(
        refusal(LLAMA, json!({ "num_key_value_heads": 3 })),
        "FOLDER: attend: 4 query heads over 3 key heads"
    );
    assert_eq!(refusal(GLM, json!({ "num_experts_per_tok": 5 })), "FOLDER: route: 4 logits, 5 of 4 experts");
    assert_eq!(
        refusal(GLM, json!({ "n_group": 4, "topk_group": 2 })),
        "FOLDER: route: 4 logits, 2 of 4 experts within 2 of 4 groups"
    );
    assert_eq!(
        refusal(GLM, json!({ "n_group": 2 })),
        "config.json: topk_group: is absent, a positive whole number is needed"
    );
}

#[test]
fn the_rotary_part_of_a_head_must_be_said_once_and_fit() {
    for (changes, sentence) in [
        (json!({ "rotary_dim": null }), "partial_rotary_factor: is absent, a number is needed"),
        (
            json!({ "partial_rotary_factor": 0.25 }),
            "rotary_dim: is 16, but partial_rotary_factor makes 8 dims of 32",
        ),
        (
            json!({ "rope_parameters": { "rope_theta": 1e4, "partial_rotary_factor": 1.0 } }),
            "rotary_dim: is 16, but partial_rotary_factor makes 32 dims of 32",
        ),
        (
            json!({ "rotary_dim": 33 }),
            "rotary_dim: makes 33 dims of 32 turn, an even number of 2 up to 32 is needed",
        ),
        (
            json!({ "rotary_dim": null, "partial_rotary_factor": -0.5 }),
            "partial_rotary_factor: makes 0 dims of 32 turn, an even number of 2 up to 32 is needed",
        ),
    ] {
        assert_eq!(refusal(MINIMAX, changes), format!("config.json: {sentence}"));
    }
}

#[test]
fn a_configuration_that_is_no_object_is_refused() {
    let folder = Folder::with(LLAMA);
    folder.write("config.json", "{\"model_type\": ");
    assert_eq!(folder.refusal(), "config.json: is no JSON: EOF while parsing a value at line 1 column 15");
    folder.write("config.json", "[]");
    assert_eq!(folder.refusal(), "config.json: a JSON object is needed, this is another value");
}

#[test]
fn a_tokenizer_with_ids_past_the_vocabulary_is_refused() {
    let folder = Folder::with(LLAMA);
    let mut tokenizer: Value = serde_json::from_slice(&folder.read("tokenizer.json")).unwrap();
    tokenizer["model"]["vocab"]["aaa"] = json!(300);
    folder.write("tokenizer.json", tokenizer.to_string());
    assert_eq!(
        folder.refusal(),
        "tokenizer.json: the tokenizer has the id 300, but vocab_size is 300; they are not of the same model"
    );
}

#[test]
fn a_tokenizer_that_cannot_be_read_is_refused() {
    let folder = Folder::with(LLAMA);
    let mut tokenizer: Value = serde_json::from_slice(&folder.read("tokenizer.json")).unwrap();
    tokenizer["decoder"] = json!({ "type": "WordPiece", "prefix": "##", "cleanup": true });
    folder.write("tokenizer.json", tokenizer.to_string());
    assert_eq!(
        folder.refusal(),
        "tokenizer.json: the decoder WordPiece is not supported; known are ByteLevel, ByteFallback and Metaspace"
    );
    folder.write("tokenizer.json", r#"{"decoder": {"type": "ByteLevel"}}"#);
    assert!(folder.refusal().starts_with("tokenizer.json: is no tokenizer: "));
}

#[test]
fn an_unknown_rotary_embedding_is_refused_beside_a_known_one_too() {
    let known = json!({ "rope_type": "default", "rope_theta": 10000.0 });
    let both = json!({ "rope_parameters": known, "rope_scaling": { "type": "mrope" } });
    let refused = refusal(LLAMA, both);
    assert!(
        refused.starts_with("config.json: rope_scaling: rope type \"mrope\" is not supported"),
        "{refused}"
    );
}

#[test]
fn an_eps_that_is_not_positive_is_refused() {
    for eps in [0.0, -1.0] {
        let refused = refusal(LLAMA, json!({ "rms_norm_eps": eps }));
        assert!(refused.starts_with("config.json: rms_norm_eps: is "), "{refused}");
    }
}
