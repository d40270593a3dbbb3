//! The operations: the whole contract between models and machines.
//!
//! A value ([`Val`]) is a matrix of as many rows as the step has tokens (or outputs) and a fixed number
//! of columns. No operation writes over its input. In the formulas `r` is a row; every operation works
//! on each row by itself, except that [`Op::Attend`] and [`Op::AttendMla`] also read the rows that the
//! same sequence has cached.

use std::sync::Arc;

use crate::{CacheId, Routing, WeightId};

/// How many rows a value has, known only when a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// One a token of the step.
    Tokens,
    /// One a requested output of the step.
    Outputs,
}

/// What a value is for; a device picks its number format by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The residual stream: large, and summed over all layers.
    Stream,
    /// An intermediate of one layer.
    Activation,
    /// Scores that a choice is made from: router logits, gates, the vocabulary's logits.
    Logits,
    /// Small whole numbers (expert ids), exact in an `f32`.
    Index,
}

/// A value of a program: `rows x cols` numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Val {
    /// Unique over all programs of a model.
    pub id: u32,
    /// How many rows.
    pub rows: Rows,
    /// How many columns.
    pub cols: u32,
    /// What it is for.
    pub role: Role,
}

/// A run of columns of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cols {
    /// The value.
    pub val: Val,
    /// The first column.
    pub start: u32,
    /// How many columns.
    pub len: u32,
}

impl From<Val> for Cols {
    fn from(val: Val) -> Cols {
        Cols { val, start: 0, len: val.cols }
    }
}

impl Val {
    /// Columns `start .. start + len`.
    pub fn cols(self, start: u32, len: u32) -> Cols {
        Cols { val: self, start, len }
    }
}

/// How the columns of a row divide into heads, and which dims of a head are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// How many heads.
    pub count: u32,
    /// Columns a head.
    pub dims: u32,
    /// The first rotated dim of a head.
    pub first: u32,
    /// How many dims of a head are rotated (even); the others are copied.
    pub rotary: u32,
}

/// Which two dims of the rotated part turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// `(2i, 2i + 1)`: GLM-4.7-Flash and DeepSeek.
    Interleaved,
    /// `(i, i + rotary / 2)`: Llama, Qwen.
    HalfSplit,
}

/// A rotary position embedding: pair `i` at position `p` turns by the angle `p * inverse_frequencies[i]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Radians a token of each pair, with any context scaling applied; `rotary / 2` numbers.
    pub inverse_frequencies: Arc<[f32]>,
    /// What cosine and sine are multiplied by (1 but for YaRN).
    pub gain: f32,
    /// Which dims form a pair.
    pub pairing: Pairing,
}

/// The shape of grouped-query attention. Query head `h` uses key and value head `h / (heads / kv_heads)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gqa {
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u32,
    /// Columns of a query or key head.
    pub key_dims: u32,
    /// Columns of a value head.
    pub value_dims: u32,
    /// What scores are multiplied by before the softmax.
    pub scale: f32,
}

/// The shape of multi-head latent attention: keys and values of all heads are linear in one cached
/// latent of `rank` numbers, beside one rotary key that all heads share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mla {
    /// Query heads.
    pub heads: u32,
    /// Dims of a query head that meet the key made from the latent.
    pub nope: u32,
    /// Dims of a query head, after those, that meet the shared rotary key.
    pub rotary: u32,
    /// Columns of a value head.
    pub value: u32,
    /// Columns of the latent.
    pub rank: u32,
    /// What scores are multiplied by before the softmax.
    pub scale: f32,
}

/// The three matrices of a gated feed-forward unit `down(act(gate x) * (up x))`; of one, or of all
/// experts of a layer (one part each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glu {
    /// `[width, hidden]`.
    pub gate: WeightId,
    /// `[width, hidden]`.
    pub up: WeightId,
    /// `[hidden, width]`.
    pub down: WeightId,
}

/// The non-linearity of a gated feed-forward unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
}

