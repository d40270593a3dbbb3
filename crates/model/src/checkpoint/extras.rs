//! Tensors that a text model does not use: which ones are known, and why they may be left alone.

use std::fmt;
use std::ops::Range;

use crate::block::Names;

/// A tensor of a checkpoint that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Its whole name.
    pub name: String,
    /// Its size in the file.
    pub bytes: u64,
    /// Why it is not needed.
    pub why: Why,
}

/// Why a tensor is not needed to run a model as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// A layer that predicts the token after the next one.
    Draft,
    /// A part that reads pictures or sound.
    Tower,
    /// Rotary frequencies, which the configuration gives.
    RotaryFrequencies,
    /// A scale that very old files have beside a trellis, and whose value is within the others.
    OldScale,
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Why::Draft => "multi-token prediction",
            Why::Tower => "vision or audio",
            Why::RotaryFrequencies => "rotary frequencies",
            Why::OldScale => "old scale",
        })
    }
}

/// What the names of pictures' and sound's parts begin with.
const TOWERS: [&str; 15] = [
    "audio_tower.",
    "model.audio_tower.",
    "model.embed_audio.",
    "model.embed_vision.",
    "model.mm_projector.",
    "model.multi_modal_projector.",
    "model.vision_embedder.",
    "model.vision_model.",
    "model.vision_tower.",
    "model.visual.",
    "multi_modal_projector.",
    "vision.",
    "vision_model.",
    "vision_tower.",
    "visual.",
];

/// Why a tensor may be left alone, or none if that is not known. `drafts` are the layers that the
/// configuration announces after the model's own; `has` tells whether the checkpoint has a tensor.
pub(super) fn why(name: &str, names: &Names, drafts: &Range<u32>, has: impl Fn(&str) -> bool) -> Option<Why> {
    if TOWERS.iter().any(|tower| name.starts_with(tower)) {
        return Some(Why::Tower);
    }
    if name.starts_with("mtp.") || layer(name, names).is_some_and(|layer| drafts.contains(&layer)) {
        return Some(Why::Draft);
    }
    if name.ends_with("rotary_emb.inv_freq") {
        return Some(Why::RotaryFrequencies);
    }
    let module = name.strip_suffix(".scale")?;
    has(&format!("{module}.trellis")).then_some(Why::OldScale)
}

/// The layer that a name belongs to.
fn layer(name: &str, names: &Names) -> Option<u32> {
    let (index, _) = name.strip_prefix(names.trunk)?.strip_prefix("layers.")?.split_once('.')?;
    index.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why_of(name: &str) -> Option<Why> {
        why(name, &Names::PLAIN, &(47..48), |name| name == "model.layers.0.mlp.up_proj.trellis")
    }

    #[test]
    fn layers_past_the_last_one_towers_and_leftovers_are_known() {
        assert_eq!(why_of("model.layers.47.eh_proj.trellis"), Some(Why::Draft));
        assert_eq!(why_of("mtp.layers.0.mlp.up_proj.weight"), Some(Why::Draft));
        assert_eq!(why_of("model.visual.blocks.0.attn.qkv.trellis"), Some(Why::Tower));
        assert_eq!(why_of("model.layers.3.self_attn.rotary_emb.inv_freq"), Some(Why::RotaryFrequencies));
        assert_eq!(why_of("model.layers.0.mlp.up_proj.scale"), Some(Why::OldScale));
    }

    #[test]
    fn tensors_of_the_model_itself_are_not_known_as_unused() {
        for name in [
            "model.layers.46.self_attn.sinks",
            "model.layers.48.mlp.up_proj.weight",
            "model.layers.0.mlp.down_proj.scale",
            "model.layers.0.self_attn.q_proj.bias",
            "model.visualisation.weight",
            "model.layers.x.weight",
        ] {
            assert_eq!(why_of(name), None, "{name}");
        }
    }
}
