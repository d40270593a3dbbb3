//! Multi-head latent attention (MLA), as DeepSeek-V3 and GLM-4.7-Flash have it.

use program::{Format, Heads, Mla, Pairing, Part, Result, Rope, Val};

use super::{Layer, Recorder};
use crate::config::Config;
use crate::rope;

/// The eps of the two norms within the attention, whatever the configuration says: transformers builds them
/// without passing its `rms_norm_eps`, so their default counts.
const INNER_EPS: f32 = 1e-6;

/// ```text
/// q = q_b(norm(q_a x))  (or q_proj x)              [heads * (nope + rotary)]
/// latent, key = kv_a x                             [rank], [rotary]
/// o(attend_mla(rope(q), norm(latent), rope(key)))  scale = (nope + rotary)^-0.5, times YaRN's gain
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Latent {
    shape: Mla,
    hidden: u32,
    /// Columns between the two query projections; none where there is one projection only.
    query_rank: Option<u32>,
    rope: Rope,
}

impl Latent {
    /// Reads heads, ranks and rotary embedding.
    pub(crate) fn read(config: &Config) -> crate::Result<Latent> {
        config.require("attention_bias", false)?;
        let heads = config.count("num_attention_heads")?;
        let nope = config.count("qk_nope_head_dim")?;
        let rotary = config.count("qk_rope_head_dim")?;
        let value = config.count("v_head_dim")?;
        let rank = config.count("kv_lora_rank")?;
        let widest = (u64::from(heads) * (u64::from(nope) + u64::from(rotary.max(value))))
            .max(u64::from(rank) + u64::from(rotary));
        if !rotary.is_multiple_of(2) || u32::try_from(widest).is_err() {
            let what = format!(
                "{heads} heads with {rotary} rotary dims are not supported, an even number is needed"
            );
            return Err(config.error("qk_rope_head_dim", what));
        }
        let pairing = match config.optional_flag("rope_interleave")? {
            None | Some(true) => Pairing::Interleaved,
            Some(false) => Pairing::HalfSplit,
        };
        let rotation = rope::read(config, rotary, pairing, &rope::LATENT)?;
        let scale = (f64::from(nope + rotary).powf(-0.5) * rotation.score_gain) as f32;
        Ok(Latent {
            shape: Mla { heads, nope, rotary, value, rank, scale },
            hidden: config.count("hidden_size")?,
            query_rank: config.optional_count("q_lora_rank")?,
            rope: rotation.rope,
        })
    }

    /// Records one layer's attention.
    pub(crate) fn record(&self, recorder: &mut Recorder<'_>, layer: &Layer, x: Val) -> Result<Val> {
        let Mla { heads, nope, rotary, rank, .. } = self.shape;
        let name = |part: &str| layer.name(&format!("self_attn.{part}"));
        // The rotary key stays exact: it is small, and an error in it turns with the position.
        let parts = [Part { cols: rank, format: recorder.cache }, Part { cols: rotary, format: Format::F16 }];
        let cache = recorder.cache(parts)?;
        let builder = &mut recorder.builder;
        let (query, compressed) = match self.query_rank {
            None => {
                let [query, compressed] = builder.linears(
                    x,
                    [
                        linear(name("q_proj"), heads * (nope + rotary)),
                        linear(name("kv_a_proj_with_mqa"), rank + rotary),
                    ],
                )?;
                (query, compressed)
            }
            Some(query_rank) => {
                let [query, compressed] = builder.linears(
                    x,
                    [linear(name("q_a_proj"), query_rank), linear(name("kv_a_proj_with_mqa"), rank + rotary)],
                )?;
                let query = builder.rms_norm(query, &name("q_a_layernorm.weight"), query_rank, INNER_EPS)?;
                (builder.linear(query, &name("q_b_proj"), heads * (nope + rotary))?, compressed)
            }
        };
        let latent =
            builder.rms_norm(compressed.cols(0, rank), &name("kv_a_layernorm.weight"), rank, INNER_EPS)?;
        let query_heads = Heads { count: heads, dims: nope + rotary, first: nope, rotary };
        let key_heads = Heads { count: 1, dims: rotary, first: 0, rotary };
        let query = builder.rope(query, query_heads, &self.rope)?;
        let key = builder.rope(compressed.cols(rank, rotary), key_heads, &self.rope)?;
        builder.cache_write(latent, cache, 0)?;
        builder.cache_write(key, cache, 1)?;
        let context = builder.attend_mla(query, cache, &name("kv_b_proj"), self.shape)?;
        builder.linear(context, &name("o_proj"), self.hidden)
    }
}

fn linear(name: String, out: u32) -> program::builder::LinearSpec {
    program::builder::LinearSpec { name, out, bias: false }
}
