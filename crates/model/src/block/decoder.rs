//! The frame of every decoder: embedding, layers with two norms each, final norm, head.

use program::{Error, Result, Val};

use super::{Layer, Recorder};
use crate::config::Config;

/// More layers than any model has, so that a damaged configuration is refused before it fills memory.
const MOST_LAYERS: u32 = 4096;

/// The embedding table's module.
const TABLE: &str = "embed_tokens";

/// ```text
/// h = embed(tokens)
/// for each layer:  h = h + attention(norm(h));  h = h + feed_forward(norm(h))
/// logits = head(norm(h))
/// ```
///
/// With the norms after the parts, a layer is `h = h + norm(attention(h));  h = h + norm(feed_forward(h))`.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    vocab: u32,
    hidden: u32,
    layers: u32,
    /// Added to the mean square in the norms.
    eps: f32,
    /// Whether a checkpoint without a head uses the embedding table as one.
    tied: bool,
}

impl Decoder {
    /// Reads the sizes, and requires the activation and biases that [`super::FeedForward`] has.
    pub(crate) fn read(config: &Config) -> crate::Result<Decoder> {
        config.require("hidden_act", "silu")?;
        config.require("mlp_bias", false)?;
        Ok(Decoder {
            vocab: config.count("vocab_size")?,
            hidden: config.count("hidden_size")?,
            layers: config.count_up_to("num_hidden_layers", MOST_LAYERS)?,
            eps: eps(config)?,
            tied: tied(config)?,
        })
    }

    /// How many layers there are.
    pub(crate) fn layers(&self) -> u32 {
        self.layers
    }

    /// Added to the mean square in the norms.
    pub(crate) fn eps(&self) -> f32 {
        self.eps
    }

    /// Records the program. `attention` and `feed_forward` record one layer's, from the normalised stream to
    /// what is added to the stream.
    pub(crate) fn record(
        &self,
        recorder: &mut Recorder<'_>,
        mut attention: impl FnMut(&mut Recorder<'_>, &Layer, Val) -> Result<Val>,
        mut feed_forward: impl FnMut(&mut Recorder<'_>, &Layer, Val) -> Result<Val>,
    ) -> Result<()> {
        let names = recorder.names.clone();
        let mut stream = self.embed(recorder)?;
        let first = names.layer(0).name("input_layernorm.weight");
        let mut x = recorder.builder.rms_norm(stream, &first, self.hidden, self.eps)?;
        for index in 0..self.layers {
            let layer = names.layer(index);
            let delta = attention(recorder, &layer, x)?;
            let norm = layer.name("post_attention_layernorm.weight");
            (stream, x) = recorder.builder.add_rms_norm(stream, delta, &norm, self.eps)?;
            let delta = feed_forward(recorder, &layer, x)?;
            let norm = match index + 1 {
                next if next == self.layers => names.trunk("norm.weight"),
                next => names.layer(next).name("input_layernorm.weight"),
            };
            (stream, x) = recorder.builder.add_rms_norm(stream, delta, &norm, self.eps)?;
        }
        self.answer(recorder, x)
    }

    /// As [`Decoder::record`] with the norms after the parts instead of before them: `attention` and
    /// `feed_forward` record from the stream as it is, and what they give is normalised before it is added.
    pub(crate) fn record_norms_after(
        &self,
        recorder: &mut Recorder<'_>,
        mut attention: impl FnMut(&mut Recorder<'_>, &Layer, Val) -> Result<Val>,
        mut feed_forward: impl FnMut(&mut Recorder<'_>, &Layer, Val) -> Result<Val>,
    ) -> Result<()> {
        let names = recorder.names.clone();
        let norm = |recorder: &mut Recorder<'_>, x: Val, name: &str| {
            recorder.builder.rms_norm(x, name, self.hidden, self.eps)
        };
        let mut stream = self.embed(recorder)?;
        for index in 0..self.layers {
            let layer = names.layer(index);
            let delta = attention(recorder, &layer, stream)?;
            let delta = norm(recorder, delta, &layer.name("post_attention_layernorm.weight"))?;
            stream = recorder.builder.add(stream, delta)?;
            let delta = feed_forward(recorder, &layer, stream)?;
            let delta = norm(recorder, delta, &layer.name("post_feedforward_layernorm.weight"))?;
            stream = recorder.builder.add(stream, delta)?;
        }
        let x = norm(recorder, stream, &names.trunk("norm.weight"))?;
        self.answer(recorder, x)
    }

    /// Records the lookup in the embedding table.
    fn embed(&self, recorder: &mut Recorder<'_>) -> Result<Val> {
        let table = recorder.names.trunk(TABLE);
        recorder.builder.embed(&table, self.vocab, self.hidden)
    }

    /// Records the program's end, from the normalised stream on.
    fn answer(&self, recorder: &mut Recorder<'_>, x: Val) -> Result<()> {
        let head = self.head(recorder)?;
        let builder = &mut recorder.builder;
        let x = builder.outputs(x);
        let logits = builder.head(x, &head, self.vocab)?;
        builder.answer(logits, recorder.known.unwrap_or(self.vocab))?;
        builder.program(&[]);
        Ok(())
    }

    /// A head of its own wins even where the configuration ties it to the table: converters write one and
    /// leave a nested configuration as it was.
    fn head(&self, recorder: &Recorder<'_>) -> Result<String> {
        let head = recorder.names.head;
        if recorder.builder.has(head) {
            Ok(head.into())
        } else if self.tied {
            Ok(recorder.names.trunk(TABLE))
        } else {
            Err(Error::Weight {
                name: head.into(),
                what: "is absent, and the configuration's tie_word_embeddings does not let the embedding \
                       table take its place"
                    .into(),
            })
        }
    }
}

/// What is added to the mean square in the norms.
fn eps(config: &Config) -> crate::Result<f32> {
    match config.number("rms_norm_eps")? {
        eps if eps > 0.0 => Ok(eps as f32),
        eps => Err(config.error("rms_norm_eps", format!("is {eps}, a positive number is needed"))),
    }
}

/// Whether the configuration ties the head to the embedding table; absent means not.
pub(crate) fn tied(config: &Config) -> crate::Result<bool> {
    match config.get_around("tie_word_embeddings") {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| {
            config.error("tie_word_embeddings", format!("is {value}, true or false is needed"))
        }),
    }
}
