//! The scratch plan: where each value of a program lies in one block of memory.
//!
//! A value lives from the operation that makes it to the last one that reads it; inputs live from the
//! beginning, results to the end, and with `keep_all` everything lives throughout. Values whose lives do
//! not meet share memory: the first gap that is wide enough is taken.

use std::collections::HashMap;
use std::ops::Range;

use crate::{Options, Program, Size, Val};

/// Where each value of one program lies, counted in numbers (`f32`) from the start of scratch memory.
#[derive(Clone, Debug, Default)]
pub struct ScratchPlan {
    places: HashMap<u32, Range<usize>>,
    len: usize,
}

/// Places begin at multiples of this many numbers: one cache line.
const ALIGNMENT: usize = 16;

/// A value and the operations, by index, from the one that makes it to the last one that reads it.
pub type Life = (Val, Range<usize>);

/// The lives of the values of `program`, in the order in which they begin.
pub fn lives(program: &Program, keep_all: bool) -> Vec<Life> {
    let last = program.ops.len();
    let mut lives: Vec<Life> = program.inputs.iter().map(|val| (*val, 0..0)).collect();
    for (index, op) in program.ops.iter().enumerate() {
        for val in op.reads() {
            if let Some((_, life)) = lives.iter_mut().rev().find(|(known, _)| *known == val) {
                life.end = index;
            }
        }
        lives.extend(op.writes().into_iter().map(|val| (val, index..index)));
    }
    for (val, life) in &mut lives {
        if keep_all {
            *life = 0..last;
        } else if program.results.contains(val) {
            life.end = last;
        }
    }
    lives
}

impl ScratchPlan {
    /// Lays out the values of `program` for steps up to `options.size`.
    pub fn new(program: &Program, options: &Options) -> ScratchPlan {
        ScratchPlan::of(lives(program, options.keep_all), options.size)
    }

    /// Lays out values with the lives that a device gives them, for steps up to `size`.
    pub fn of(lives: Vec<Life>, size: Size) -> ScratchPlan {
        let mut plan = ScratchPlan::default();
        let mut placed: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        for (val, life) in lives {
            let len = (size.rows(val.rows) as usize * val.cols as usize).next_multiple_of(ALIGNMENT);
            let start = first_gap(&placed, &life, len);
            placed.push((life, start..start + len));
            plan.places.insert(val.id, start..start + len);
            plan.len = plan.len.max(start + len);
        }
        plan
    }

    /// Where the value begins, or none if the program does not have it.
    pub fn start(&self, val: Val) -> Option<usize> {
        self.places.get(&val.id).map(|place| place.start)
    }

    /// Numbers in all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The lowest start at which `len` numbers meet nothing that is alive during `life`.
fn first_gap(placed: &[(Range<usize>, Range<usize>)], life: &Range<usize>, len: usize) -> usize {
    let mut taken: Vec<&Range<usize>> = placed
        .iter()
        .filter(|(other, _)| other.start <= life.end && life.start <= other.end)
        .map(|(_, place)| place)
        .collect();
    taken.sort_unstable_by_key(|place| place.start);
    let mut start = 0;
    for place in taken {
        if place.start >= start + len {
            break;
        }
        start = start.max(place.end);
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Role, Rows};

    fn val(id: u32, cols: u32) -> Val {
        Val { id, rows: Rows::Tokens, cols, role: Role::Activation }
    }

    fn add(a: u32, b: u32, out: u32) -> Op {
        Op::Add { a: val(a, 16), b: val(b, 16), out: val(out, 16) }
    }

    fn options(keep_all: bool) -> Options {
        Options { keep_all, ..Options::new(Size { tokens: 3, outputs: 1, sequences: 1 }) }
    }

    #[test]
    fn values_that_are_never_alive_together_share_memory() {
        let mut program = Program::of(&[add(0, 1, 2), add(2, 2, 3), add(3, 3, 4)]);
        program.results = vec![val(4, 16)];
        let plan = ScratchPlan::new(&program, &options(false));
        // 0, 1 and 2 are alive at the first addition; 3 takes the place of 0, and 4 that of 1.
        assert_eq!(plan.len(), 3 * 48);
        assert_eq!(plan.start(val(3, 16)), plan.start(val(0, 16)));
        assert_ne!(plan.start(val(4, 16)), plan.start(val(3, 16)));
        assert_eq!(plan.start(val(9, 16)), None);
    }

    #[test]
    fn keep_all_gives_every_value_its_own_memory() {
        let program = Program::of(&[add(0, 1, 2), add(2, 2, 3), add(3, 3, 4)]);
        assert_eq!(ScratchPlan::new(&program, &options(true)).len(), 5 * 48);
    }
}
