//! Checkpoints that are written in other ways and mean the same.

use half::f16;
use model::{BuildOptions, Model, Why};
use program::{Device, Format, Op, Options, Output, PageId, Sequence, Size, Step, Storage, Token, Want};
use serde_json::{Value, json};

use crate::folder::{Folder, GLM, LLAMA, MINIMAX, Tensor, Tensors, zeros};

/// The logits after three tokens.
fn logits(folder: &Folder) -> Vec<f32> {
    let model = folder.open().unwrap_or_else(|error| panic!("{error}"));
    let mut device = program::reference::Reference::new();
    model.load(&mut device, &mut |_| {}).unwrap();
    device.reserve(&model.spec.caches, program::CacheSize { pages: 2, slots: 1 }).unwrap();
    let size = Size { tokens: 3, outputs: 1, sequences: 1 };
    let program = device.prepare(&model.spec.programs[0], &Options::new(size)).unwrap();
    let step = Step {
        tokens: &[Token::Id(5), Token::Id(250), Token::Id(17)],
        positions: &[0, 1, 2],
        sequences: &[Sequence { rows: 0..3, cached: 0, pages: 0..1, slot: 0 }],
        pages: &[PageId(1)],
        outputs: &[Output { row: 2, want: Want::Logits }],
    };
    let ticket = device.submit(program, &step).unwrap();
    device.wait(ticket).unwrap().logits.to_vec()
}

fn renamed(tensors: &mut Tensors, rename: impl Fn(&str) -> String) {
    *tensors = std::mem::take(tensors).into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect();
}

#[test]
fn a_text_model_within_a_larger_one_loads_as_text_only() {
    let plain = logits(&Folder::with(LLAMA));
    for (trunk, head) in
        [("model.language_model.", "lm_head."), ("language_model.model.", "language_model.lm_head.")]
    {
        let folder = Folder::changed(LLAMA, |tensors| {
            renamed(tensors, |name| match name.strip_prefix("model.") {
                Some(rest) => format!("{trunk}{rest}"),
                None => name.replace("lm_head.", head),
            });
            for name in ["model.visual.patch_embed.weight", "vision_tower.layers.0.q.trellis"] {
                tensors.insert(name.into(), zeros(&[4, 4, 16]));
            }
        });
        let mut text: Value = serde_json::from_slice(&folder.read("config.json")).unwrap();
        text["rms_norm_eps"] = json!(1e-5);
        let whole =
            json!({ "model_type": "wrapper", "text_config": text, "vision_config": {}, "eos_token_id": [3] });
        folder.write("config.json", whole.to_string());
        assert_eq!(logits(&folder), plain, "{trunk}");
        let model = folder.open().unwrap();
        assert_eq!(model.facts.architecture, "llama");
        assert_eq!(model.facts.eos, [3]);
        assert_eq!(
            model.unused().iter().map(|unused| (unused.bytes, unused.why)).collect::<Vec<_>>(),
            [(512, Why::Tower); 2]
        );
    }
}

#[test]
fn a_stale_quantization_config_does_not_matter() {
    let folder = Folder::with(LLAMA);
    let plain = logits(&folder);
    for stale in [
        json!({ "quant_method": "gptq", "bits": 8, "group_size": 128 }),
        json!({ "quant_method": "exl3", "bits": 3.0, "codebook": "mcg" }),
        json!("none"),
    ] {
        folder.set(json!({ "quantization_config": stale }));
        assert_eq!(logits(&folder), plain);
    }
}

