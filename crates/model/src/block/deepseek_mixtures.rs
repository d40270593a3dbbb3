//! The feed-forward parts of DeepSeek-V3 and of GLM-4.5 and later: dense in the first layers, then experts that
//! are chosen by sigmoid scores plus a trained bias, beside a shared one.

use program::{Groups, Routing, Score};
use serde_json::Value;

use super::{FeedForward, Mixture, MixtureNames, SharedExpert, Unit};
use crate::Result;
use crate::config::Config;

/// Reads one for each layer, and requires what no configuration of theirs does otherwise.
///
/// `mlp_layer_types` says of each layer whether it is dense; without it the first `first_k_dense_replace` are.
pub(crate) fn deepseek_mixtures(config: &Config, layers: u32) -> Result<Vec<FeedForward>> {
    config.require("scoring_func", "sigmoid")?;
    config.require("topk_method", "noaux_tc")?;
    config.require("moe_layer_freq", 1)?;
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
            let is_sparse = |kind: &Value| match kind.as_str() {
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
            groups: groups(config)?,
            score: Score::Sigmoid,
            gates: Mixture::gates(config.optional_flag("norm_topk_prob")?.unwrap_or(true), 1e-20),
            scale: config.number("routed_scaling_factor")? as f32,
        },
        width,
        shared,
        names: MixtureNames::MLP,
    })
}

/// `topk_group` of `n_group` groups stay; one group is none.
fn groups(config: &Config) -> Result<Option<Groups>> {
    match config.optional_count("n_group")?.unwrap_or(1) {
        1 => config.require("topk_group", 1).map(|()| None),
        count => Ok(Some(Groups { count, chosen: config.count("topk_group")? })),
    }
}
