//! `qwen3_moe`: Qwen3-30B-A3B and its relatives.

use program::{Routing, Score};

use super::Architecture;
use crate::Result;
use crate::block::{
    Biases, Decoder, FeedForward, GroupedQuery, Mixture, MixtureNames, QueryKeyNorms, Recorder, SharedExpert,
    Unit,
};
use crate::config::Config;
use crate::rope::WHOLE_HEADS;

/// Grouped-query attention with a norm on each query and key head; experts chosen by a softmax.
pub(super) struct Qwen3Moe {
    decoder: Decoder,
    attention: GroupedQuery,
    /// One a layer.
    feed_forward: Vec<FeedForward>,
}

impl Qwen3Moe {
    /// Reads the configuration.
    pub(super) fn read(config: &Config) -> Result<Qwen3Moe> {
        config.require("attention_bias", false)?;
        let decoder = Decoder::read(config)?;
        let norms = QueryKeyNorms::EachHead { eps: decoder.eps() };
        Ok(Qwen3Moe {
            attention: GroupedQuery::read(config, Biases::Absent, norms, &WHOLE_HEADS)?,
            feed_forward: feed_forward(config, decoder.layers())?,
            decoder,
        })
    }
}

/// A layer is sparse if it is not listed in `mlp_only_layers` and its number, counted from 1, is a multiple
/// of `decoder_sparse_step`.
fn feed_forward(config: &Config, layers: u32) -> Result<Vec<FeedForward>> {
    let dense = config.optional_list("mlp_only_layers")?.unwrap_or_default();
    let step = config.optional_count("decoder_sparse_step")?.unwrap_or(1);
    let is_sparse = |index: u32| (index + 1).is_multiple_of(step) && !dense.contains(&index.into());
    let layer = |index| {
        if is_sparse(index) {
            mixture(config).map(FeedForward::Sparse)
        } else {
            Ok(FeedForward::Dense(Unit { width: config.count("intermediate_size")? }))
        }
    };
    (0..layers).map(layer).collect()
}

fn mixture(config: &Config) -> Result<Mixture> {
    Ok(Mixture {
        routing: Routing {
            experts: Mixture::experts(config)?,
            top_k: config.count("num_experts_per_tok")?,
            groups: None,
            score: Score::Softmax,
            gates: Mixture::gates(config.flag("norm_topk_prob")?, 0.0),
            scale: 1.0,
        },
        width: config.count("moe_intermediate_size")?,
        shared: SharedExpert::Absent,
        names: MixtureNames::MLP,
    })
}

impl Architecture for Qwen3Moe {
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()> {
        self.decoder.record(
            recorder,
            |recorder, layer, x| self.attention.record(recorder, layer, x),
            |recorder, layer, x| self.feed_forward[layer.index as usize].record(recorder, layer, x),
        )
    }
}
