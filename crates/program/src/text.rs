//! A program as text: one line an operation, for people and for tests that keep what an architecture builds.
//!
//! ```text
//! cache 0: per token, 64 f16, 64 f16
//! program 0
//!   v0 [tokens, 96] stream = embed table [97, 96]
//!   v1 [tokens, 96] = rms_norm v0, 0.input_norm, eps 1e-5
//!   v2 [tokens, 128], v3 [tokens, 64] = linear v1, 0.q [128, 96] + bias, 0.k [64, 96]
//! ```
//!
//! How weights are stored is left out: it belongs to a checkpoint, not to an architecture.

use crate::{
    Activation, CacheSpec, Cols, Gates, Glu, Kind, Life, ModelSpec, Op, Pairing, Role, Rope, Routing, Rows,
    Score, Val, WeightId, WeightSpec,
};

/// The whole model: its caches, then each program.
pub fn model(model: &ModelSpec) -> String {
    let mut text = String::new();
    for (index, cache) in model.caches.iter().enumerate() {
        text += &format!("cache {index}: {}\n", of_cache(cache));
    }
    for (index, program) in model.programs.iter().enumerate() {
        text += &format!("program {index}\n");
        for op in &program.ops {
            text += &format!("  {}\n", self::op(op, model));
        }
    }
    text
}

/// One operation: what it makes, its name, what it reads, its weights and numbers.
pub fn op(op: &Op, model: &ModelSpec) -> String {
    let mut text = op.writes().iter().map(made).collect::<Vec<_>>().join(", ");
    if !text.is_empty() {
        text += " = ";
    }
    text += op.name();
    let operands = operands(op, model);
    if !operands.is_empty() {
        text += " ";
        text += &operands.join(", ");
    }
    text
}

/// A weight's name; of several parts the one name that they have in common, with their number:
/// `layers.1.experts[64].up_proj`.
pub fn weight_name(weight: &WeightSpec) -> String {
    let names: Vec<&str> = weight.parts.iter().map(|part| part.name.as_str()).collect();
    match names[..] {
        [] => "nothing".into(),
        [name] => name.into(),
        [first, .., last] => {
            let (a, b): (Vec<&str>, Vec<&str>) = (first.split('.').collect(), last.split('.').collect());
            let differing: Vec<usize> = (0..a.len().min(b.len())).filter(|i| a[*i] != b[*i]).collect();
            match differing[..] {
                [at] if a.len() == b.len() => {
                    let after: String = a[at + 1..].iter().map(|part| format!(".{part}")).collect();
                    format!("{}[{}]{after}", a[..at].join("."), names.len())
                }
                _ => format!("{first} .. {last} [{}]", names.len()),
            }
        }
    }
}

fn of_cache(cache: &CacheSpec) -> String {
    let life = match cache.life {
        Life::PerToken => "per token",
        Life::PerSequence => "per sequence",
    };
    let parts = cache.parts.iter().map(|part| format!(", {} {}", part.cols, part.format));
    parts.fold(life.to_owned(), |text, part| text + &part)
}

fn made(val: &Val) -> String {
    let rows = match val.rows {
        Rows::Tokens => "tokens",
        Rows::Outputs => "outputs",
    };
    let role = match val.role {
        Role::Stream => " stream",
        Role::Activation => "",
        Role::Logits => " logits",
        Role::Index => " index",
    };
    format!("v{} [{rows}, {}]{role}", val.id, val.cols)
}

