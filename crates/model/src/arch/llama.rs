//! `llama`: Llama 2 and 3, and what has their shape.

use super::Architecture;
use crate::Result;
use crate::block::{Biases, Decoder, GroupedQuery, QueryKeyNorms, Recorder, Unit};
use crate::config::Config;
use crate::rope::WHOLE_HEADS;

/// Grouped-query attention without biases, and a gated unit, in every layer.
pub(super) struct Llama {
    decoder: Decoder,
    attention: GroupedQuery,
    unit: Unit,
}

impl Llama {
    /// Reads the configuration.
    pub(super) fn read(config: &Config) -> Result<Llama> {
        config.require("attention_bias", false)?;
        Ok(Llama {
            decoder: Decoder::read(config)?,
            attention: GroupedQuery::read(config, Biases::Absent, QueryKeyNorms::Absent, &WHOLE_HEADS)?,
            unit: Unit { width: config.count("intermediate_size")? },
        })
    }
}

impl Architecture for Llama {
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()> {
        self.decoder.record(
            recorder,
            |recorder, layer, x| self.attention.record(recorder, layer, x),
            |recorder, layer, x| self.unit.record(recorder, layer, x),
        )
    }
}
