//! One operation after another.

use super::attention::{self, Cached};
use super::cache::Caches;
use super::elementwise;
use super::experts::{self, Choice, Row, Unit};
use super::values::Values;
use super::weight::{Weights, refuse};
use crate::answer::Answers;
use crate::{CacheId, Glu, Op, PageId, Result, Routing, Sequence, Step, Val, WeightId};

/// All that the operations of one step read and write.
pub(super) struct Run<'a> {
    pub(super) weights: &'a Weights,
    pub(super) caches: &'a mut Caches,
    pub(super) values: &'a mut Values,
    pub(super) answers: &'a mut Answers,
    pub(super) step: &'a Step<'a>,
    /// The token of each row.
    pub(super) tokens: Vec<u32>,
}

impl Run<'_> {
    /// Runs one operation.
    pub(super) fn op(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Embed { table, out } => {
                let rows = self.weights.embed(*table, &self.tokens)?;
                self.values.set(*out, &rows);
            }
            Op::RmsNorm { x, weight, eps, out } => {
                let rows =
                    elementwise::rms_norm(&self.values.columns(*x), self.weights.vector(*weight)?, *eps);
                self.values.set(*out, &rows);
            }
            Op::AddRmsNorm { x, delta, weight, eps, sum, out } => {
                let total = elementwise::add(self.values.get(*x), self.values.get(*delta));
                let rows = elementwise::rms_norm(&total, self.weights.vector(*weight)?, *eps);
                self.values.set(*sum, &total);
                self.values.set(*out, &rows);
            }
            Op::Linear { x, to } => {
                let x = self.values.columns(*x);
                for (weight, out) in to {
                    let rows = self.weights.matrix(*weight, 0)?.apply(&x);
                    self.values.set(*out, &rows);
                }
            }
            Op::Rope { x, heads, rope, out } => {
                let rows = elementwise::rope(&self.values.columns(*x), self.step.positions, *heads, rope);
                self.values.set(*out, &rows);
            }
            Op::CacheWrite { x, cache, part } => {
                let x = self.values.columns(*x);
                self.cache_write((*cache, *part), &x, x.len() / self.tokens.len());
            }
            Op::Attend { q, cache, shape, out } => {
                let rows = self.attend(*q, *cache, |q, cached| attention::gqa(q, cached, *shape));
                self.values.set(*out, &rows);
            }
            Op::AttendMla { q, cache, up, shape, out } => {
                let up = self.weights.matrix(*up, 0)?;
                let rows = self.attend(*q, *cache, |q, cached| attention::mla(q, cached, up, *shape));
                self.values.set(*out, &rows);
            }
            Op::Route { logits, bias, how, ids, gates } => {
                let bias = bias.map(|bias| self.weights.vector(bias)).transpose()?;
                let (chosen, weights) = self.route(*logits, bias, how);
                self.values.set(*ids, &chosen);
                self.values.set(*gates, &weights);
            }
            Op::Experts { x, ids, gates, experts: glu, shared, act, out } => {
                let chosen = self.chosen(*ids, glu.gate)?;
                let choice =
                    Choice { ids: &chosen, gates: self.values.get(*gates), top_k: gates.cols as usize };
                let inputs = self.values.get(*x);
                let mut rows = experts::mixture(inputs, &choice, &units(self.weights, glu, *x)?, *act);
                if let Some(shared) = shared {
                    let unit = units(self.weights, shared, *x)?[0];
                    rows = elementwise::add(&rows, &unit.apply(inputs, *act));
                }
                self.values.set(*out, &rows);
            }
            Op::ActMul { gate, up, act, out } => {
                let rows = elementwise::act_mul(self.values.get(*gate), self.values.get(*up), *act);
                self.values.set(*out, &rows);
            }
            Op::Add { a, b, out } => {
                let rows = elementwise::add(self.values.get(*a), self.values.get(*b));
                self.values.set(*out, &rows);
            }
            Op::Outputs { x, out } => {
                let (cols, x) = (x.cols as usize, self.values.get(*x));
                let outputs = self.step.outputs.iter();
                let rows: Vec<f32> =
                    outputs.flat_map(|output| &x[output.row as usize * cols..][..cols]).copied().collect();
                self.values.set(*out, &rows);
            }
            Op::Answer { logits, known } => {
                let rows = self.values.get(*logits);
                self.answers.answer(self.step.outputs, rows, logits.cols as usize, *known as usize);
            }
        }
        Ok(())
    }

    fn cache_write(&mut self, part: (CacheId, u32), x: &[f32], cols: usize) {
        for sequence in self.step.sequences {
            let pages = pages(self.step, sequence);
            for (place, row) in (sequence.cached..).zip(sequence.rows.clone()) {
                self.caches.write(part, pages, place as usize, &x[row as usize * cols..][..cols]);
            }
        }
    }

    /// Gives `each` the queries of one sequence and what it has cached, and joins the results.
    fn attend(&self, q: Val, cache: CacheId, each: impl Fn(&[f32], &Cached<'_>) -> Vec<f32>) -> Vec<f32> {
        let cols = q.cols as usize;
        let q = self.values.get(q);
        let of_sequence = |sequence: &Sequence| {
            let rows = sequence.rows.start as usize..sequence.rows.end as usize;
            let before = sequence.cached as usize;
            let pages = pages(self.step, sequence);
            let first = self.caches.read((cache, 0), pages, before + rows.len());
            let second = self.caches.read((cache, 1), pages, before + rows.len());
            each(&q[rows.start * cols..rows.end * cols], &Cached { first: &first, second: &second, before })
        };
        self.step.sequences.iter().flat_map(of_sequence).collect()
    }

    fn route(&self, logits: Val, bias: Option<&[f32]>, how: &Routing) -> (Vec<f32>, Vec<f32>) {
        let (mut ids, mut gates) = (Vec::new(), Vec::new());
        let rows = self.values.get(logits).chunks_exact(logits.cols as usize);
        for (row, (logits, position)) in rows.zip(self.step.positions).enumerate() {
            let row = Row { token: self.tokens[row], position: *position };
            let (chosen, weights) = experts::route(logits, bias, how, row);
            ids.extend(chosen.into_iter().map(|expert| expert as f32));
            gates.extend(weights);
        }
        (ids, gates)
    }

    /// Expert ids as whole numbers.
    fn chosen(&self, ids: Val, experts: WeightId) -> Result<Vec<u32>> {
        let count = self.weights.parts(experts);
        let whole = |id: &f32| {
            let expert = *id as u32;
            if expert as f32 == *id && expert < count {
                Ok(expert)
            } else {
                refuse(format!("value {} chooses expert {id} of {count}", ids.id))
            }
        };
        self.values.get(ids).iter().map(whole).collect()
    }
}

