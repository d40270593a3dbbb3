//! Feed-forward parts: one gated unit, or a mixture of them.

use program::builder::{ExpertsSpec, GluNames, LinearSpec};
use program::{Activation, Gates, Result, Routing, Score, Val};

use super::{Layer, Recorder};
use crate::config::Config;

/// More experts than any layer has, so that a damaged configuration is refused before it fills memory.
const MOST_EXPERTS: u32 = 65_536;

/// What each layer has between its second norm and the next layer.
#[derive(Clone, Debug)]
pub(crate) enum FeedForward {
    /// One unit for every token.
    Dense(Unit),
    /// A few units of many, chosen for each token.
    Sparse(Mixture),
}

/// A gated unit: `down(silu(gate x) * (up x))`.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// Columns between.
    pub(crate) width: u32,
}

/// A mixture of experts.
#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    /// How they are chosen. The choice bias is there where the score is a sigmoid.
    pub(crate) routing: Routing,
    /// Columns between up and down of an expert.
    pub(crate) width: u32,
    /// The expert of all tokens.
    pub(crate) shared: SharedExpert,
    /// What its weights are called.
    pub(crate) names: MixtureNames,
}

/// What the weights of a mixture are called within its layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MixtureNames {
    /// The module around the router `gate`, the `experts` and the `shared_experts`.
    module: &'static str,
    /// The choice bias, within the module.
    bias: &'static str,
    /// Gate, up and down of an expert.
    unit: [&'static str; 3],
}

impl MixtureNames {
    /// DeepSeek's, GLM's and Qwen's.
    pub(crate) const MLP: MixtureNames =
        MixtureNames { module: "mlp", bias: "gate.e_score_correction_bias", unit: PROJECTIONS };
    /// MiniMax's, after Mixtral.
    pub(crate) const BLOCK_SPARSE: MixtureNames = MixtureNames {
        module: "block_sparse_moe",
        bias: "e_score_correction_bias",
        unit: ["w1", "w3", "w2"],
    };
}

/// Gate, up and down of a unit.
const PROJECTIONS: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];

/// The expert that every token uses beside the chosen ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedExpert {
    /// There is none.
    Absent,
    /// One unit; several shared experts are stored as one wider unit.
    Wide {
        /// Columns between up and down.
        width: u32,
    },
}

impl FeedForward {
    /// Records one layer's.
    pub(crate) fn record(&self, recorder: &mut Recorder<'_>, layer: &Layer, x: Val) -> Result<Val> {
        match self {
            FeedForward::Dense(unit) => unit.record(recorder, layer, x),
            FeedForward::Sparse(mixture) => mixture.record(recorder, layer, x),
        }
    }
}

impl Unit {
    /// Records one layer's.
    pub(crate) fn record(&self, recorder: &mut Recorder<'_>, layer: &Layer, x: Val) -> Result<Val> {
        let names = unit(layer, "mlp", PROJECTIONS);
        let wide = |name| LinearSpec { name, out: self.width, bias: false };
        let builder = &mut recorder.builder;
        let [gate, up] = builder.linears(x, [wide(names.gate), wide(names.up)])?;
        let product = builder.act_mul(gate, up, Activation::Silu)?;
        builder.linear(product, &names.down, x.cols)
    }
}

impl Mixture {
    /// How many experts there are, under whichever of the names a configuration uses.
    pub(crate) fn experts(config: &Config) -> crate::Result<u32> {
        let keys = ["num_local_experts", "n_routed_experts", "num_experts"];
        let key = keys.into_iter().find(|key| config.get(key).is_some()).unwrap_or("num_experts");
        config.count_up_to(key, MOST_EXPERTS)
    }

    /// Records one layer's.
    pub(crate) fn record(&self, recorder: &mut Recorder<'_>, layer: &Layer, x: Val) -> Result<Val> {
        let routing = Routing { score: recorder.score(self.routing.score, layer), ..self.routing };
        let MixtureNames { module, bias, unit: parts } = self.names;
        let bias = match self.routing.score {
            Score::Sigmoid => Some(layer.name(&format!("{module}.{bias}"))),
            Score::Softmax | Score::Hash { .. } => None,
        };
        let experts = (0..routing.experts)
            .map(|index| unit(layer, &format!("{module}.experts.{index}"), parts))
            .collect();
        let shared = match self.shared {
            SharedExpert::Absent => None,
            SharedExpert::Wide { width } => {
                Some((unit(layer, &format!("{module}.shared_experts"), parts), width))
            }
        };
        let spec = ExpertsSpec { experts, width: self.width, shared, act: Activation::Silu };
        let builder = &mut recorder.builder;
        let logits = builder.router(x, &layer.name(&format!("{module}.gate")), routing.experts)?;
        let routed = builder.route(logits, bias.as_deref(), routing)?;
        builder.experts(x, routed, &spec)
    }

    /// Whether gates of the chosen are divided by their sum, with what keeps that division finite.
    pub(crate) fn gates(normalised: bool, epsilon: f32) -> Gates {
        if normalised { Gates::Normalised { epsilon } } else { Gates::Raw }
    }
}

fn unit(layer: &Layer, module: &str, parts: [&str; 3]) -> GluNames {
    let [gate, up, down] = parts.map(|part| layer.name(&format!("{module}.{part}")));
    GluNames { gate, up, down }
}
