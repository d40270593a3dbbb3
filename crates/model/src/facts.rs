//! What is told of a model: its settings as a whole, and its tensors one by one.

use std::path::Path;

use program::{Dtype, Kind, Storage};
use serde_json::Value;

use crate::Result;
use crate::config::Config;
use crate::generation::Recommended;

/// What a configuration says of a model as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The configuration's `model_type`.
    pub architecture: String,
    /// Rows of the embedding table and logits of a row.
    pub vocab: u32,
    /// The most positions it was made for.
    pub context: u32,
    /// The token that begins a sequence.
    pub bos: Option<u32>,
    /// The tokens that end a turn.
    pub eos: Vec<u32>,
    /// How many layers it has.
    pub layers: u32,
    /// How many more there may be in its files that predict the token after the next one.
    pub draft_layers: u32,
    /// How its makers want its tokens drawn.
    pub recommended: Recommended,
}

/// One tensor of a model, as [`Model::tensors`](crate::Model::tensors) lists them.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorFacts {
    /// Its module, or its whole name if it is a vector.
    pub name: String,
    /// Its logical shape, without padding: `[out, in]`, or one length.
    pub shape: Vec<u64>,
    /// Bits a number.
    pub bits: f32,
    /// The codebook, or the number format.
    pub codebook: &'static str,
    /// Bytes in memory, scales and bias included.
    pub bytes: u64,
}

impl Facts {
    pub(crate) fn read(config: &Config) -> Result<Facts> {
        Ok(Facts {
            architecture: config.text("model_type")?.into(),
            vocab: config.count("vocab_size")?,
            context: config.count("max_position_embeddings")?,
            bos: tokens(config, "bos_token_id")?.first().copied(),
            eos: tokens(config, "eos_token_id")?,
            layers: config.count("num_hidden_layers")?,
            draft_layers: config.optional_whole("num_nextn_predict_layers")?.unwrap_or(0),
            recommended: Recommended::default(),
        })
    }

    /// Adds what `generation_config.json` says, where there is one: its tokens that end a turn join the
    /// configuration's, and it recommends how tokens are drawn.
    pub(crate) fn add_generation_config(&mut self, path: &Path) -> Result<()> {
        if !path.exists() {
            return Ok(());
        }
        let config = Config::open(path)?;
        for token in tokens(&config, "eos_token_id")? {
            if !self.eos.contains(&token) {
                self.eos.push(token);
            }
        }
        if self.bos.is_none() {
            self.bos = tokens(&config, "bos_token_id")?.first().copied();
        }
        self.recommended = Recommended::read(path)?;
        Ok(())
    }
}

/// A token id, a list of them, or none.
fn tokens(config: &Config, key: &str) -> Result<Vec<u32>> {
    let values = match config.get_around(key) {
        None => return Ok(Vec::new()),
        Some(Value::Array(values)) => values.as_slice(),
        Some(value) => std::slice::from_ref(value),
    };
    let token = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| config.error(key, format!("has {value}, token ids are needed")))
    };
    values.iter().map(token).collect()
}

impl TensorFacts {
    pub(crate) fn of(name: &str, kind: Kind, storage: Storage) -> TensorFacts {
        let (rows, cols) = kind.shape();
        let shape = match kind {
            Kind::Vector { len } => vec![len.into()],
            _ => vec![rows.into(), cols.into()],
        };
        let (bits, codebook) = match storage {
            Storage::Dense(Dtype::F32) => (32.0, "f32"),
            Storage::Dense(Dtype::F16) => (16.0, "f16"),
            Storage::Dense(Dtype::Bf16) => (16.0, "bf16"),
            Storage::Exl3 { bits, codebook } => (bits.as_f32(), codebook.name()),
            Storage::Exl3Table { bits } => (bits.as_f32(), exl3::Codebook::Mul1.name()),
        };
        TensorFacts { name: name.into(), shape, bits, codebook, bytes: storage.bytes(kind) }
    }
}
