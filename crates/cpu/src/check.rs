//! Whether a program fits the weights and caches of this device, so that a step can rely on it.

use program::{CacheId, Glu, Op, Program, WeightId};

use crate::cache::Caches;
use crate::weights::{Weight, Weights};

/// Checks all operations of a program; what is wrong, if something is.
pub(crate) fn check(program: &Program, weights: &Weights, caches: &Caches) -> Result<(), String> {
    let check = Check { weights, caches };
    for (index, op) in program.ops.iter().enumerate() {
        check.op(op).map_err(|what| format!("operation {index} ({}): {what}", op.name()))?;
    }
    Ok(())
}

struct Check<'a> {
    weights: &'a Weights,
    caches: &'a Caches,
}

impl Check<'_> {
    fn op(&self, op: &Op) -> Result<(), String> {
        if let Some(id) = op.weights().into_iter().find(|id| !self.weights.is_whole(*id)) {
            return Err(format!("weight {} was not uploaded, or not all of its parts", id.0));
        }
        match op {
            Op::Embed { table, out } => {
                let found = self.weights.get(*table, 0).map(Weight::stored);
                self.require(found.is_some_and(|table| table.inputs == out.cols as usize), *table)
            }
            Op::RmsNorm { x, weight, .. } => self.vector(*weight, |len| x.len.is_multiple_of(len)),
            Op::AddRmsNorm { x, weight, .. } => self.vector(*weight, |len| x.cols == len),
            Op::Linear { x, to } => {
                to.iter().try_for_each(|(weight, out)| self.matrix(*weight, (out.cols, x.len)).map(drop))
            }
            Op::CacheWrite { x, cache, part } => self.cache(*cache, *part, x.len),
            Op::Attend { cache, shape, .. } => {
                self.cache(*cache, 0, shape.kv_heads * shape.key_dims)?;
                self.cache(*cache, 1, shape.kv_heads * shape.value_dims)
            }
            Op::AttendMla { cache, up, shape, .. } => {
                self.cache(*cache, 0, shape.rank)?;
                self.cache(*cache, 1, shape.rotary)?;
                self.matrix(*up, (shape.heads * (shape.nope + shape.value), shape.rank))?;
                self.require(matches!(self.weights.get(*up, 0), Some(Weight::Dense(_))), *up)
            }
            Op::Route { bias: Some(bias), how, .. } => self.vector(*bias, |len| len == how.experts),
            Op::Experts { x, experts, shared, .. } => {
                self.glu(experts, x.cols)?;
                shared.as_ref().map_or(Ok(()), |shared| self.glu(shared, x.cols))
            }
            Op::Rope { .. }
            | Op::Route { bias: None, .. }
            | Op::ActMul { .. }
            | Op::Add { .. }
            | Op::Outputs { .. }
            | Op::Answer { .. } => Ok(()),
        }
    }

    fn require(&self, holds: bool, id: WeightId) -> Result<(), String> {
        if holds {
            Ok(())
        } else {
            Err(format!("weight {} has another shape or storage than is needed", id.0))
        }
    }

    fn vector(&self, id: WeightId, fits: impl Fn(u32) -> bool) -> Result<(), String> {
        match self.weights.get(id, 0) {
            Some(Weight::Vector(vector)) => self.require(fits(vector.len() as u32), id),
            _ => self.require(false, id),
        }
    }

    /// Checks all parts; gives how many there are.
    fn matrix(&self, id: WeightId, (out, inputs): (u32, u32)) -> Result<usize, String> {
        let parts = self.weights.parts(id);
        for part in 0..parts {
            let fits = match self.weights.get(id, part) {
                Some(Weight::Dense(dense)) => (dense.out, dense.inputs) == (out as usize, inputs as usize),
                Some(Weight::Codes(codes)) => (codes.out, codes.inputs) == (out as usize, inputs as usize),
                _ => false,
            };
            self.require(fits, id)?;
        }
        Ok(parts)
    }

    fn glu(&self, glu: &Glu, hidden: u32) -> Result<(), String> {
        let width = self.weights.get(glu.up, 0).map_or(0, |up| up.stored().out as u32);
        let parts = self.matrix(glu.up, (width, hidden))?;
        let same = self.matrix(glu.gate, (width, hidden))? == parts
            && self.matrix(glu.down, (hidden, width))? == parts;
        if same { Ok(()) } else { Err(format!("weights {glu:?} differ in their number of experts")) }
    }

    fn cache(&self, id: CacheId, part: u32, cols: u32) -> Result<(), String> {
        let found = self.caches.cols(id, part);
        if found == Some(cols) {
            return Ok(());
        }
        Err(format!(
            "part {part} of cache {} has {found:?} columns, {cols} are needed; reserve caches first",
            id.0
        ))
    }
}
