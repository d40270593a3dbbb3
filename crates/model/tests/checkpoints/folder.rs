//! A small checkpoint in a folder of its own, to be changed and opened.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use model::{BuildOptions, Error, Model, Shape, write_checkpoint};
use program::reference::Reference;
use program::{Device, Format};
use serde_json::{Map, Value, json};

/// Two layers, k and v padded from 64 to 128 outputs, the feed-forward width from 192 to 256.
pub(crate) const LLAMA: &str = r#"{
    "model_type": "llama", "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "max_position_embeddings": 128, "hidden_act": "silu"
}"#;

/// A dense layer and a sparse one of four experts, with latent attention.
pub(crate) const GLM: &str = r#"{
    "model_type": "glm4_moe_lite", "hidden_size": 128, "intermediate_size": 128, "moe_intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 2, "q_lora_rank": 64, "kv_lora_rank": 32,
    "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "first_k_dense_replace": 1,
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "routed_scaling_factor": 1.8,
    "n_group": 1, "vocab_size": 300, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "max_position_embeddings": 128, "hidden_act": "silu"
}"#;

/// Two sparse layers, half of each head rotated.
pub(crate) const MINIMAX: &str = r#"{
    "model_type": "minimax_m2", "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "rotary_dim": 16,
    "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 300, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "max_position_embeddings": 128, "hidden_act": "silu"
}"#;

/// Norms after the parts and over whole projections.
pub(crate) const OLMO: &str = r#"{
    "model_type": "olmo2", "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "rms_norm_eps": 1e-6,
    "rope_theta": 500000.0, "max_position_embeddings": 128, "hidden_act": "silu"
}"#;

/// Biases, norms of heads, a dense layer and a sparse one.
pub(crate) const GLM_4_5: &str = r#"{
    "model_type": "glm4_moe", "hidden_size": 128, "intermediate_size": 128, "moe_intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "attention_bias": true, "use_qk_norm": true, "partial_rotary_factor": 0.5, "first_k_dense_replace": 1,
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "routed_scaling_factor": 1.5,
    "vocab_size": 300, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 128,
    "hidden_act": "silu"
}"#;

/// A folder that is removed with the value.
pub(crate) struct Folder(PathBuf);

/// One tensor of a safetensors file.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<u8>,
}

/// All tensors of a file, by name.
pub(crate) type Tensors = std::collections::BTreeMap<String, Tensor>;

impl Folder {
    /// An empty folder.
    pub(crate) fn empty() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("model-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A folder with a synthetic checkpoint of this configuration, at 2 bits.
    pub(crate) fn with(config: &str) -> Folder {
        let folder = Folder::empty();
        folder.write("config.json", config);
        let mut shape = Shape::from_config(&folder.path("config.json")).unwrap();
        shape.bits = "2".parse().unwrap();
        write_checkpoint(&shape, &folder.0).unwrap();
        folder
    }

    /// As [`Folder::with`], then all tensors are changed by `change`.
    pub(crate) fn changed(config: &str, change: impl FnOnce(&mut Tensors)) -> Folder {
        let folder = Folder::with(config);
        folder.change(change);
        folder
    }

    /// Changes the tensors of `model.safetensors`.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Tensors)) {
        let mut tensors = self.tensors();
        change(&mut tensors);
        self.write("model.safetensors", serialize(&tensors));
    }

    /// The tensors of `model.safetensors`.
    pub(crate) fn tensors(&self) -> Tensors {
        let file = self.read("model.safetensors");
        let (header, data) = split(&file);
        let tensor = |(name, info): (String, Value)| {
            let offsets: Vec<usize> = serde_json::from_value(info["data_offsets"].clone()).unwrap();
            let tensor = Tensor {
                dtype: info["dtype"].as_str().unwrap().into(),
                shape: serde_json::from_value(info["shape"].clone()).unwrap(),
                data: data[offsets[0]..offsets[1]].to_vec(),
            };
            (name, tensor)
        };
        header.into_iter().map(tensor).collect()
    }

    /// Changes the header of `model.safetensors` and nothing else.
    pub(crate) fn change_header(&self, change: impl FnOnce(&mut Map<String, Value>)) {
        let file = self.read("model.safetensors");
        let (mut header, data) = split(&file);
        change(&mut header);
        self.write("model.safetensors", join(&Value::Object(header).to_string(), data));
    }

    /// Changes keys of `config.json`; null removes a key.
    pub(crate) fn set(&self, changes: Value) {
        let mut config: Map<String, Value> = serde_json::from_slice(&self.read("config.json")).unwrap();
        config.extend(changes.as_object().unwrap().clone());
        config.retain(|_, value| !value.is_null());
        self.write("config.json", Value::Object(config).to_string());
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.path(file)).unwrap()
    }

    pub(crate) fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(file), content).unwrap();
    }

    pub(crate) fn open(&self) -> Result<Model, Error> {
        Model::open(&self.0, &BuildOptions { cache: Format::F16 })
    }

    /// Opens the model and uploads all weights.
    pub(crate) fn load(&self) -> Result<Box<dyn Device>, Error> {
        let mut device = Box::new(Reference::new());
        self.open()?.load(&mut *device, &mut |_| {})?;
        Ok(device)
    }

    /// The sentence with which the folder is refused, with its path taken off.
    pub(crate) fn refusal(&self) -> String {
        let error = self.load().err().expect("the folder is refused");
        let sentence = error.to_string();
        assert!(!sentence.contains('\n'), "one line: {sentence}");
        let path = self.0.to_str().unwrap();
        assert!(sentence.contains(path), "names the folder: {sentence}");
        sentence.replace(&format!("{path}/"), "").replace(path, "FOLDER")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Best effort: a test that fails here would hide the reason why it failed before.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The bytes of a safetensors file.
pub(crate) fn serialize(tensors: &Tensors) -> Vec<u8> {
    let mut header = Map::new();
    let mut data = Vec::new();
    for (name, tensor) in tensors {
        let start = data.len();
        data.extend_from_slice(&tensor.data);
        let info =
            json!({ "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [start, data.len()] });
        header.insert(name.clone(), info);
    }
    join(&Value::Object(header).to_string(), &data)
}

/// Length, header, data.
pub(crate) fn join(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn split(file: &[u8]) -> (Map<String, Value>, &[u8]) {
    let length = u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    (serde_json::from_slice(&file[8..8 + length]).unwrap(), &file[8 + length..])
}

/// An f16 tensor of zeros.
pub(crate) fn zeros(shape: &[usize]) -> Tensor {
    let bytes = 2 * shape.iter().product::<usize>();
    Tensor { dtype: "F16".into(), shape: shape.to_vec(), data: vec![0; bytes] }
}

/// Whether this user can read files whatever their permissions say.
pub(crate) fn may_read_all(path: &Path) -> bool {
    std::fs::File::open(path).is_ok()
}
