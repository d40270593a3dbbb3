//! One operation after another.

use std::array;

use program::answer::Answers;
use program::{CacheId, Cols, Mla, Op, Result, Routing, Step, Val, WeightId};

use crate::cache::Caches;
use crate::kernels::attend_mla::{Attention, Room};
use crate::kernels::attention::Places;
use crate::kernels::experts::{Choice, Layer};
use crate::kernels::inputs::{Activations, Forms};
use crate::kernels::linear::{MOST_TARGETS, Target};
use crate::kernels::route::Identity;
use crate::kernels::{
    act_mul, add, attend, attend_mla, cache_write, embed, experts, linear, outputs, rms_norm, rope, route,
};
use crate::pool::Pool;
use crate::simd::Simd;
use crate::values::Values;
use crate::weights::{Weight, Weights};
use crate::workspace::Workspace;

/// All that the operations of one step read and write.
pub(crate) struct Run<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) weights: &'a Weights,
    pub(crate) caches: &'a mut Caches,
    pub(crate) values: &'a mut Values,
    pub(crate) answers: &'a mut Answers,
    pub(crate) workspace: &'a mut Workspace,
    pub(crate) step: &'a Step<'a>,
    /// [`program::Options::deterministic`].
    pub(crate) deterministic: bool,
    pub(crate) activations: Activations,
}

