//! The architectures: which layers a model has and what they are called in checkpoints.
//!
//! A new one is a file with a struct that is read from the configuration and records the program, and a
//! line in the table below.

mod deepseek_v3;
mod glm4_moe;
mod llama;
mod minimax_m2;
mod olmo2;
mod qwen2;
mod qwen3;
mod qwen3_moe;

use crate::Result;
use crate::block::Recorder;
use crate::config::Config;

/// A model's layers, read from its configuration.
pub(crate) trait Architecture {
    /// Records the model's programs, the trunk first.
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()>;
}

type Read = fn(&Config) -> Result<Box<dyn Architecture>>;

/// What each `model_type` is read by.
const ARCHITECTURES: &[(&str, Read)] = &[
    ("deepseek_v3", |config| Ok(Box::new(deepseek_v3::DeepseekV3::read(config)?))),
    ("glm4_moe", |config| Ok(Box::new(glm4_moe::Glm4Moe::read(config)?))),
    ("glm4_moe_lite", |config| Ok(Box::new(deepseek_v3::DeepseekV3::read(config)?))),
    ("llama", |config| Ok(Box::new(llama::Llama::read(config)?))),
    ("minimax_m2", |config| Ok(Box::new(minimax_m2::MiniMaxM2::read(config)?))),
    ("olmo2", |config| Ok(Box::new(olmo2::Olmo2::read(config)?))),
    ("qwen2", |config| Ok(Box::new(qwen2::Qwen2::read(config)?))),
    ("qwen3", |config| Ok(Box::new(qwen3::Qwen3::read(config)?))),
    ("qwen3_moe", |config| Ok(Box::new(qwen3_moe::Qwen3Moe::read(config)?))),
];

/// Reads the architecture that the configuration names.
///
/// # Errors
/// If it is none of the table, or asks for a variant that is not supported.
pub(crate) fn read(config: &Config) -> Result<Box<dyn Architecture>> {
    let name = config.text("model_type")?;
    match ARCHITECTURES.iter().find(|(known, _)| *known == name) {
        Some((_, read)) => read(config),
        None => {
            let known: Vec<&str> = ARCHITECTURES.iter().map(|(known, _)| *known).collect();
            let what = format!("{name:?} is no supported architecture; known are {}", known.join(", "));
            Err(config.error("model_type", what))
        }
    }
}
