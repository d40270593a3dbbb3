//! Whether a program fits the weights and caches of this device, so that kernels can rely on it.

use program::{CacheId, Glu, Kind, Op, Program, Storage, WeightId};

use crate::caches::Caches;
use crate::weights::{Part, Weights};

/// Heads that may share one key head.
const MOST_SHARING: u32 = 64;

/// Columns of a head or latent that the attention kernels hold.
const MOST_DIMS: u32 = 512;

/// Checks all operations of a program; what is wrong, if something is.
pub(crate) fn check(program: &Program, weights: &Weights, caches: &Caches) -> Result<(), String> {
    let check = Check { weights, caches };
    for (index, op) in program.ops.iter().enumerate() {
        check.op(op).map_err(|what| format!("operation {index} ({}): {what}", op.name()))?;
    }
    Ok(())
}

/// How many token ids a step of this program may name: those of its table and of its logits.
pub(crate) fn vocab(program: &Program, weights: &Weights) -> u32 {
    let of = |op: &Op| match op {
        Op::Embed { table, .. } => weights.parts(*table).map(|parts| parts[0].shape().0),
        Op::Answer { logits, .. } => Some(logits.cols),
        _ => None,
    };
    program.ops.iter().filter_map(of).min().unwrap_or(u32::MAX)
}

struct Check<'a> {
    weights: &'a Weights,
    caches: &'a Caches,
}

impl Check<'_> {
    fn op(&self, op: &Op) -> Result<(), String> {
        for id in op.weights() {
            self.parts(id)?;
        }
        match op {
            Op::Embed { table, out } => {
                let table = self.parts(*table)?[0];
                require(!is_codes(&table) && table.shape().1 == out.cols, "the table")
            }
            Op::RmsNorm { x, weight, .. } => self.vector(*weight, |len| x.len.is_multiple_of(len)),
            Op::AddRmsNorm { x, weight, .. } => self.vector(*weight, |len| x.cols == len),
            Op::Linear { x, to } => {
                to.iter().try_for_each(|(weight, out)| self.matrix(*weight, (out.cols, x.len)).map(drop))
            }
            Op::CacheWrite { x, cache, part } => self.cache(*cache, *part, x.len),
            Op::Attend { cache, shape, .. } => {
                let fits = shape.heads / shape.kv_heads <= MOST_SHARING
                    && shape.key_dims.max(shape.value_dims) <= MOST_DIMS;
                require(fits, "the division into heads")?;
                self.cache(*cache, 0, shape.kv_heads * shape.key_dims)?;
                self.cache(*cache, 1, shape.kv_heads * shape.value_dims)
            }
            Op::AttendMla { cache, up, shape, .. } => {
                require(shape.rank <= MOST_DIMS, "the latent")?;
                self.cache(*cache, 0, shape.rank)?;
                self.cache(*cache, 1, shape.rotary)?;
                self.matrix(*up, (shape.heads * (shape.nope + shape.value), shape.rank))?;
                require(!is_codes(&self.parts(*up)?[0]), "the up-projection")
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

    fn parts(&self, id: WeightId) -> Result<Vec<Part>, String> {
        let missing = || format!("weight {} was not uploaded, or not all of its parts", id.0);
        self.weights.parts(id).ok_or_else(missing)
    }

    fn vector(&self, id: WeightId, fits: impl Fn(u32) -> bool) -> Result<(), String> {
        let part = self.parts(id)?[0];
        require(matches!(part.kind, Kind::Vector { len } if fits(len)), &format!("weight {}", id.0))
    }

    /// Checks all parts; gives how many there are.
    fn matrix(&self, id: WeightId, shape: (u32, u32)) -> Result<usize, String> {
        let parts = self.parts(id)?;
        let fits = |part: &Part| part.shape() == shape && !matches!(part.storage, Storage::Exl3Table { .. });
        require(parts.iter().all(fits), &format!("weight {}", id.0))?;
        Ok(parts.len())
    }

    fn glu(&self, glu: &Glu, hidden: u32) -> Result<(), String> {
        let width = self.parts(glu.up)?[0].shape().0;
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

fn is_codes(part: &Part) -> bool {
    matches!(part.storage, Storage::Exl3 { .. })
}

fn require(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what} has another shape or storage than this device can use")) }
}