fn operands(op: &Op, model: &ModelSpec) -> Vec<String> {
    let whole = |val: &Val| format!("v{}", val.id);
    let name = |id: &WeightId| weight_name(model.weight(*id));
    let shaped = |id: &WeightId| with_shape(model.weight(*id));
    match op {
        Op::Embed { table, .. } => vec![shaped(table)],
        Op::RmsNorm { x, weight, eps, .. } => {
            vec![columns(x), shaped(weight), format!("eps {eps:e}")]
        }
        Op::AddRmsNorm { x, delta, weight, eps, .. } => {
            vec![whole(x), whole(delta), name(weight), format!("eps {eps:e}")]
        }
        Op::Linear { x, to } => {
            let mut operands = vec![columns(x)];
            operands.extend(to.iter().map(|(weight, _)| shaped(weight)));
            operands
        }
        Op::Rope { x, heads, rope, .. } => {
            let dims = heads.first..heads.first + heads.rotary;
            let mut operands = vec![columns(x), format!("{} heads of {}", heads.count, heads.dims)];
            operands.push(format!("dims {dims:?} {}", of_rope(rope)));
            operands
        }
        Op::CacheWrite { x, cache, part } => vec![columns(x), format!("cache {} part {part}", cache.0)],
        Op::Attend { q, cache, shape, .. } => vec![
            whole(q),
            format!("cache {}", cache.0),
            format!("{} heads over {}", shape.heads, shape.kv_heads),
            format!("dims {} and {}", shape.key_dims, shape.value_dims),
            format!("scale {}", shape.scale),
        ],
        Op::AttendMla { q, cache, up, shape, .. } => vec![
            whole(q),
            format!("cache {}", cache.0),
            shaped(up),
            format!("{} heads of {} + {} and {}", shape.heads, shape.nope, shape.rotary, shape.value),
            format!("rank {}", shape.rank),
            format!("scale {}", shape.scale),
        ],
        Op::Route { logits, bias, how, .. } => {
            let mut operands = vec![whole(logits)];
            operands.extend(bias.iter().map(|bias| format!("bias {}", name(bias))));
            operands.push(of_routing(how));
            operands
        }
        Op::Experts { x, ids, gates, experts, shared, act, .. } => {
            let mut operands = vec![whole(x), whole(ids), whole(gates), of_glu(experts, model)];
            operands.extend(shared.iter().map(|shared| format!("shared {}", of_glu(shared, model))));
            operands.push(of_activation(*act).into());
            operands
        }
        Op::ActMul { gate, up, act, .. } => vec![whole(gate), whole(up), of_activation(*act).into()],
        Op::Add { a, b, .. } => vec![whole(a), whole(b)],
        Op::Outputs { x, .. } => vec![whole(x)],
        Op::Answer { logits, known } => vec![whole(logits), format!("{known} known ids")],
    }
}

fn columns(cols: &Cols) -> String {
    if (cols.start, cols.len) == (0, cols.val.cols) {
        format!("v{}", cols.val.id)
    } else {
        format!("v{}[{}..{}]", cols.val.id, cols.start, cols.start + cols.len)
    }
}

fn with_shape(weight: &WeightSpec) -> String {
    let name = weight_name(weight);
    match weight.kind {
        Kind::Vector { len } => format!("{name} [{len}]"),
        Kind::Linear { out, inputs, bias: true } => format!("{name} [{out}, {inputs}] + bias"),
        Kind::Linear { out, inputs, bias: false } | Kind::Plain { out, inputs } => {
            format!("{name} [{out}, {inputs}]")
        }
        Kind::Table { vocab, hidden } => format!("{name} [{vocab}, {hidden}]"),
    }
}

fn of_glu(glu: &Glu, model: &ModelSpec) -> String {
    let [gate, up, down] = [glu.gate, glu.up, glu.down].map(|id| with_shape(model.weight(id)));
    format!("({gate}, {up}, {down})")
}

fn of_activation(act: Activation) -> &'static str {
    match act {
        Activation::Silu => "silu",
    }
}

/// Pairing, the first, middle and last frequency, and the gain where it is not 1.
fn of_rope(rope: &Rope) -> String {
    let pairing = match rope.pairing {
        Pairing::Interleaved => "interleaved",
        Pairing::HalfSplit => "half-split",
    };
    let all = &rope.inverse_frequencies;
    let mut text = format!("{pairing}, frequencies");
    if let (Some(first), Some(middle), Some(last)) = (all.first(), all.get(all.len() / 2), all.last()) {
        text += &format!(" {first} .. {middle} .. {last}");
    }
    if rope.gain != 1.0 {
        text += &format!(", gain {}", rope.gain);
    }
    text
}

fn of_routing(how: &Routing) -> String {
    let score = match how.score {
        Score::Softmax => "softmax".to_owned(),
        Score::Sigmoid => "sigmoid".to_owned(),
        Score::Hash { layer } => format!("hash of layer {layer}"),
    };
    let gates = match how.gates {
        Gates::Raw => "raw".to_owned(),
        Gates::Normalised { epsilon } => format!("normalised with {epsilon:e}"),
    };
    let within = match how.groups {
        Some(groups) => format!(" within {groups}"),
        None => String::new(),
    };
    format!("{} of {}{within} by {score}, gates {gates}, scale {}", how.top_k, how.experts, how.scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight::PartSpec;
    use crate::{Dtype, Storage};

    #[test]
    fn the_names_of_all_experts_become_one() {
        let named = |names: &[&str]| {
            let part = |name: &&str| PartSpec { name: (*name).into(), storage: Storage::Dense(Dtype::F32) };
            weight_name(&WeightSpec {
                kind: Kind::Vector { len: 1 },
                parts: names.iter().map(part).collect(),
            })
        };
        assert_eq!(named(&["model.norm.weight"]), "model.norm.weight");
        assert_eq!(named(&["a.experts.0.up", "a.experts.1.up", "a.experts.10.up"]), "a.experts[3].up");
        assert_eq!(named(&["a.0.x.0", "a.1.x.1"]), "a.0.x.0 .. a.1.x.1 [2]");
    }
}
