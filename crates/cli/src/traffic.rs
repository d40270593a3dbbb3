//! What an operation has to read and multiply, whatever the device: the floor that times are compared with.

use program::{CacheId, Glu, ModelSpec, Op, Rows, WeightId};

/// Work of one operation, or of a whole step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    /// Bytes of weights that are used, each counted once however many rows use it.
    pub(crate) weights: f64,
    /// Bytes of cached rows that are attended to.
    pub(crate) cache: f64,
    /// Products of a weight and a number of a row.
    pub(crate) products: f64,
}

/// What a step is made of, as far as its traffic depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StepShape {
    /// Rows.
    pub(crate) tokens: u32,
    /// Rows that something is wanted of.
    pub(crate) outputs: u32,
    /// Cached rows of all sequences together that the step attends to, its own included.
    pub(crate) attended: u64,
}

impl Traffic {
    /// Bytes of everything.
    pub(crate) fn bytes(&self) -> f64 {
        self.weights + self.cache
    }

    /// Of all operations of the trunk together.
    pub(crate) fn of_step(model: &ModelSpec, step: &StepShape) -> Traffic {
        let ops = model.programs.first().map_or(&[][..], |trunk| &trunk.ops);
        ops.iter().map(|op| Traffic::of(model, op, step)).fold(Traffic::default(), Traffic::plus)
    }

    /// Of one operation.
    pub(crate) fn of(model: &ModelSpec, op: &Op, step: &StepShape) -> Traffic {
        let tokens = f64::from(step.tokens);
        match op {
            Op::Embed { table, .. } => {
                let (bytes, rows) = (weight_bytes(model, *table), model.weight(*table).kind.shape().0);
                Traffic { weights: bytes * tokens / f64::from(rows), ..Traffic::default() }
            }
            Op::Linear { x, to } => {
                let rows = match x.val.rows {
                    Rows::Tokens => tokens,
                    Rows::Outputs => f64::from(step.outputs),
                };
                let of = |weight: &WeightId| dense(model, *weight, rows);
                to.iter().map(|(weight, _)| of(weight)).fold(Traffic::default(), Traffic::plus)
            }
            Op::Attend { cache, .. } => cached(model, *cache, step),
            Op::AttendMla { cache, up, .. } => dense(model, *up, tokens).plus(cached(model, *cache, step)),
            Op::Experts { ids, experts, shared, .. } => {
                let count = model.weight(experts.gate).parts.len() as u32;
                let touched = distinct_experts(count, ids.cols, step.tokens) / f64::from(count);
                let Traffic { weights, products, .. } = unit(model, experts, tokens);
                let routed = Traffic {
                    weights: weights * touched,
                    products: products * f64::from(ids.cols),
                    cache: 0.0,
                };
                shared.iter().map(|shared| unit(model, shared, tokens)).fold(routed, Traffic::plus)
            }
            Op::RmsNorm { .. }
            | Op::AddRmsNorm { .. }
            | Op::Rope { .. }
            | Op::CacheWrite { .. }
            | Op::Route { .. }
            | Op::ActMul { .. }
            | Op::Add { .. }
            | Op::Outputs { .. }
            | Op::Answer { .. } => {
                let weights = op.weights().into_iter().map(|weight| weight_bytes(model, weight)).sum();
                Traffic { weights, ..Traffic::default() }
            }
        }
    }

    /// Of so many alike.
    pub(crate) fn times(self, count: f64) -> Traffic {
        let Traffic { weights, cache, products } = self;
        Traffic { weights: weights * count, cache: cache * count, products: products * count }
    }

    /// Of both together.
    pub(crate) fn plus(self, other: Traffic) -> Traffic {
        Traffic {
            weights: self.weights + other.weights,
            cache: self.cache + other.cache,
            products: self.products + other.products,
        }
    }
}

/// How many of `count` experts are expected to be used by `rows` rows that each choose `top_k` of them at random.
/// Exact for one row.
pub(crate) fn distinct_experts(count: u32, top_k: u32, rows: u32) -> f64 {
    let count = f64::from(count);
    count * (1.0 - (1.0 - f64::from(top_k) / count).powf(f64::from(rows)))
}

/// Bytes of all parts of a weight, as they are stored.
pub(crate) fn weight_bytes(model: &ModelSpec, weight: WeightId) -> f64 {
    let weight = model.weight(weight);
    weight.parts.iter().map(|part| part.storage.bytes(weight.kind) as f64).sum()
}

/// A matrix that every row is multiplied with; of several parts, the products of one.
fn dense(model: &ModelSpec, weight: WeightId, rows: f64) -> Traffic {
    let (out, inputs) = model.weight(weight).kind.shape();
    let products = if rows > 0.0 { f64::from(out) * f64::from(inputs) * rows } else { 0.0 };
    let weights = if rows > 0.0 { weight_bytes(model, weight) } else { 0.0 };
    Traffic { weights, products, cache: 0.0 }
}

fn unit(model: &ModelSpec, glu: &Glu, rows: f64) -> Traffic {
    let of = |weight| dense(model, weight, rows);
    of(glu.gate).plus(of(glu.up)).plus(of(glu.down))
}

fn cached(model: &ModelSpec, cache: CacheId, step: &StepShape) -> Traffic {
    let bytes = model.cache(cache).row_bytes() as f64 * step.attended as f64;
    Traffic { cache: bytes, ..Traffic::default() }
}
