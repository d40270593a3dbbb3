//! What an operation is called in a profile: its kind, the module whose weights it uses, and its layer.
//!
//! A program does not say where a layer begins, but names of weights do (`model.layers.3.mlp.down_proj`). An
//! operation without weights counts with the layer of the one before it.

use std::fmt;

use program::{ModelSpec, Op, Program, WeightId};
use serde::{Serialize, Serializer};

/// The name of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// Its kind.
    pub(super) op: &'static str,
    /// The modules whose weights it uses, without their layer; empty if it has none.
    pub(super) part: String,
    /// Where it belongs.
    pub(super) layer: Layer,
}

/// A part of a model from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Layer {
    /// Before the layers.
    Embedding,
    /// One of them.
    Number(u32),
    /// After them.
    Head,
}

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::Embedding => formatter.pad("embedding"),
            Layer::Number(number) => formatter.pad(&number.to_string()),
            Layer::Head => formatter.pad("head"),
        }
    }
}

impl Serialize for Layer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The labels of a program's operations.
pub(super) fn of_program(model: &ModelSpec, program: &Program) -> Vec<Label> {
    let mut layer = Layer::Embedding;
    let label = |op: &Op| {
        let names = names(model, op);
        if let Some(number) = names.iter().find_map(|name| split(name).0) {
            layer = Layer::Number(number);
        } else if !names.is_empty() && layer != Layer::Embedding {
            layer = Layer::Head;
        }
        Label { op: op.name(), part: part(&names), layer }
    };
    program.ops.iter().map(label).collect()
}

/// The name of the first part of each weight that an operation uses; a mixture of experts is named by one of them.
fn names<'a>(model: &'a ModelSpec, op: &Op) -> Vec<&'a str> {
    let name = |id: WeightId| model.weight(id).parts.first().map(|part| part.name.as_str());
    let weights = match op {
        Op::Experts { experts, .. } => vec![experts.gate],
        _ => op.weights(),
    };
    weights.into_iter().filter_map(name).collect()
}

/// The layer that a weight's name tells, and what follows it in the name; the whole name if there is none.
fn split(name: &str) -> (Option<u32>, &str) {
    let found = name.split_once("layers.").and_then(|(_, rest)| {
        let (number, rest) = rest.split_once('.')?;
        Some((number.parse().ok()?, rest))
    });
    found.map_or((None, name), |(number, rest)| (Some(number), rest))
}

/// `self_attn.q_proj+k_proj` of the modules of one operation: the first whole, then what is new in the others.
fn part(names: &[&str]) -> String {
    let modules: Vec<&str> = names.iter().map(|name| module(split(name).1)).collect();
    let Some((first, others)) = modules.split_first() else { return String::new() };
    others.iter().fold((*first).to_owned(), |all, other| {
        let last = other.rsplit('.').next().unwrap_or(other);
        format!("{all}+{last}")
    })
}

/// A name without `.weight`, and of an expert without its number and what follows.
fn module(name: &str) -> &str {
    let name = name.strip_suffix(".weight").unwrap_or(name);
    let is_number = |component: &str| component.parse::<u32>().is_ok();
    match name.split('.').find(|component| is_number(component)) {
        Some(number) => name.split_once(&format!(".{number}.")).map_or(name, |(before, _)| before),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_into_layer_and_module() {
        assert_eq!(split("model.layers.12.mlp.down_proj"), (Some(12), "mlp.down_proj"));
        assert_eq!(split("language_model.model.layers.0.x"), (Some(0), "x"));
        assert_eq!(split("lm_head"), (None, "lm_head"));
        assert_eq!(split("layers.x.y"), (None, "layers.x.y"));
        assert_eq!(module("mlp.experts.7.gate_proj"), "mlp.experts");
        assert_eq!(module("input_layernorm.weight"), "input_layernorm");
    }

    #[test]
    fn modules_of_one_operation_are_joined() {
        let names = ["model.layers.1.self_attn.q_a_proj", "model.layers.1.self_attn.kv_a_proj_with_mqa"];
        assert_eq!(part(&names), "self_attn.q_a_proj+kv_a_proj_with_mqa");
        assert_eq!(part(&["model.layers.1.mlp.experts.0.gate_proj"]), "mlp.experts");
        assert_eq!(part(&[]), "");
    }
}
