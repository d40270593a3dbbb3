//! `deepseek_v3`: DeepSeek-V3 and R1. `glm4_moe_lite`, GLM-4.7-Flash, is the same graph.

use super::Architecture;
use crate::Result;
use crate::block::{Decoder, FeedForward, Latent, Recorder, deepseek_mixtures};
use crate::config::Config;

/// Latent attention; experts after some dense layers.
pub(super) struct DeepseekV3 {
    decoder: Decoder,
    attention: Latent,
    /// One a layer.
    feed_forward: Vec<FeedForward>,
}

impl DeepseekV3 {
    /// Reads the configuration.
    pub(super) fn read(config: &Config) -> Result<DeepseekV3> {
        let decoder = Decoder::read(config)?;
        Ok(DeepseekV3 {
            attention: Latent::read(config)?,
            feed_forward: deepseek_mixtures(config, decoder.layers())?,
            decoder,
        })
    }
}

impl Architecture for DeepseekV3 {
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()> {
        self.decoder.record(
            recorder,
            |recorder, layer, x| self.attention.record(recorder, layer, x),
            |recorder, layer, x| self.feed_forward[layer.index as usize].record(recorder, layer, x),
        )
    }
}
