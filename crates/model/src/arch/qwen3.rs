//! `qwen3`: Qwen3-0.6B to Qwen3-32B.

use super::Architecture;
use crate::Result;
use crate::block::{Biases, Decoder, GroupedQuery, QueryKeyNorms, Recorder, Unit};
use crate::config::Config;
use crate::rope::WHOLE_HEADS;

/// Llama with a norm on each query and key head.
pub(super) struct Qwen3 {
    decoder: Decoder,
    attention: GroupedQuery,
    unit: Unit,
}

impl Qwen3 {
    /// Reads the configuration.
    pub(super) fn read(config: &Config) -> Result<Qwen3> {
        config.require("attention_bias", false)?;
        let decoder = Decoder::read(config)?;
        let norms = QueryKeyNorms::EachHead { eps: decoder.eps() };
        Ok(Qwen3 {
            attention: GroupedQuery::read(config, Biases::Absent, norms, &WHOLE_HEADS)?,
            unit: Unit { width: config.count("intermediate_size")? },
            decoder,
        })
    }
}

impl Architecture for Qwen3 {
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()> {
        self.decoder.record(
            recorder,
            |recorder, layer, x| self.attention.record(recorder, layer, x),
            |recorder, layer, x| self.unit.record(recorder, layer, x),
        )
    }
}
