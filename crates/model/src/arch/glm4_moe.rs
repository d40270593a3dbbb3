//! `glm4_moe`: GLM-4.5, GLM-4.5-Air, GLM-4.6 and GLM-4.7.

use super::Architecture;
use crate::Result;
use crate::block::{Biases, Decoder, FeedForward, GroupedQuery, QueryKeyNorms, Recorder, deepseek_mixtures};
use crate::config::Config;
use crate::rope::PARTIAL_HEADS;

/// Grouped-query attention that rotates a part of each head, perhaps with biases (never on the output) and a
/// norm on each query and key head; experts after some dense layers.
pub(super) struct Glm4Moe {
    decoder: Decoder,
    attention: GroupedQuery,
    /// One a layer.
    feed_forward: Vec<FeedForward>,
}

impl Glm4Moe {
    /// Reads the configuration.
    pub(super) fn read(config: &Config) -> Result<Glm4Moe> {
        let decoder = Decoder::read(config)?;
        let biases = match config.optional_flag("attention_bias")? {
            Some(true) => Biases::QueryKeyValue,
            Some(false) | None => Biases::Absent,
        };
        let norms = match config.optional_flag("use_qk_norm")? {
            Some(true) => QueryKeyNorms::EachHead { eps: decoder.eps() },
            Some(false) | None => QueryKeyNorms::Absent,
        };
        Ok(Glm4Moe {
            attention: GroupedQuery::read(config, biases, norms, &PARTIAL_HEADS)?,
            feed_forward: deepseek_mixtures(config, decoder.layers())?,
            decoder,
        })
    }
}

impl Architecture for Glm4Moe {
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()> {
        self.decoder.record(
            recorder,
            |recorder, layer, x| self.attention.record(recorder, layer, x),
            |recorder, layer, x| self.feed_forward[layer.index as usize].record(recorder, layer, x),
        )
    }
}