impl Run<'_> {
    /// Runs one operation, whose weights, caches and shapes were checked when it was prepared.
    pub(crate) fn op<S: Simd>(&mut self, simd: S, op: &Op) -> Result<()> {
        match op {
            Op::Embed { table, out } => return self.embed(simd, *table, *out),
            Op::RmsNorm { x, weight, eps, out } => self.rms_norm(simd, *x, (*weight, *eps), *out),
            Op::AddRmsNorm { x, delta, weight, eps, sum, out } => {
                self.add(simd, (*x, *delta), *sum);
                self.rms_norm(simd, (*sum).into(), (*weight, *eps), *out);
            }
            Op::Linear { x, to } => {
                for group in to.chunks(MOST_TARGETS) {
                    self.linear(simd, *x, group);
                }
            }
            Op::Rope { x, heads, rope, out } => {
                let mut values = self.values.lend();
                let x = (values.columns(*x), self.step.positions);
                let scratch = self.workspace.scratch.numbers_mut();
                rope::rope(simd, self.pool, x, (*heads, rope), (values.write(*out), scratch));
            }
            Op::CacheWrite { x, cache, part } => {
                let x = self.values.lend().columns(*x);
                cache_write::cache_write(simd, self.step, x, self.caches.part_mut(*cache, *part));
            }
            Op::Attend { q, cache, shape, out } => {
                let mut values = self.values.lend();
                let Workspace { scratch, places, sequences, bounds, .. } = &mut *self.workspace;
                let places = Places { step: self.step, places, sequences };
                let cached = (self.caches.part(*cache, 0), self.caches.part(*cache, 1));
                let q = (values.read(*q), shape, places);
                let out = (values.write(*out), bounds, scratch.numbers_mut());
                attend::attend(simd, self.pool, q, cached, out);
            }
            Op::AttendMla { q, cache, up, shape, out } => {
                self.attend_mla(simd, (*q, *cache, *up), shape, *out);
            }
            Op::Route { logits, bias, how, ids, gates } => {
                self.route(simd, *logits, (how, *bias), (*ids, *gates));
            }
            Op::Experts { x, ids, gates, experts, shared, act, out } => {
                let layer = Layer {
                    weights: self.weights,
                    experts,
                    shared: shared.as_ref(),
                    act: *act,
                    forms: self.forms(),
                };
                return self.experts(simd, layer, (*x, *ids, *gates), *out);
            }
            Op::ActMul { gate, up, act, out } => {
                let mut values = self.values.lend();
                let x = (values.read(*gate), values.read(*up), *act);
                act_mul::act_mul(simd, self.pool, x, values.write(*out), out.cols as usize);
            }
            Op::Add { a, b, out } => self.add(simd, (*a, *b), *out),
            Op::Outputs { x, out } => {
                let mut values = self.values.lend();
                outputs::outputs(values.columns((*x).into()), self.step.outputs, values.write(*out));
            }
            Op::Answer { logits, known } => {
                let (rows, vocab) = (self.values.get(*logits), logits.cols as usize);
                self.answers.answer(self.step.outputs, rows, vocab, *known as usize);
            }
        }
        Ok(())
    }

    fn embed<S: Simd>(&mut self, simd: S, table: WeightId, out: Val) -> Result<()> {
        let Workspace { tokens, table_row, .. } = &mut *self.workspace;
        let out = self.values.lend().write(out);
        match self.weights.get(table, 0) {
            Some(Weight::Table(table)) => embed::embed_codes(table, tokens, table_row, out),
            _ => {
                embed::embed(simd, self.pool, self.weights.dense(table), tokens, out);
                Ok(())
            }
        }
    }

    fn rms_norm<S: Simd>(&mut self, simd: S, x: Cols, (weight, eps): (WeightId, f32), out: Val) {
        let mut values = self.values.lend();
        let norm = (self.weights.vector(weight), eps);
        rms_norm::rms_norm(simd, self.pool, values.columns(x), norm, values.write(out));
    }

    fn add<S: Simd>(&mut self, simd: S, (a, b): (Val, Val), out: Val) {
        let mut values = self.values.lend();
        let terms = (values.read(a), values.read(b));
        add::add(simd, self.pool, terms, values.write(out), out.cols as usize);
    }

    fn forms(&self) -> Forms {
        Forms { activations: self.activations, deterministic: self.deterministic }
    }

    fn linear<S: Simd>(&mut self, simd: S, x: Cols, to: &[(WeightId, Val)]) {
        let forms = self.forms();
        let mut values = self.values.lend();
        let input = (values.columns(x), values.rows(x.val), forms);
        let mut targets: [Target<'_>; MOST_TARGETS] = array::from_fn(|index| match to.get(index) {
            Some((weight, out)) => {
                Target { matrix: self.weights.matrix(*weight, 0), out: values.write(*out) }
            }
            None => Target { matrix: self.weights.matrix(to[0].0, 0), out: &mut [] },
        });
        let Workspace { shared, scratch, .. } = &mut *self.workspace;
        let memory = (shared.numbers_mut(), scratch.numbers_mut());
        linear::linear(simd, self.pool, input, &mut targets[..to.len()], memory);
    }

    fn attend_mla<S: Simd>(
        &mut self,
        simd: S,
        (q, cache, up): (Val, CacheId, WeightId),
        shape: &Mla,
        out: Val,
    ) {
        let mut values = self.values.lend();
        let Workspace { scratch, places, sequences, bounds, .. } = &mut *self.workspace;
        let attention = Attention {
            shape,
            up: self.weights.dense(up),
            latents: self.caches.part(cache, 0),
            rotary: self.caches.part(cache, 1),
            places: Places { step: self.step, places, sequences },
            deterministic: self.deterministic,
        };
        let room = Room { bounds, scratch: scratch.numbers_mut() };
        let q = (values.read(q), attention);
        attend_mla::attend_mla(simd, self.pool, q, values.write(out), room);
    }

    fn route<S: Simd>(
        &mut self,
        simd: S,
        logits: Val,
        (how, bias): (&Routing, Option<WeightId>),
        (ids, gates): (Val, Val),
    ) {
        let mut values = self.values.lend();
        let Workspace { shared, tokens, chosen, .. } = &mut *self.workspace;
        let identity = Identity { tokens, positions: self.step.positions, chosen };
        let logits = values.columns(logits.into());
        let bias = bias.map(|bias| self.weights.vector(bias));
        let results = (values.write(ids), values.write(gates));
        route::route(simd, (logits, identity), (how, bias), results, shared.numbers_mut());
    }

    fn experts<S: Simd>(
        &mut self,
        simd: S,
        layer: Layer<'_>,
        (x, ids, gates): (Val, Val, Val),
        out: Val,
    ) -> Result<()> {
        let mut values = self.values.lend();
        let Workspace { shared, scratch, grouping, .. } = &mut *self.workspace;
        let (x, chosen) = (values.columns(x.into()), values.read(ids));
        grouping.group(chosen, self.weights.parts(layer.experts.gate))?;
        let choice = Choice { x, ids: chosen, gates: values.read(gates), top_k: ids.cols as usize };
        let memory = (shared.numbers_mut(), scratch.numbers_mut());
        experts::experts(simd, self.pool, (layer, choice, grouping), values.write(out), memory);
        Ok(())
    }
}