/// One operation. `T` is the number of the step's tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `out[r] = table[token(r)]`.
    Embed {
        /// `[vocab, hidden]`.
        table: WeightId,
        /// `[T, hidden]`.
        out: Val,
    },
    /// `out = x / sqrt(mean(x^2) + eps) * weight`, over each run of as many columns as the weight has
    /// (a whole row, or one head of it).
    RmsNorm {
        /// `[rows, n * len(weight)]`.
        x: Cols,
        /// The norm's weight.
        weight: WeightId,
        /// Added to the mean square.
        eps: f32,
        /// As `x`.
        out: Val,
    },
    /// `sum = x + delta`, then `out = rms_norm(sum)` over the whole row.
    AddRmsNorm {
        /// The residual stream.
        x: Val,
        /// What a layer adds to it.
        delta: Val,
        /// The norm's weight.
        weight: WeightId,
        /// Added to the mean square.
        eps: f32,
        /// The new residual stream.
        sum: Val,
        /// The normalised sum.
        out: Val,
    },
    /// `out_i = W_i x (+ bias_i)` for one or several weights with one input.
    Linear {
        /// `[rows, inputs]`.
        x: Cols,
        /// The weights `[out, inputs]` (linears, or a plain table as a tied head) and their results `[rows, out]`.
        to: Vec<(WeightId, Val)>,
    },
    /// Rotates `rotary` dims of each head by the row's position and copies the others: with
    /// `a = position(r) * inverse_frequencies[i]` rounded to `f32`, `(u, v)` becomes
    /// `gain * (u cos a - v sin a, v cos a + u sin a)`.
    Rope {
        /// `[T, count * dims]`.
        x: Cols,
        /// Division of `x` into heads.
        heads: Heads,
        /// Angles and pairing.
        rope: Rope,
        /// As `x`.
        out: Val,
    },
    /// Appends the rows to part `part` of a per-token cache, at each row's place in its sequence.
    CacheWrite {
        /// `[T, cols of the part]`.
        x: Cols,
        /// The cache.
        cache: CacheId,
        /// Which part of its rows.
        part: u32,
    },
    /// Causal attention over the cached rows of the same sequence, this step's included: for each head,
    /// `out = sum_j softmax_j(scale * q . key_j) value_j` over all `j` up to the row's own place. Part 0 of
    /// the cache holds keys `[kv_heads * key_dims]`, part 1 values `[kv_heads * value_dims]`.
    Attend {
        /// `[T, heads * key_dims]`.
        q: Val,
        /// The cache, written for this step's rows before.
        cache: CacheId,
        /// Heads and scale.
        shape: Gqa,
        /// `[T, heads * value_dims]`.
        out: Val,
    },
    /// Causal latent attention. With `up` = `[heads * (nope + value), rank]` and its rows of one head split
    /// into `K` (the first `nope`) and `V`: `key_j = [K latent_j, rotary_j]`, `value_j = V latent_j`, then as
    /// [`Op::Attend`]. Part 0 of the cache holds latents `[rank]`, part 1 rotary keys `[rotary]`.
    AttendMla {
        /// `[T, heads * (nope + rotary)]`.
        q: Val,
        /// The cache, written for this step's rows before.
        cache: CacheId,
        /// The up-projection of the latent ([`Kind::Plain`](crate::Kind::Plain)).
        up: WeightId,
        /// Heads and scale.
        shape: Mla,
        /// `[T, heads * value]`.
        out: Val,
    },
    /// Chooses experts for each row; see [`Routing`].
    Route {
        /// Router logits `[T, experts]`.
        logits: Val,
        /// Added to the scores for the choice, not for the gates: `[experts]`.
        bias: Option<WeightId>,
        /// How scores are made and who is chosen.
        how: Routing,
        /// The chosen experts `[T, top_k]`, best first.
        ids: Val,
        /// What each one's result is multiplied by `[T, top_k]`.
        gates: Val,
    },
    /// `out = sum_s gates[s] * glu_{ids[s]}(x) (+ glu_shared(x))`, summed in the order of `s`.
    Experts {
        /// `[T, hidden]`.
        x: Val,
        /// `[T, top_k]`.
        ids: Val,
        /// `[T, top_k]`.
        gates: Val,
        /// One part an expert.
        experts: Glu,
        /// An expert for every row, with gate 1.
        shared: Option<Glu>,
        /// The non-linearity of all of them.
        act: Activation,
        /// `[T, hidden]`.
        out: Val,
    },
    /// `out = act(gate) * up`.
    ActMul {
        /// `[rows, width]`.
        gate: Val,
        /// `[rows, width]`.
        up: Val,
        /// The non-linearity.
        act: Activation,
        /// `[rows, width]`.
        out: Val,
    },
    /// `out = a + b`.
    Add {
        /// `[rows, cols]`.
        a: Val,
        /// `[rows, cols]`.
        b: Val,
        /// `[rows, cols]`.
        out: Val,
    },
    /// `out[i] = x[row of output i]`.
    Outputs {
        /// `[T, cols]`.
        x: Val,
        /// `[outputs, cols]`.
        out: Val,
    },
    /// Gives each output of the step what it wants of its row of logits ([`Want`](crate::Want)): a drawn
    /// token, one token's log-probability, or the logits themselves.
    Answer {
        /// `[outputs, vocab]`.
        logits: Val,
        /// Ids from here on are never drawn: the tokenizer does not know them. At most `vocab`.
        known: u32,
    },
}

