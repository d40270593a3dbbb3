//! What kernels of one program read and no step changes, beside weights: lists of experts' matrices and rotary frequencies.

use std::collections::HashMap;
use std::sync::Arc;

use program::{Glu, Op, Program, Result, WeightId};

use crate::driver::{Address, Buffer, Context};
use crate::weights::{Part, Weights};

/// The matrices of one weight, one an expert, and behind them the one of the shared expert if there is one.
type MatrixList = (WeightId, Option<WeightId>);

/// The constants of one program on the device.
#[derive(Debug)]
pub(crate) struct Constants {
    memory: Buffer,
    matrices: HashMap<MatrixList, usize>,
    /// By the operation's index.
    frequencies: HashMap<usize, usize>,
}

impl Constants {
    /// Collects and uploads the constants of a program that was checked.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn new(context: &Arc<Context>, program: &Program, weights: &Weights) -> Result<Constants> {
        let mut bytes = Vec::new();
        let (mut matrices, mut frequencies) = (HashMap::new(), HashMap::new());
        for (index, op) in program.ops.iter().enumerate() {
            if let Op::Rope { rope, .. } = op {
                frequencies.insert(index, bytes.len());
                bytes.extend(rope.inverse_frequencies.iter().flat_map(|frequency| frequency.to_le_bytes()));
                bytes.resize(bytes.len().next_multiple_of(16), 0);
            }
            for list in lists(op) {
                matrices.entry(list).or_insert_with(|| {
                    let start = bytes.len();
                    bytes.extend(parts(weights, list).iter().flat_map(Part::matrix));
                    start
                });
            }
        }
        let memory = Buffer::new(context, bytes.len())?;
        memory.write(0, &bytes)?;
        Ok(Constants { memory, matrices, frequencies })
    }

    /// Where the matrices of a list are.
    ///
    /// # Panics
    /// If the program has no such list.
    pub(crate) fn matrices(&self, list: MatrixList) -> Address {
        self.memory.address() + self.matrices[&list]
    }

    /// Where the frequencies of operation number `index` are.
    ///
    /// # Panics
    /// If it is no rotation.
    pub(crate) fn frequencies(&self, index: usize) -> Address {
        self.memory.address() + self.frequencies[&index]
    }
}

/// The parts of a list.
///
/// # Panics
/// If a weight was not uploaded; programs are checked when they are prepared.
pub(crate) fn parts(weights: &Weights, (id, shared): MatrixList) -> Vec<Part> {
    let of = |id| weights.parts(id).unwrap_or_else(|| panic!("{id:?} was not uploaded"));
    std::iter::once(id).chain(shared).flat_map(of).collect()
}

/// The lists of matrices that an operation's rows choose from.
fn lists(op: &Op) -> Vec<MatrixList> {
    match op {
        Op::Experts { experts, shared, .. } => {
            let with = |of: fn(&Glu) -> WeightId| (of(experts), shared.as_ref().map(of));
            vec![with(|glu| glu.gate), with(|glu| glu.up), with(|glu| glu.down)]
        }
        _ => vec![],
    }
}
