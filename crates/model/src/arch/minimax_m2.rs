//! `minimax_m2`: MiniMax-M2 and its successors up to 2.7.

use program::{Routing, Score};

use super::Architecture;
use crate::Result;
use crate::block::{
    Biases, Decoder, GroupedQuery, Mixture, MixtureNames, QueryKeyNorms, Recorder, SharedExpert,
};
use crate::config::Config;
use crate::rope::PARTIAL_HEADS;

/// Grouped-query attention with one norm over all query heads and one over all key heads, that rotates a part
/// of each head; experts chosen by sigmoid scores plus a trained bias in every layer.
pub(super) struct MiniMaxM2 {
    decoder: Decoder,
    attention: GroupedQuery,
    mixture: Mixture,
}

impl MiniMaxM2 {
    /// Reads the configuration.
    pub(super) fn read(config: &Config) -> Result<MiniMaxM2> {
        config.require("attention_bias", false)?;
        config.require("use_qk_norm", true)?;
        config.require("qk_norm_type", "per_layer")?;
        config.require("scoring_func", "sigmoid")?;
        config.require("use_routing_bias", true)?;
        config.require("shared_intermediate_size", 0)?;
        // 0 is the linear attention of older models.
        for kind in config.optional_list("attn_type_list")?.unwrap_or_default() {
            if kind != 1 {
                let what = format!("{kind} is not supported, only 1 is");
                return Err(config.error("attn_type_list", what));
            }
        }
        let decoder = Decoder::read(config)?;
        let norms = QueryKeyNorms::WholeProjection { eps: decoder.eps() };
        Ok(MiniMaxM2 {
            attention: GroupedQuery::read(config, Biases::Absent, norms, &PARTIAL_HEADS)?,
            mixture: mixture(config)?,
            decoder,
        })
    }
}

fn mixture(config: &Config) -> Result<Mixture> {
    Ok(Mixture {
        routing: Routing {
            experts: Mixture::experts(config)?,
            top_k: config.count("num_experts_per_tok")?,
            groups: None,
            score: Score::Sigmoid,
            gates: Mixture::gates(true, 1e-20),
            scale: 1.0,
        },
        width: config.count("intermediate_size")?,
        shared: SharedExpert::Absent,
        names: MixtureNames::BLOCK_SPARSE,
    })
}

impl Architecture for MiniMaxM2 {
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()> {
        self.decoder.record(
            recorder,
            |recorder, layer, x| self.attention.record(recorder, layer, x),
            |recorder, layer, x| self.mixture.record(recorder, layer, x),
        )
    }
}