#[test]
fn packed_signs_of_old_files_are_scales_of_plus_and_minus_one() {
    let module = "model.layers.0.mlp.up_proj";
    let values: Vec<f16> = (0..128).map(|i| if i % 3 == 0 { f16::NEG_ONE } else { f16::ONE }).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let new = Folder::changed(LLAMA, |tensors| {
        tensors.get_mut(&format!("{module}.suh")).unwrap().data = bytes;
    });
    let old = Folder::changed(LLAMA, |tensors| {
        tensors.remove(&format!("{module}.suh"));
        let words = values.chunks(16).flat_map(|values| {
            let bit = |(i, value): (usize, &f16)| u16::from(*value == f16::NEG_ONE) << i;
            values.iter().enumerate().map(bit).fold(0, |word, bit| word | bit).to_le_bytes()
        });
        let signs = Tensor { dtype: "I16".into(), shape: vec![8], data: words.collect() };
        tensors.insert(format!("{module}.su"), signs);
        tensors.insert(format!("{module}.scale"), zeros(&[1]));
    });
    assert_eq!(logits(&old), logits(&new));
    assert_ne!(logits(&new), logits(&Folder::with(LLAMA)));
    assert_eq!(old.open().unwrap().unused()[0].why, Why::OldScale);
}

#[test]
fn experts_of_one_layer_may_differ_in_bits_and_storage() {
    let module = "model.layers.1.mlp.experts";
    let folder = Folder::changed(GLM, |tensors| {
        let trellis = tensors.get_mut(&format!("{module}.1.up_proj.trellis")).unwrap();
        let words = trellis.shape[0] * trellis.shape[1] * 56;
        (trellis.shape[2], trellis.data) = (56, (0..2 * words).map(|i| (i * i % 251) as u8).collect());
        tensors.remove(&format!("{module}.2.up_proj.mul1"));
        for suffix in ["trellis", "suh", "svh", "mul1"] {
            tensors.remove(&format!("{module}.3.up_proj.{suffix}"));
        }
        tensors.insert(format!("{module}.3.up_proj.weight"), zeros(&[128, 128]));
    });
    let model = folder.open().unwrap();
    let up = model.spec.weights.iter().find(|weight| weight.parts[0].name == format!("{module}.0.up_proj"));
    let storages: Vec<String> = up
        .unwrap()
        .parts
        .iter()
        .map(|part| match part.storage {
            Storage::Exl3 { bits, codebook } => format!("{bits} {codebook}"),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(storages, ["2 mul1", "3.5 mul1", "2 3inst", "Dense(F16)"]);
    assert!(logits(&folder).iter().all(|logit| logit.is_finite()));
}

#[test]
fn a_head_of_its_own_wins_even_where_the_configuration_ties_it() {
    let folder = Folder::with(LLAMA);
    let own = logits(&folder);
    folder.set(json!({ "tie_word_embeddings": true }));
    assert_eq!(logits(&folder), own);
    folder.change(|tensors| tensors.retain(|name, _| !name.starts_with("lm_head.")));
    assert_ne!(logits(&folder), own);
}

#[test]
fn prediction_layers_and_rotary_frequencies_are_left_alone() {
    let folder = Folder::changed(GLM, |tensors| {
        for name in [
            "model.layers.2.eh_proj.trellis",
            "model.layers.2.eh_proj.lut_fp16",
            "mtp.norm.weight",
            "model.layers.0.self_attn.rotary_emb.inv_freq",
        ] {
            tensors.insert(name.into(), zeros(&[8]));
        }
    });
    // Layers after the last one are an error unless the configuration announces them.
    folder.set(json!({ "num_nextn_predict_layers": 0 }));
    let refusal = folder.open().err().unwrap().to_string();
    assert!(
        refusal.contains("model.layers.2.eh_proj.lut_fp16: is no part of this architecture"),
        "{refusal}"
    );
    folder.set(json!({ "num_nextn_predict_layers": 1 }));
    let model = folder.open().unwrap();
    let whys: Vec<Why> = model.unused().iter().map(|unused| unused.why).collect();
    assert_eq!(whys, [Why::RotaryFrequencies, Why::Draft, Why::Draft, Why::Draft]);
    // An announced prediction layer that the files do not have is no error either.
    let folder = Folder::with(GLM);
    folder.set(json!({ "num_nextn_predict_layers": 1 }));
    folder.load().unwrap();
}

#[test]
fn both_ways_to_write_the_rotary_embedding_mean_the_same() {
    let folder = Folder::with(LLAMA);
    let scaling = json!({ "type": "linear", "factor": 4.0 });
    folder.set(json!({ "rope_scaling": scaling }));
    let old = logits(&folder);
    let new = json!({ "rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0 });
    // The newer key wins over an older one that says something else.
    folder.set(json!({ "rope_theta": null, "rope_parameters": new, "rope_scaling": { "type": "linear", "factor": 2.0 } }));
    assert_eq!(logits(&folder), old);
    folder.set(json!({ "rope_parameters": { "rope_type": "default", "rope_theta": 10000.0 } }));
    assert_ne!(logits(&folder), old);
}

#[test]
fn latent_attention_without_a_query_rank_has_one_query_projection() {
    let without: Value = {
        let mut config: Value = serde_json::from_str(GLM).unwrap();
        config["q_lora_rank"] = Value::Null;
        config
    };
    let folder = Folder::with(&without.to_string());
    let model = folder.open().unwrap();
    assert!(model.tensors().iter().any(|tensor| tensor.name == "model.layers.0.self_attn.q_proj"));
    assert!(!model.tensors().iter().any(|tensor| tensor.name.contains("q_a_")));
    assert!(logits(&folder).iter().all(|logit| logit.is_finite()));
}

#[test]
fn rotary_dims_are_interleaved_unless_the_configuration_says_otherwise() {
    let folder = Folder::with(GLM);
    let absent = logits(&folder);
    folder.set(json!({ "rope_interleave": true }));
    assert_eq!(logits(&folder), absent);
    folder.set(json!({ "rope_interleave": false }));
    assert_ne!(logits(&folder), absent);
}

#[test]
fn deepseek_v3_and_glm4_moe_lite_are_the_same_graph_with_groups_and_yarn_or_without() {
    let folder = Folder::with(GLM);
    let plain = logits(&folder);
    folder.set(json!({ "model_type": "deepseek_v3", "n_group": null, "head_dim": 64 }));
    assert_eq!(logits(&folder), plain);
    let scaling = json!({ "type": "yarn", "factor": 40, "original_max_position_embeddings": 16, "mscale": 1.0,
                          "mscale_all_dim": 1.0 });
    folder.set(json!({ "n_group": 2, "topk_group": 1, "rope_scaling": scaling }));
    let scaled = logits(&folder);
    assert_ne!(scaled, plain);
    folder.set(json!({ "model_type": "glm4_moe_lite" }));
    assert_eq!(logits(&folder), scaled);
}

#[test]
fn the_rotary_part_of_a_head_can_be_said_in_three_ways() {
    let folder = Folder::with(MINIMAX);
    let dims = logits(&folder);
    folder.set(json!({ "rotary_dim": null, "partial_rotary_factor": 0.5 }));
    assert_eq!(logits(&folder), dims);
    let parameters = json!({ "rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5 });
    folder.set(json!({ "partial_rotary_factor": null, "rope_parameters": parameters }));
    assert_eq!(logits(&folder), dims);
    folder.set(json!({ "rope_parameters": null, "partial_rotary_factor": 1.0 }));
    assert_ne!(logits(&folder), dims);
}

#[test]
fn several_shared_experts_are_one_wider_unit() {
    let config = GLM.replace("\"n_shared_experts\": 1", "\"n_shared_experts\": 2");
    let model = Folder::with(&config).open().unwrap();
    let tensors = model.tensors();
    let shared = tensors.iter().find(|tensor| tensor.name == "model.layers.1.mlp.shared_experts.up_proj");
    assert_eq!(shared.unwrap().shape, [256, 128]);
}

#[test]
fn an_up_projection_stored_as_codes_reaches_the_device_as_numbers() {
    let module = "model.layers.0.self_attn.kv_b_proj";
    let folder = Folder::changed(GLM, |tensors| {
        tensors.remove(&format!("{module}.weight"));
        // As of the q_b projection: padded inputs 128, outputs 128.
        for suffix in ["trellis", "suh", "svh", "mul1"] {
            let tensor = tensors[&format!("model.layers.0.self_attn.q_b_proj.{suffix}")].clone();
            tensors.insert(format!("{module}.{suffix}"), tensor);
        }
    });
    let model = folder.open().unwrap();
    let up = model.spec.weights.iter().find(|weight| weight.parts[0].name == module).unwrap();
    assert_eq!(up.parts[0].storage, Storage::Dense(program::Dtype::F32));
    assert!(logits(&folder).iter().all(|logit| logit.is_finite()));
}

#[test]
fn the_cache_is_stored_as_asked_and_rotary_keys_always_as_f16() {
    let bits = exl3::kv::CacheBits::new(4).unwrap();
    let options = BuildOptions { cache: Format::Quantised(bits) };
    let model = Model::open(&Folder::with(GLM).path(""), &options).unwrap();
    for cache in &model.spec.caches {
        assert_eq!(cache.parts[0].format, Format::Quantised(bits));
        assert_eq!(cache.parts[1].format, Format::F16);
    }
    let narrow = GLM.replace("\"kv_lora_rank\": 32", "\"kv_lora_rank\": 48");
    let refused = Model::open(&Folder::with(&narrow).path(""), &options).err().unwrap().to_string();
    assert!(refused.contains("rows of 48 numbers are no multiple of 32"), "{refused}");
}

#[test]
fn ids_that_the_tokenizer_does_not_know_are_never_drawn() {
    let known = |folder: &Folder| {
        let model = folder.open().unwrap();
        match model.spec.programs[0].ops.last() {
            Some(Op::Answer { known, .. }) => *known,
            other => panic!("{other:?}"),
        }
    };
    let folder = Folder::with(LLAMA);
    assert_eq!(known(&folder), 256);
    std::fs::remove_file(folder.path("tokenizer.json")).unwrap();
    assert_eq!(known(&folder), 300);
    assert!(folder.open().unwrap().tokenizer.is_none());
}

#[test]
fn turns_end_at_the_tokens_of_both_configurations() {
    let folder = Folder::with(LLAMA);
    folder.set(json!({ "eos_token_id": 2, "bos_token_id": 1 }));
    folder.write("generation_config.json", r#"{"eos_token_id": [7, 2], "bos_token_id": 9}"#);
    let facts = folder.open().unwrap().facts;
    assert_eq!((facts.bos, facts.eos), (Some(1), vec![2, 7]));
    assert_eq!((facts.vocab, facts.context, facts.layers), (300, 128, 2));
}

#[test]
fn a_written_checkpoint_opens_again_with_the_same_tensors() {
    for name in model::Shape::names() {
        let mut shape = model::Shape::named(name).unwrap().with_layers(1);
        shape.bits = "1".parse().unwrap();
        let made = Model::synthetic(&shape, &BuildOptions { cache: Format::F16 }).unwrap();
        // Whole layers of these models are large; the largest file here has 0.7 GB of embeddings.
        if made.weight_bytes() > 300_000_000 {
            continue;
        }
        let folder = Folder::empty();
        model::write_checkpoint(&shape, &folder.path("")).unwrap();
        let opened = folder.open().unwrap();
        assert_eq!(opened.tensors(), made.tensors(), "{name}");
    }
    let folder = Folder::with(GLM);
    let opened = folder.open().unwrap();
    assert_eq!(opened.weight_bytes(), opened.tensors().iter().map(|tensor| tensor.bytes).sum::<u64>());
}

#[test]
fn bits_are_those_of_the_trellis_codes_or_else_of_the_plain_numbers() {
    let bits = |folder: &str| model::layer_bits(&golden::folder().join(folder)).unwrap();
    assert_eq!(bits("llama-even-1.5bpw-mul1-eb4"), Some(1.5));
    assert_eq!(bits("sources/llama"), Some(16.0));
    if let Some(shared) = golden::shared() {
        let bits = |folder: &str| model::layer_bits(&shared.join("golden/conversions").join(folder)).unwrap();
        assert_eq!(bits("qwen2-6bpw-mul1"), Some(6.0));
        assert_eq!(bits("qwen3-moe-3.5bpw-mul1"), Some(3.5));
    }
}