fn pages<'a>(step: &Step<'a>, sequence: &Sequence) -> &'a [PageId] {
    &step.pages[sequence.pages.start as usize..sequence.pages.end as usize]
}

/// Every part of a feed-forward unit's weights.
fn units<'a>(weights: &'a Weights, glu: &Glu, x: Val) -> Result<Vec<Unit<'a>>> {
    let parts = weights.parts(glu.gate);
    if parts == 0 || [glu.up, glu.down].iter().any(|weight| weights.parts(*weight) != parts) {
        return refuse(format!("not all parts of the weights of {glu:?} were uploaded"));
    }
    let unit = |part| {
        let [gate, up, down] = [glu.gate, glu.up, glu.down].map(|weight| weights.matrix(weight, part));
        let (gate, up, down) = (gate?, up?, down?);
        let (hidden, width) = (x.cols as usize, gate.out);
        let shapes = [gate, up, down].map(|matrix| (matrix.out, matrix.inputs));
        if shapes != [(width, hidden), (width, hidden), (hidden, width)] {
            return refuse(format!("part {part} of {glu:?} has the shapes {shapes:?} for {hidden} columns"));
        }
        Ok(Unit { gate, up, down })
    };
    (0..parts).map(unit).collect()
}

/// Checks that the weights and caches that an operation uses are there and have the right sizes.
pub(super) fn check(op: &Op, weights: &Weights, caches: &Caches) -> Result<()> {
    match op {
        Op::Embed { table, out } => {
            let shape = weights.table_shape(*table)?;
            require(shape.1 == out.cols as usize, op, || format!("the table has the shape {shape:?}"))
        }
        Op::RmsNorm { x, weight, .. } => {
            let len = weights.vector(*weight)?.len();
            require((x.len as usize).is_multiple_of(len), op, || format!("the weight has {len} numbers"))
        }
        Op::AddRmsNorm { x, weight, .. } => {
            let len = weights.vector(*weight)?.len();
            require(x.cols as usize == len, op, || format!("the weight has {len} numbers"))
        }
        Op::Linear { x, to } => {
            for (weight, out) in to {
                let matrix = weights.matrix(*weight, 0)?;
                let shape = (matrix.out, matrix.inputs);
                require(shape == (out.cols as usize, x.len as usize), op, || {
                    format!("weight {} has the shape {shape:?}", weight.0)
                })?;
            }
            Ok(())
        }
        Op::CacheWrite { x, cache, part } => caches.check(*cache, *part, x.len),
        Op::Attend { cache, shape, .. } => {
            caches.check(*cache, 0, shape.kv_heads * shape.key_dims)?;
            caches.check(*cache, 1, shape.kv_heads * shape.value_dims)
        }
        Op::AttendMla { cache, up, shape, .. } => {
            caches.check(*cache, 0, shape.rank)?;
            caches.check(*cache, 1, shape.rotary)?;
            let up = weights.matrix(*up, 0)?;
            let needed = ((shape.heads * (shape.nope + shape.value)) as usize, shape.rank as usize);
            require((up.out, up.inputs) == needed, op, || {
                format!("the up-projection has the shape [{}, {}], needed {needed:?}", up.out, up.inputs)
            })
        }
        Op::Route { bias, how, .. } => match bias {
            Some(bias) => {
                let len = weights.vector(*bias)?.len();
                require(len == how.experts as usize, op, || format!("the bias has {len} numbers"))
            }
            None => Ok(()),
        },
        Op::Experts { x, experts, shared, .. } => {
            units(weights, experts, *x)?;
            shared.iter().try_for_each(|shared| units(weights, shared, *x).map(|_| ()))
        }
        Op::Rope { .. } | Op::ActMul { .. } | Op::Add { .. } | Op::Outputs { .. } | Op::Answer { .. } => {
            Ok(())
        }
    }
}

fn require(holds: bool, op: &Op, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { refuse(format!("{}: {}", op.name(), what())) }
}
