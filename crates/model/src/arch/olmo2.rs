//! `olmo2`: OLMo-2 of 1 to 32 billion parameters.

use super::Architecture;
use crate::Result;
use crate::block::{Biases, Decoder, GroupedQuery, QueryKeyNorms, Recorder, Unit};
use crate::config::Config;
use crate::rope::WHOLE_HEADS;

/// Llama with the norms after attention and unit instead of before them, and with one norm over all query
/// heads and one over all key heads.
pub(super) struct Olmo2 {
    decoder: Decoder,
    attention: GroupedQuery,
    unit: Unit,
}

impl Olmo2 {
    /// Reads the configuration.
    pub(super) fn read(config: &Config) -> Result<Olmo2> {
        config.require("attention_bias", false)?;
        let decoder = Decoder::read(config)?;
        let norms = QueryKeyNorms::WholeProjection { eps: decoder.eps() };
        Ok(Olmo2 {
            attention: GroupedQuery::read(config, Biases::Absent, norms, &WHOLE_HEADS)?,
            unit: Unit { width: config.count("intermediate_size")? },
            decoder,
        })
    }
}

impl Architecture for Olmo2 {
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()> {
        self.decoder.record_norms_after(
            recorder,
            |recorder, layer, x| self.attention.record(recorder, layer, x),
            |recorder, layer, x| self.unit.record(recorder, layer, x),
        )
    }
}
