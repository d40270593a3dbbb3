//! The program of each architecture, as text, for small configurations.
//!
//! A snapshot shows what an architecture does and catches a change that nobody meant; that the programs are
//! right is what the golden logits show. Where a change is meant, the test prints the new text.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use std::path::Path;

use model::Model;
use program::text;

fn check(name: &str, snapshot: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let spec = Model::published(&folder.join(format!("{name}.json"))).unwrap();
    let text = text::model(&spec);
    assert!(text == snapshot, "{name} is now\n{text}");
}

#[test]
fn llama_is_attention_and_a_gated_unit_with_a_tied_head() {
    check("llama", include_str!("llama.txt"));
}

#[test]
fn qwen2_has_biases_on_query_key_and_value() {
    check("qwen2", include_str!("qwen2.txt"));
}

#[test]
fn qwen3_moe_has_head_norms_and_softmax_routing_except_in_dense_layers() {
    check("qwen3_moe", include_str!("qwen3_moe.txt"));
}

#[test]
fn glm4_moe_lite_has_latent_attention_and_sigmoid_routing_after_a_dense_layer() {
    check("glm4_moe_lite", include_str!("glm4_moe_lite.txt"));
}

#[test]
fn deepseek_v3_chooses_within_groups_and_yarn_scales_angles_gain_and_scores() {
    check("deepseek_v3", include_str!("deepseek_v3.txt"));
}

#[test]
fn glm4_moe_has_biases_head_norms_and_a_rotation_of_half_of_each_head() {
    check("glm4_moe", include_str!("glm4_moe.txt"));
}

#[test]
fn minimax_m2_has_norms_over_whole_projections_and_names_of_its_own() {
    check("minimax_m2", include_str!("minimax_m2.txt"));
}

#[test]
fn qwen3_has_head_norms_and_a_tied_head() {
    check("qwen3", include_str!("qwen3.txt"));
}

#[test]
fn olmo2_has_norms_after_its_parts_and_over_whole_projections_and_a_tied_head() {
    check("olmo2", include_str!("olmo2.txt"));
}
