//! The shape of a model without its numbers: what synthetic models are made to.

use std::path::Path;

use exl3::{Bits, Codebook};
use serde_json::Value;

use crate::config::Config;
use crate::{Error, Result};

/// A configuration, and how the linear maps of a synthetic model of that shape are stored.
#[derive(Clone, Debug)]
pub struct Shape {
    pub(crate) config: Config,
    /// Bits a weight.
    pub bits: Bits,
    /// Bits a weight of the head.
    pub head_bits: Bits,
    /// What the codes stand for.
    pub codebook: Codebook,
}

/// The configurations that come with the program, reduced to what is read.
const NAMED: [(&str, &str); 9] = [
    ("deepseek-v3", include_str!("../shapes/deepseek-v3.json")),
    ("glm-4.5-air", include_str!("../shapes/glm-4.5-air.json")),
    ("glm-4.7-flash", include_str!("../shapes/glm-4.7-flash.json")),
    ("llama-3.1-8b", include_str!("../shapes/llama-3.1-8b.json")),
    ("llama-3.2-1b", include_str!("../shapes/llama-3.2-1b.json")),
    ("minimax-m2", include_str!("../shapes/minimax-m2.json")),
    ("olmo-2-7b", include_str!("../shapes/olmo-2-7b.json")),
    ("qwen3-30b-a3b", include_str!("../shapes/qwen3-30b-a3b.json")),
    ("qwen3-32b", include_str!("../shapes/qwen3-32b.json")),
];

impl Shape {
    /// The names of the shapes that come with the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.into_iter().map(|(name, _)| name)
    }

    /// The shape of a known model, at 4 bits with a 6-bit head.
    ///
    /// # Errors
    /// If no shape has this name.
    pub fn named(name: &str) -> Result<Shape> {
        match NAMED.into_iter().find(|(known, _)| *known == name) {
            Some((_, json)) => Ok(Shape::of(Config::parse(Path::new(name), json)?)),
            None => {
                let known: Vec<&str> = Shape::names().collect();
                let what =
                    format!("is no known shape; choose {} or the path of a config.json", known.join(", "));
                Err(Error::file(Path::new(name), what))
            }
        }
    }

    /// The shape that a `config.json` describes, at 4 bits with a 6-bit head.
    ///
    /// # Errors
    /// If the file cannot be read as one.
    pub fn from_config(path: &Path) -> Result<Shape> {
        Ok(Shape::of(Config::open(path)?))
    }

    /// The same with another number of layers.
    #[must_use]
    pub fn with_layers(mut self, layers: u32) -> Shape {
        self.config.set("num_hidden_layers", layers.into());
        // Lists with one entry a layer are repeated from their last entry on.
        for key in ["mlp_layer_types", "layer_types"] {
            if let Some(Value::Array(mut kinds)) = self.config.get(key).cloned()
                && let Some(last) = kinds.last().cloned()
            {
                kinds.resize(layers as usize, last);
                self.config.set(key, kinds.into());
            }
        }
        self
    }

    fn of(config: Config) -> Shape {
        let bits = |bits| Bits::whole(bits).unwrap_or(Bits::ALL[0]);
        Shape { config, bits: bits(4), head_bits: bits(6), codebook: Codebook::Mul1 }
    }
}
