//! Tensors that are missing, left over, misshapen or damaged, one test each.

use half::f16;

use crate::folder::{Folder, GLM, GLM_4_5, LLAMA, MINIMAX, Tensor, zeros};

const UP: &str = "model.layers.0.mlp.up_proj";

#[test]
fn a_missing_tensor_is_named() {
    let folder = Folder::changed(LLAMA, |tensors| {
        tensors.remove("model.layers.1.post_attention_layernorm.weight");
    });
    assert_eq!(
        folder.refusal(),
        "FOLDER: model.layers.1.post_attention_layernorm.weight: is missing in model.safetensors, but the architecture \
         needs it"
    );
    let folder = Folder::changed(LLAMA, |tensors| {
        tensors.remove(&format!("{UP}.svh"));
    });
    assert_eq!(
        folder.refusal(),
        format!("FOLDER: {UP}.svh: is missing in model.safetensors, but the architecture needs it")
    );
}

#[test]
fn a_missing_head_is_an_error_unless_the_configuration_ties_it() {
    let folder = Folder::changed(LLAMA, |tensors| tensors.retain(|name, _| !name.starts_with("lm_head.")));
    assert_eq!(
        folder.refusal(),
        "FOLDER: lm_head: is absent, and the configuration's tie_word_embeddings does not let the embedding table take its \
         place"
    );
    folder.set(serde_json::json!({ "tie_word_embeddings": true }));
    folder.load().unwrap();
}

#[test]
fn a_tensor_that_the_architecture_does_not_have_is_refused() {
    let folder = Folder::changed(LLAMA, |tensors| {
        tensors.insert("model.layers.0.self_attn.q_proj.bias".into(), zeros(&[128]));
    });
    assert_eq!(
        folder.refusal(),
        "model.safetensors: model.layers.0.self_attn.q_proj.bias: is no part of this architecture, and running without it \
         would give wrong text"
    );
}

#[test]
fn a_choice_bias_that_a_converter_dropped_is_missed() {
    for (config, bias) in [
        (MINIMAX, "model.layers.1.block_sparse_moe.e_score_correction_bias"),
        (GLM_4_5, "model.layers.1.mlp.gate.e_score_correction_bias"),
    ] {
        let folder = Folder::changed(config, |tensors| {
            tensors.remove(bias).unwrap();
        });
        assert_eq!(
            folder.refusal(),
            format!("FOLDER: {bias}: is missing in model.safetensors, but the architecture needs it")
        );
    }
}

#[test]
fn biases_and_norms_of_attention_that_the_configuration_does_not_announce_are_refused() {
    for (key, tensor) in
        [("attention_bias", "self_attn.k_proj.bias"), ("use_qk_norm", "self_attn.k_norm.weight")]
    {
        let folder = Folder::with(GLM_4_5);
        folder.load().unwrap();
        folder.set(serde_json::json!({ key: false }));
        let sentence = format!("model.safetensors: model.layers.0.{tensor}: is no part of this architecture");
        let refusal = folder.refusal();
        assert!(refusal.starts_with(&sentence), "{refusal}");
    }
}

#[test]
fn the_attention_output_has_no_bias_where_query_key_and_value_have() {
    let folder = Folder::changed(GLM_4_5, |tensors| {
        tensors.insert("model.layers.0.self_attn.o_proj.bias".into(), zeros(&[128]));
    });
    let refusal = folder.refusal();
    assert!(refusal.contains("model.layers.0.self_attn.o_proj.bias: is no part of this"), "{refusal}");
}

#[test]
fn a_norm_of_one_head_is_none_of_the_whole_projection() {
    let folder = Folder::changed(MINIMAX, |tensors| {
        tensors.insert("model.layers.0.self_attn.q_norm.weight".into(), zeros(&[32]));
    });
    assert_eq!(
        folder.refusal(),
        "FOLDER: model.layers.0.self_attn.q_norm.weight: in model.safetensors: has the shape [32], [128] is needed"
    );
}

