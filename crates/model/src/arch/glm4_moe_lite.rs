//! `glm4_moe_lite`: GLM-4.7-Flash. `deepseek_v3` without expert groups and rotary scaling is the same graph.

use program::{Routing, Score};

use super::Architecture;
use crate::Result;
use crate::block::{Decoder, FeedForward, Latent, Mixture, Recorder, SharedExpert, Unit};
use crate::config::Config;

/// Latent attention; experts chosen by sigmoid scores plus a trained bias, beside a shared one. The first
/// layers are dense.
pub(super) struct Glm4MoeLite {
    decoder: Decoder,
    attention: Latent,
    /// One a layer.
    feed_forward: Vec<FeedForward>,
}

impl Glm4MoeLite {
    /// Reads the configuration.
    pub(super) fn read(config: &Config) -> Result<Glm4MoeLite> {
        config.require("scoring_func", "sigmoid")?;
        config.require("topk_method", "noaux_tc")?;
        config.require("n_group", 1)?;
        config.require("moe_layer_freq", 1)?;
        let decoder = Decoder::read(config)?;
        Ok(Glm4MoeLite {
            attention: Latent::read(config)?,
            feed_forward: feed_forward(config, decoder.layers())?,
            decoder,
        })
    }
}

/// `mlp_layer_types` says of each layer whether it is dense; without it the first `first_k_dense_replace` are.
fn feed_forward(config: &Config, layers: u32) -> Result<Vec<FeedForward>> {
    let sparse: Vec<bool> = match config.optional_list("mlp_layer_types")? {
        None => {
            let dense = config.whole("first_k_dense_replace")?;
            (0..layers).map(|index| index >= dense).collect()
        }
        Some(kinds) if kinds.len() != layers as usize => {
            let what = format!("lists {} layers, num_hidden_layers is {layers}", kinds.len());
            return Err(config.error("mlp_layer_types", what));
        }
        Some(kinds) => {
            let is_sparse = |kind: &serde_json::Value| match kind.as_str() {
                Some("sparse") => Ok(true),
                Some("dense") => Ok(false),
                _ => Err(config.error(
                    "mlp_layer_types",
                    format!("{kind} is not supported, only \"dense\" and \"sparse\" are"),
                )),
            };
            kinds.iter().map(is_sparse).collect::<Result<_>>()?
        }
    };
    let layer = |is_sparse| {
        if is_sparse {
            mixture(config).map(FeedForward::Sparse)
        } else {
            Ok(FeedForward::Dense(Unit { width: config.count("intermediate_size")? }))
        }
    };
    sparse.into_iter().map(layer).collect()
}

fn mixture(config: &Config) -> Result<Mixture> {
    let width = config.count("moe_intermediate_size")?;
    let shared = match config.whole("n_shared_experts")? {
        0 => SharedExpert::Absent,
        experts => SharedExpert::Wide {
            width: width.checked_mul(experts).ok_or_else(|| {
                config.error("n_shared_experts", format!("{experts} shared experts are too many"))
            })?,
        },
    };
    Ok(Mixture {
        routing: Routing {
            experts: Mixture::experts(config)?,
            top_k: config.count("num_experts_per_tok")?,
            groups: None,
            score: Score::Sigmoid,
            gates: Mixture::gates(config.optional_flag("norm_topk_prob")?.unwrap_or(true), 1e-20),
            scale: config.number("routed_scaling_factor")? as f32,
        },
        width,
        shared,
    })
}

impl Architecture for Glm4MoeLite {
    fn record(&self, recorder: &mut Recorder<'_>) -> program::Result<()> {
        self.decoder.record(
            recorder,
            |recorder, layer, x| self.attention.record(recorder, layer, x),
            |recorder, layer, x| self.feed_forward[layer.index as usize].record(recorder, layer, x),
        )
    }
}
