//! Models made for one test.

use std::path::{Path, PathBuf};

use model::Shape;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The configuration of a small llama that a text of bytes begins with id 1 and nothing ends.
fn llama_config() -> Value {
    json!({
        "model_type": "llama", "vocab_size": 384, "hidden_size": 128, "intermediate_size": 256,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
        "max_position_embeddings": 268_435_456, "bos_token_id": 1,
    })
}

/// A folder with the `config.json` of that llama, for `--shape`.
pub(crate) fn llama_shape() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config.json");
    std::fs::write(&path, llama_config().to_string()).unwrap();
    (folder, path)
}

/// A checkpoint of that llama, with random weights and one token a byte.
pub(crate) fn llama() -> TempDir {
    let (shape, path) = llama_shape();
    let folder = TempDir::new().unwrap();
    model::write_checkpoint(&Shape::from_config(&path).unwrap(), folder.path()).unwrap();
    drop(shape);
    folder
}

/// A copy of the model that ships, to be damaged.
pub(crate) fn tiny_glm() -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["config.json", "generation_config.json", "tokenizer.json", "model.safetensors"] {
        copy(&crate::repository().join("models/tiny-glm").join(name), folder.path());
    }
    folder
}

fn copy(file: &Path, folder: &Path) {
    std::fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
}