#[test]
fn a_tensor_of_another_shape_is_refused() {
    let folder = Folder::changed(LLAMA, |tensors| {
        tensors.insert("model.norm.weight".into(), zeros(&[64]));
    });
    assert_eq!(
        folder.refusal(),
        "FOLDER: model.norm.weight: in model.safetensors: has the shape [64], [128] is needed"
    );
    let folder = Folder::with(LLAMA);
    folder.set(serde_json::json!({ "vocab_size": 512 }));
    assert_eq!(
        folder.refusal(),
        "FOLDER: model.embed_tokens.weight: in model.safetensors: has the shape [300, 128], [512, 128] is needed"
    );
}

#[test]
fn a_number_format_that_is_not_supported_is_refused() {
    let folder = Folder::changed(LLAMA, |tensors| {
        let norm = tensors.get_mut("model.norm.weight").unwrap();
        (norm.dtype, norm.data) = ("F8_E4M3".into(), vec![0; 128]);
    });
    assert_eq!(
        folder.refusal(),
        "FOLDER: model.norm.weight: in model.safetensors: is F8_E4M3, one of F32, F16 and BF16 is needed"
    );
    let folder = Folder::changed(LLAMA, |tensors| {
        let scales = tensors.get_mut(&format!("{UP}.suh")).unwrap();
        (scales.dtype, scales.data) = ("F32".into(), vec![0; 4 * 128]);
    });
    assert_eq!(
        folder.refusal(),
        format!("FOLDER: {UP}.suh: in model.safetensors: is F32, F16 or BF16 is needed")
    );
}

#[test]
fn half_bits_exist_with_one_codebook_only() {
    let folder = Folder::changed(LLAMA, |tensors| {
        tensors.remove(&format!("{UP}.mul1"));
        resize_trellis(tensors.get_mut(&format!("{UP}.trellis")).unwrap(), 24);
    });
    assert_eq!(
        folder.refusal(),
        format!(
            "FOLDER: {UP}.trellis: in model.safetensors: trellis: 1.5 bits with codebook 3inst, but half bits exist with \
             mul1 only"
        )
    );
}

#[test]
fn a_width_that_the_format_does_not_have_is_refused() {
    let folder = Folder::changed(LLAMA, |tensors| {
        resize_trellis(tensors.get_mut(&format!("{UP}.trellis")).unwrap(), 72);
    });
    let refusal = folder.refusal();
    let start = format!(
        "FOLDER: {UP}.trellis: in model.safetensors: trellis: a tile of 72 16-bit words has no known width"
    );
    assert!(refusal.starts_with(&start), "{refusal}");
}

#[test]
fn trellis_and_scales_of_different_sizes_are_refused() {
    let folder = Folder::changed(LLAMA, |tensors| {
        tensors.insert(format!("{UP}.suh"), zeros(&[256]));
    });
    assert_eq!(
        folder.refusal(),
        format!("FOLDER: {UP}.suh: in model.safetensors: has the shape [256], [128] is needed")
    );
    let folder = Folder::changed(LLAMA, |tensors| {
        let trellis = tensors.get_mut(&format!("{UP}.trellis")).unwrap();
        trellis.shape = vec![16, 8, 32];
    });
    assert_eq!(
        folder.refusal(),
        format!(
            "FOLDER: {UP}.trellis: in model.safetensors: has the shape [16, 8, 32], [8, 16, 32] is needed"
        )
    );
}

#[test]
fn an_unknown_codebook_marker_is_refused() {
    let folder = Folder::changed(LLAMA, |tensors| {
        tensors.get_mut(&format!("{UP}.mul1")).unwrap().data = vec![1, 2, 3, 4];
    });
    assert_eq!(
        folder.refusal(),
        format!(
            "FOLDER: {UP}.mul1: in model.safetensors: is [01, 02, 03, 04], the marker of an unknown codebook; 0x83dcd12d is \
             needed"
        )
    );
    let folder = Folder::changed(LLAMA, |tensors| {
        let mut marker = tensors[&format!("{UP}.mul1")].clone();
        marker.data = 0xCBAC_1FED_u32.to_le_bytes().to_vec();
        tensors.insert(format!("{UP}.mcg"), marker);
    });
    assert_eq!(
        folder.refusal(),
        format!(
            "FOLDER: {UP}.mul1: in model.safetensors: lies beside the marker of another codebook; only one can be right"
        )
    );
}

