//! The configuration that a GGUF file's metadata says, in the words of a `config.json`.

use std::path::Path;

use serde_json::json;

use super::metadata::Metadata;
use crate::Result;
use crate::config::Config;

/// The base of the rotary frequencies where the metadata has none.
const ROPE_BASE: f64 = 10_000.0;

/// Reads the configuration of a llama. `vocab` are the rows of its embedding table; `tied` tells whether that table
/// is the head too.
///
/// # Errors
/// If it is of another architecture, or asks for what is not read from these files.
pub(super) fn read(path: &Path, metadata: &Metadata, vocab: usize, tied: bool) -> Result<Config> {
    let architecture = metadata.text("general.architecture")?;
    if architecture != "llama" {
        let what =
            format!("{architecture:?} is not read from GGUF files, only \"llama\" is; use safetensors files");
        return Err(metadata.error("general.architecture", what));
    }
    for (key, one) in [("split.count", 1), ("llama.expert_count", 0), ("llama.attention.sliding_window", 0)] {
        match metadata.optional_whole(key)? {
            Some(count) if count > one => {
                return Err(metadata.error(key, format!("is {count}, which is not read from GGUF files")));
            }
            _ => {}
        }
    }
    match metadata.optional_text("llama.rope.scaling.type")? {
        None | Some("none") => {}
        Some(kind) => {
            let what = format!("{kind:?} is not read from GGUF files; use safetensors files");
            return Err(metadata.error("llama.rope.scaling.type", what));
        }
    }
    let (hidden, heads) =
        (metadata.whole("llama.embedding_length")?, metadata.whole("llama.attention.head_count")?);
    let dims = match metadata.optional_whole("llama.attention.key_length")? {
        Some(dims) => dims,
        None if heads > 0 && hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            let what = format!("is {heads}, which does not divide the {hidden} of llama.embedding_length");
            return Err(metadata.error("llama.attention.head_count", what));
        }
    };
    for key in ["llama.attention.value_length", "llama.rope.dimension_count"] {
        match metadata.optional_whole(key)? {
            Some(other) if other != dims => {
                return Err(
                    metadata.error(key, format!("is {other}, the {dims} dimensions of a head are needed"))
                );
            }
            _ => {}
        }
    }
    let token = |name: &str| metadata.optional_whole(&format!("tokenizer.ggml.{name}_token_id"));
    let end = [token("eos")?, token("eot")?];
    let config = json!({
        "model_type": architecture,
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": metadata.whole("llama.feed_forward_length")?,
        "num_hidden_layers": metadata.whole("llama.block_count")?,
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.optional_whole("llama.attention.head_count_kv")?.unwrap_or(heads),
        "head_dim": dims,
        "hidden_act": "silu",
        "rms_norm_eps": metadata.optional_number("llama.attention.layer_norm_rms_epsilon")?,
        "rope_theta": metadata.optional_number("llama.rope.freq_base")?.unwrap_or(ROPE_BASE),
        "max_position_embeddings": metadata.whole("llama.context_length")?,
        "tie_word_embeddings": tied,
        "bos_token_id": token("bos")?,
        "eos_token_id": end.into_iter().flatten().collect::<Vec<u64>>(),
    });
    Config::parse(path, &config.to_string())
}
