//! A program of one operation repeated over copies of what it reads.

use std::sync::Arc;

use program::weight::PartSpec;
use program::{
    CacheId, CacheSpec, Kind, Life, ModelSpec, Op, Part, Program, Role, Rope, Rows, Storage, Val, WeightId,
    WeightSpec,
};

/// What the rows of an input hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fill {
    /// Normal numbers.
    Normal,
    /// Different whole numbers below this in each row: chosen experts.
    Choice(u32),
    /// The same number everywhere.
    Constant(f32),
}

/// An operation, or a few that belong together, being written down again and again, each time over weights
/// and caches of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    weights: Vec<WeightSpec>,
    caches: Vec<CacheSpec>,
    ops: Vec<Op>,
    values: u32,
    inputs: Vec<(Val, Fill)>,
}

impl Recording {
    /// A value that an operation makes.
    pub(super) fn value(&mut self, cols: u32, role: Role) -> Val {
        self.values += 1;
        Val { id: self.values - 1, rows: Rows::Tokens, cols, role }
    }

    /// A value that the host writes before each step.
    pub(super) fn input(&mut self, cols: u32, role: Role, fill: Fill) -> Val {
        let val = self.value(cols, role);
        self.inputs.push((val, fill));
        val
    }

    /// A weight of so many parts, all stored alike.
    pub(super) fn weight(&mut self, kind: Kind, storage: Storage, parts: u32) -> WeightId {
        let id = self.weights.len() as u32;
        let part = |part| PartSpec { name: format!("weight.{id}.{part}"), storage };
        self.weights.push(WeightSpec { kind, parts: (0..parts).map(part).collect() });
        WeightId(id)
    }

    /// A per-token cache.
    pub(super) fn cache(&mut self, parts: Vec<Part>) -> CacheId {
        self.caches.push(CacheSpec { life: Life::PerToken, parts });
        CacheId(self.caches.len() as u32 - 1)
    }

    /// Writes an operation down.
    pub(super) fn op(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Bytes of the values that the operations read and make in `rows` rows, each as `f32`.
    pub(super) fn value_bytes(&self, rows: u32) -> u64 {
        let bytes = |val: Val| u64::from(val.cols) * u64::from(rows) * 4;
        self.ops.iter().flat_map(|op| [op.reads(), op.writes()].concat()).map(bytes).sum()
    }

    /// The model, whose only program is what was written down, and what its inputs hold. The last value made
    /// can be read.
    pub(super) fn finish(mut self) -> (ModelSpec, Vec<(Val, Fill)>) {
        let mut program = Program::of(&self.ops);
        let last = self.ops.iter().rev().find_map(|op| op.writes().last().copied());
        program.results = last.into_iter().collect();
        self.inputs.retain(|(val, _)| program.inputs.contains(val));
        (ModelSpec { weights: self.weights, caches: self.caches, programs: vec![program] }, self.inputs)
    }
}

/// A rotary embedding over `rotary` dims with the usual base.
pub(super) fn rope(rotary: u32, pairing: program::Pairing) -> Rope {
    let inverse = |pair: u32| 10_000f32.powf(-2.0 * pair as f32 / rotary as f32);
    let inverse_frequencies: Arc<[f32]> = (0..rotary / 2).map(inverse).collect();
    Rope { inverse_frequencies, gain: 1.0, pairing }
}