#[test]
fn third_party_codebooks_are_refused_by_name() {
    for suffix in ["mul1_e4m3", "lut_fp16", "sqg_scale"] {
        let folder = Folder::changed(LLAMA, |tensors| {
            tensors.insert(format!("{UP}.{suffix}"), zeros(&[4]));
        });
        assert_eq!(
            folder.refusal(),
            format!(
                "FOLDER: {UP}.{suffix}: in model.safetensors: lies beside a trellis and gives its codes a meaning that is not \
                 known here (a codebook of another program?); decoding them without it would give noise"
            )
        );
    }
}

#[test]
fn scales_that_are_not_finite_are_refused() {
    for (name, value, shown) in [
        (format!("{UP}.suh"), f16::NAN, "NaN"),
        (format!("{UP}.svh"), f16::INFINITY, "inf"),
        ("model.layers.1.self_attn.q_proj.suh".into(), f16::NEG_INFINITY, "-inf"),
    ] {
        let folder = Folder::changed(LLAMA, |tensors| {
            tensors.get_mut(&name).unwrap().data[14..16].copy_from_slice(&value.to_le_bytes());
        });
        assert_eq!(
            folder.refusal(),
            format!(
                "FOLDER: {name}: in model.safetensors: number 7 is {shown}; the file is damaged, fetch or quantise it again"
            )
        );
    }
}

#[test]
fn vectors_that_are_not_finite_are_refused() {
    let bias = "model.layers.1.mlp.gate.e_score_correction_bias";
    let folder = Folder::changed(GLM, |tensors| {
        tensors.get_mut(bias).unwrap().data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    assert_eq!(
        folder.refusal(),
        format!(
            "FOLDER: {bias}: in model.safetensors: number 0 is NaN; the file is damaged, fetch or quantise it again"
        )
    );
}

#[test]
fn a_quantised_table_cannot_be_a_tied_head() {
    let folder = Folder::changed(LLAMA, |tensors| {
        tensors.retain(|name, _| !name.starts_with("lm_head."));
        tensors.remove("model.embed_tokens.weight");
        tensors.insert("model.embed_tokens.trellis".into(), words(&[300, 33]));
        tensors.insert("model.embed_tokens.signs".into(), ones(&[1, 256]));
    });
    folder.set(serde_json::json!({ "tie_word_embeddings": true }));
    let refusal = folder.refusal();
    let start = "FOLDER: model.embed_tokens: is a quantised embedding table, which cannot serve as the head";
    assert!(refusal.starts_with(start), "{refusal}");
}

#[test]
fn a_quantised_table_must_have_rows_and_signs_of_the_hidden_size() {
    for (table, signs, what) in [
        (
            words(&[300, 34]),
            ones(&[1, 256]),
            "model.embed_tokens.trellis: in model.safetensors: embedding trellis: a row of 34 16-bit words is not 1 rings",
        ),
        (
            words(&[300, 33]),
            ones(&[2, 256]),
            "model.embed_tokens.signs: in model.safetensors: has the shape [2, 256], [1, 256] is needed",
        ),
        (
            words(&[300, 33]),
            zeros(&[1, 256]),
            "model.embed_tokens: in model.safetensors: signs[0] is 0, needed 1 or -1",
        ),
        (
            words(&[300, 1, 33]),
            ones(&[1, 256]),
            "model.embed_tokens.trellis: in model.safetensors: has the shape [300, 1, 33], the two dimensions",
        ),
    ] {
        let folder = Folder::changed(LLAMA, |tensors| {
            tensors.remove("model.embed_tokens.weight");
            tensors.insert("model.embed_tokens.trellis".into(), table);
            tensors.insert("model.embed_tokens.signs".into(), signs);
        });
        let refusal = folder.refusal();
        assert!(refusal.starts_with(&format!("FOLDER: {what}")), "{refusal}");
    }
}

/// Another number of words a tile; the codes are zeros.
fn resize_trellis(trellis: &mut Tensor, words: usize) {
    trellis.shape[2] = words;
    trellis.data = vec![0; 2 * trellis.shape.iter().product::<usize>()];
}

fn words(shape: &[usize]) -> Tensor {
    Tensor { dtype: "I16".into(), ..zeros(shape) }
}

fn ones(shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    Tensor { data: f16::ONE.to_le_bytes().repeat(count), ..zeros(shape) }
}
