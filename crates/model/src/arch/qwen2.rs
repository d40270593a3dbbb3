//! `qwen2`: Qwen2 and Qwen2.5.

use super::Architecture;
use crate::Result;
use crate::block::{Biases, Decoder, GroupedQuery, QueryKeyNorms, Recorder, Unit};
use crate::config::Config;
use crate::rope::WHOLE_HEADS;

/// Llama with biases on query, key and value (never on the output), whatever the configuration says.
pub(super) struct Qwen2 {
    decoder: Decoder,
    attention: GroupedQuery,
    unit: Unit,
}

impl Qwen2 {
    /// Reads the configuration.
    pub(super) fn read(config: &Config) -> Result<Qwen2> {
        Ok(Qwen2 {
            decoder: Decoder::read(config)?,
            attention: GroupedQuery::read(
                config,
                Biases::QueryKeyValue,
                QueryKeyNorms::Absent,
                &WHOLE_HEADS,
            )?,
            unit: Unit { width: config.count("intermediate_size")? },
        })
    }
}

impl Architecture for Qwen2 {
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()> {
        self.decoder.record(
            recorder,
            |recorder, layer, x| self.attention.record(recorder, layer, x),
            |recorder, layer, x| self.unit.record(recorder, layer, x),
        )
    }
}
