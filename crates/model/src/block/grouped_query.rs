//! Grouped-query attention, as Llama, Qwen, GLM-4.5 and MiniMax have it.

use program::builder::LinearSpec;
use program::{Gqa, Heads, Pairing, Part, Result, Rope, Val};

use super::{Layer, Recorder};
use crate::config::Config;
use crate::rope;

/// ```text
/// q = q_proj x;  k = k_proj x;  v = v_proj x      (biases; norms on q and k)
/// o_proj(attend(rope(q), rope(k), v))             scale = head_dim^-0.5
/// ```
#[derive(Clone, Debug)]
pub(crate) struct GroupedQuery {
    shape: Gqa,
    hidden: u32,
    rope: Rope,
    biases: Biases,
    norms: QueryKeyNorms,
}

/// Which projections have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Biases {
    /// None.
    Absent,
    /// Query, key and value, but not the output.
    QueryKeyValue,
}

/// Whether queries and keys are normalised before they are rotated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum QueryKeyNorms {
    /// No.
    Absent,
    /// Each head by itself, with weights shared by all heads.
    EachHead {
        /// Added to the mean square.
        eps: f32,
    },
    /// All heads of a projection together, each with weights of its own.
    WholeProjection {
        /// Added to the mean square.
        eps: f32,
    },
}

impl GroupedQuery {
    /// Reads heads and rotary embedding, and requires attention over the whole context.
    pub(crate) fn read(
        config: &Config,
        biases: Biases,
        norms: QueryKeyNorms,
        rotary: &rope::Supported,
    ) -> crate::Result<GroupedQuery> {
        config.require("use_sliding_window", false)?;
        for kind in config.optional_list("layer_types")?.unwrap_or_default() {
            if kind != "full_attention" {
                let what = format!("{kind} is not supported, only \"full_attention\" is");
                return Err(config.error("layer_types", what));
            }
        }
        let hidden = config.count("hidden_size")?;
        let heads = config.count("num_attention_heads")?;
        let kv_heads = config.optional_count("num_key_value_heads")?.unwrap_or(heads);
        let dims = match config.optional_count("head_dim")? {
            Some(dims) => dims,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(
                    config.error("head_dim", format!("is absent, and {heads} heads do not divide {hidden}"))
                );
            }
        };
        let widest = heads.max(kv_heads);
        if !dims.is_multiple_of(2) || widest.checked_mul(dims).is_none() {
            let what = format!("{widest} heads of {dims} dims are not supported, an even number is needed");
            return Err(config.error("head_dim", what));
        }
        let scale = f64::from(dims).powf(-0.5) as f32;
        Ok(GroupedQuery {
            shape: Gqa { heads, kv_heads, key_dims: dims, value_dims: dims, scale },
            hidden,
            rope: rope::read(config, dims, Pairing::HalfSplit, rotary)?.rope,
            biases,
            norms,
        })
    }

    /// Records one layer's attention.
    pub(crate) fn record(&self, recorder: &mut Recorder<'_>, layer: &Layer, x: Val) -> Result<Val> {
        let Gqa { heads, kv_heads, key_dims: dims, .. } = self.shape;
        let projection = |part: &str, heads: u32| LinearSpec {
            name: layer.name(&format!("self_attn.{part}_proj")),
            out: heads * dims,
            bias: self.biases == Biases::QueryKeyValue,
        };
        let part = Part { cols: kv_heads * dims, format: recorder.cache };
        let cache = recorder.cache([part, part])?;
        let builder = &mut recorder.builder;
        let projections = [projection("q", heads), projection("k", kv_heads), projection("v", kv_heads)];
        let [mut q, mut k, v] = builder.linears(x, projections)?;
        let norms = match self.norms {
            QueryKeyNorms::Absent => None,
            QueryKeyNorms::EachHead { eps } => Some(([dims, dims], eps)),
            QueryKeyNorms::WholeProjection { eps } => Some(([q.cols, k.cols], eps)),
        };
        if let Some(([query, key], eps)) = norms {
            q = builder.rms_norm(q, &layer.name("self_attn.q_norm.weight"), query, eps)?;
            k = builder.rms_norm(k, &layer.name("self_attn.k_norm.weight"), key, eps)?;
        }
        let rotary = 2 * self.rope.inverse_frequencies.len() as u32;
        let rotated = |count| Heads { count, dims, first: 0, rotary };
        let q = builder.rope(q, rotated(heads), &self.rope)?;
        let k = builder.rope(k, rotated(kv_heads), &self.rope)?;
        builder.cache_write(k, cache, 0)?;
        builder.cache_write(v, cache, 1)?;
        let context = builder.attend(q, cache, self.shape)?;
        builder.linear(context, &layer.name("self_attn.o_proj"), self.hidden)
    }
}
