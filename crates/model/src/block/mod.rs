//! The parts that architectures are made of, each written once over a [`Builder`].

mod decoder;
mod deepseek_mixtures;
mod feed_forward;
mod grouped_query;
mod latent;

use program::{Builder, CacheId, CacheSpec, Format, Life, Part, Score};

pub(crate) use decoder::{Decoder, tied};
pub(crate) use deepseek_mixtures::deepseek_mixtures;
pub(crate) use feed_forward::{FeedForward, Mixture, MixtureNames, SharedExpert, Unit};
pub(crate) use grouped_query::{Biases, GroupedQuery, QueryKeyNorms};
pub(crate) use latent::Latent;

/// What an architecture records its program with.
pub(crate) struct Recorder<'a> {
    /// Takes the operations.
    pub(crate) builder: Builder<'a>,
    /// What weights are called.
    pub(crate) names: Names,
    /// How caches are stored.
    pub(crate) cache: Format,
    /// Who chooses experts.
    pub(crate) choice: Choice,
    /// Ids that the tokenizer knows; no other is ever drawn. None without a tokenizer.
    pub(crate) known: Option<u32>,
}

/// Who chooses the experts of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The trained router.
    Router,
    /// A hash, for synthetic models.
    Hash,
}

/// Where the text model lies among the names of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// What embedding, layers and final norm begin with: `model.` or the prefix of a text model within
    /// a larger one.
    pub(crate) trunk: &'static str,
    /// The head's module.
    pub(crate) head: &'static str,
}

impl Names {
    /// A model of text alone.
    pub(crate) const PLAIN: Names = Names { trunk: "model.", head: "lm_head" };
    /// The arrangements that are known, the ones with longer prefixes first.
    pub(crate) const ALL: [Names; 3] = [
        Names { trunk: "model.language_model.", head: "lm_head" },
        Names { trunk: "language_model.model.", head: "language_model.lm_head" },
        Names::PLAIN,
    ];

    /// The whole name of a part outside the layers.
    pub(crate) fn trunk(&self, part: &str) -> String {
        format!("{}{part}", self.trunk)
    }

    /// The names of one layer.
    pub(crate) fn layer(&self, index: u32) -> Layer {
        Layer { index, prefix: format!("{}layers.{index}.", self.trunk) }
    }
}

/// One layer of a model.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Counted from 0.
    pub(crate) index: u32,
    prefix: String,
}

impl Layer {
    /// The whole name of a part of the layer.
    pub(crate) fn name(&self, part: &str) -> String {
        format!("{}{part}", self.prefix)
    }
}

impl Recorder<'_> {
    /// A new per-token cache of two parts: keys and values, or latents and rotary keys.
    fn cache(&mut self, parts: [Part; 2]) -> program::Result<CacheId> {
        for part in parts {
            let group = exl3::kv::GROUP as u32;
            if part.format != Format::F16 && !part.cols.is_multiple_of(group) {
                let what = format!(
                    "rows of {} numbers are no multiple of {group} and cannot be quantised; use an f16 cache",
                    part.cols
                );
                return Err(program::Error::Shape { op: "cache".into(), what });
            }
        }
        Ok(self.builder.cache(CacheSpec { life: Life::PerToken, parts: parts.to_vec() }))
    }

    /// How a layer's router scores, given what the trained one does.
    fn score(&self, trained: Score, layer: &Layer) -> Score {
        match self.choice {
            Choice::Router => trained,
            Choice::Hash => Score::Hash { layer: layer.index },
        }
    }
}