impl Op {
    /// The variant's name in lower case with underscores, as kernels and files are called.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Embed { .. } => "embed",
            Op::RmsNorm { .. } => "rms_norm",
            Op::AddRmsNorm { .. } => "add_rms_norm",
            Op::Linear { .. } => "linear",
            Op::Rope { .. } => "rope",
            Op::CacheWrite { .. } => "cache_write",
            Op::Attend { .. } => "attend",
            Op::AttendMla { .. } => "attend_mla",
            Op::Route { .. } => "route",
            Op::Experts { .. } => "experts",
            Op::ActMul { .. } => "act_mul",
            Op::Add { .. } => "add",
            Op::Outputs { .. } => "outputs",
            Op::Answer { .. } => "answer",
        }
    }

    /// The values that it reads.
    pub fn reads(&self) -> Vec<Val> {
        match self {
            Op::Embed { .. } => vec![],
            Op::RmsNorm { x, .. } | Op::Linear { x, .. } | Op::Rope { x, .. } | Op::CacheWrite { x, .. } => {
                vec![x.val]
            }
            Op::AddRmsNorm { x, delta, .. } => vec![*x, *delta],
            Op::Attend { q, .. } | Op::AttendMla { q, .. } => vec![*q],
            Op::Route { logits, .. } | Op::Answer { logits, .. } => vec![*logits],
            Op::Experts { x, ids, gates, .. } => vec![*x, *ids, *gates],
            Op::ActMul { gate, up, .. } => vec![*gate, *up],
            Op::Add { a, b, .. } => vec![*a, *b],
            Op::Outputs { x, .. } => vec![*x],
        }
    }

    /// The values that it makes.
    pub fn writes(&self) -> Vec<Val> {
        match self {
            Op::CacheWrite { .. } | Op::Answer { .. } => vec![],
            Op::AddRmsNorm { sum, out, .. } => vec![*sum, *out],
            Op::Linear { to, .. } => to.iter().map(|(_, out)| *out).collect(),
            Op::Route { ids, gates, .. } => vec![*ids, *gates],
            Op::Embed { out, .. }
            | Op::RmsNorm { out, .. }
            | Op::Rope { out, .. }
            | Op::Attend { out, .. }
            | Op::AttendMla { out, .. }
            | Op::Experts { out, .. }
            | Op::ActMul { out, .. }
            | Op::Add { out, .. }
            | Op::Outputs { out, .. } => vec![*out],
        }
    }

    /// The weights that it uses.
    pub fn weights(&self) -> Vec<WeightId> {
        match self {
            Op::Embed { table, .. } => vec![*table],
            Op::RmsNorm { weight, .. } | Op::AddRmsNorm { weight, .. } => vec![*weight],
            Op::Linear { to, .. } => to.iter().map(|(weight, _)| *weight).collect(),
            Op::AttendMla { up, .. } => vec![*up],
            Op::Route { bias, .. } => bias.iter().copied().collect(),
            Op::Experts { experts, shared, .. } => {
                std::iter::once(experts).chain(shared).flat_map(|glu| [glu.gate, glu.up, glu.down]).collect()
            }
            Op::Rope { .. }
            | Op::CacheWrite { .. }
            | Op::Attend { .. }
            | Op::ActMul { .. }
            | Op::Add { .. }
            | Op::Outputs { .. }
            | Op::Answer { .. } => vec![],
        }
    }
}
