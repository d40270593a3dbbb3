//! A mixture of experts: `out = sum_s gates[s] * glu_{ids[s]}(x) (+ glu_shared(x))`, summed in the order of s.
//!
//! The slots are sorted by expert, so that an expert that some rows chose is read once for 256 of them, and
//! one that none chose is not read. Then four phases, the routed experts and the shared one in the same:
//!
//! 1. arrange: the input of each slot, turned for its gate and its up where they are codes;
//! 2. up: 256 columns of `act(gate x) * (up x)` for the slots of one expert, turned at once for its down;
//! 3. down: 256 columns of the result for the slots of one expert;
//! 4. combine: the slots of a row.
//!
//! Traffic: the chosen experts once for 256 rows; 4 bytes times `3 hidden + width` written and read a slot.

use std::ops::Range;

use program::{Activation, Glu};

use super::act_mul::act_mul_row;
use super::add::light_rows;
use super::codes;
use super::grouping::Grouping;
use super::inputs::{self, Form, Forms, RECORD, arranged};
use super::linear::{self, ROWS, Stored, TURN};
use super::{Rows, Work};
use crate::arena::{Blocks, Columns, Cut, for_each_block, spaced};
use crate::pool::Pool;
use crate::simd::Simd;
use crate::weights::{Codes, Matrix, Weights};

/// The experts of a layer.
#[derive(Clone, Copy)]
pub(crate) struct Layer<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) experts: &'a Glu,
    pub(crate) shared: Option<&'a Glu>,
    pub(crate) act: Activation,
    pub(crate) forms: Forms,
}

/// Sizes of the routed experts or of the shared one.
#[derive(Clone, Copy)]
struct Sizes {
    hidden: usize,
    width: usize,
}

impl Sizes {
    fn of(up: Stored) -> Sizes {
        Sizes { hidden: up.inputs, width: up.out }
    }

    /// Numbers of a slot in all phases.
    fn slot(&self) -> usize {
        2 * spaced(arranged(self.hidden)) + spaced(arranged(self.width)) + self.hidden
    }
}

/// The work space of [`experts`] for up to `rows` rows, given an `up` matrix of the routed experts and that
/// of the shared one.
pub(crate) fn work(rows: usize, top_k: usize, routed: Stored, shared: Option<Stored>) -> Work {
    let of_shared = shared.map_or(0, |up| rows * Sizes::of(up).slot());
    let rows_of_task = rows.saturating_mul(top_k).min(ROWS);
    let task = 2 * rows_of_task * RECORD + codes::scratch(rows_of_task, RECORD);
    Work { shared: rows * top_k * Sizes::of(routed).slot() + of_shared, thread: task.max(linear::task(rows)) }
}

/// What the slots of the routed experts, or the rows of the shared one, become in the phases.
#[derive(Default)]
struct Slots<'a> {
    for_gate: &'a mut [f32],
    for_up: &'a mut [f32],
    between: &'a mut [f32],
    results: &'a mut [f32],
}

impl<'a> Slots<'a> {
    fn take(count: usize, sizes: Sizes, shared: &mut &'a mut [f32]) -> Slots<'a> {
        let mut next = |len: usize| {
            let (first, rest) = std::mem::take(shared).split_at_mut(count * len);
            *shared = rest;
            first
        };
        Slots {
            for_gate: next(spaced(arranged(sizes.hidden))),
            for_up: next(spaced(arranged(sizes.hidden))),
            between: next(spaced(arranged(sizes.width))),
            results: next(sizes.hidden),
        }
    }
}

/// One call of [`experts`].
struct Mixture<'a, S> {
    simd: S,
    layer: Layer<'a>,
    x: Rows<'a>,
    ids: &'a [f32],
    top_k: usize,
    grouping: &'a Grouping,
}

/// The routed slots, and the rows of the shared expert.
const ROUTED: usize = 0;
const KINDS: usize = 2;

/// Rows, what was chosen for them, and with what gates.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) x: Rows<'a>,
    pub(crate) ids: &'a [f32],
    pub(crate) gates: &'a [f32],
    pub(crate) top_k: usize,
}

/// Computes the mixture for rows whose slots `grouping` has sorted.
pub(crate) fn experts<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (layer, choice, grouping): (Layer<'_>, Choice<'_>, &Grouping),
    out: &mut [f32],
    (mut shared, scratch): (&mut [f32], &mut [f32]),
) {
    let Choice { x, ids, gates, top_k } = choice;
    let mixture = Mixture { simd, layer, x, ids, top_k, grouping };
    let sizes = |glu: &Glu, part| {
        let up = layer.weights.matrix(glu.up, part);
        Sizes { hidden: x.cols(), width: up.out() }
    };
    let mut slots: [Slots<'_>; KINDS] = Default::default();
    slots[ROUTED] = Slots::take(ids.len(), sizes(layer.experts, 0), &mut shared);
    if let Some(glu) = layer.shared {
        slots[1] = Slots::take(ids.len() / top_k, sizes(glu, 0), &mut shared);
    }
    mixture.arrange(pool, &mut slots);
    mixture.up(pool, &mut slots, scratch);
    mixture.down(pool, &mut slots, scratch);
    mixture.combine(pool, &slots, gates, out);
}

impl<S: Simd> Mixture<'_, S> {
    /// Gate, up and down of a routed expert or of the shared one.
    fn unit(&self, kind: usize, expert: usize) -> [Matrix<'_>; 3] {
        let glu = match self.layer.shared {
            Some(shared) if kind != ROUTED => shared,
            _ => self.layer.experts,
        };
        [glu.gate, glu.up, glu.down].map(|id| self.layer.weights.matrix(id, expert))
    }

    /// How rows are multiplied with a matrix: that depends on the rows of the step, not on those of an expert.
    fn form(&self, codes: &Codes) -> Form {
        self.layer.forms.of(codes.codebook, self.ids.len() / self.top_k)
    }

    /// `acc[r] = (W x[r])[cols]` for `rows` rows, [`RECORD`] apart.
    fn columns(
        &self,
        matrix: Matrix<'_>,
        (cols, rows): (Range<usize>, usize),
        x: Rows<'_>,
        (acc, room): (&mut [f32], &mut [f32]),
    ) {
        let form = match matrix {
            Matrix::Codes(codes) => self.form(codes),
            Matrix::Dense(_) => Form::Floats,
        };
        linear::columns(self.simd, (matrix, form), (cols, rows), x, (acc, RECORD, room));
    }

    /// The expert of part `part` of a cut.
    fn expert(&self, kind: usize, part: usize) -> usize {
        if kind == ROUTED { self.grouping.experts[part] as usize } else { 0 }
    }

    fn cut(&self, kind: usize) -> Cut<'_> {
        if kind == ROUTED { Cut::At(&self.grouping.bounds) } else { Cut::Every(ROWS) }
    }

    fn arrange(&self, pool: &mut Pool, slots: &mut [Slots<'_>; KINDS]) {
        let inputs = arranged(self.x.cols());
        let mut blocks = Blocks::default();
        for slots in slots {
            blocks.push(slots.for_gate, Columns::spaced(inputs, TURN.1), Cut::Every(TURN.0));
            blocks.push(slots.for_up, Columns::spaced(inputs, TURN.1), Cut::Every(TURN.0));
        }
        for_each_block(pool, blocks.light(), &mut [], |mut block, _| {
            let (kind, which) = (block.matrix / 2, block.matrix % 2);
            let known = block.cols.start.min(self.x.cols())..block.cols.end.min(self.x.cols());
            for row in 0..block.rows.len() {
                let position = block.rows.start + row;
                let (at, expert) = if kind == ROUTED {
                    let slot = self.grouping.slots[position] as usize;
                    (slot / self.top_k, self.ids[slot] as usize)
                } else {
                    (position, 0)
                };
                let x = &self.x.row(at)[known.clone()];
                match self.unit(kind, expert)[which] {
                    Matrix::Codes(codes) => {
                        let first = block.cols.start / RECORD;
                        let codes = (codes, self.form(codes));
                        self.simd.vectorize(
                            #[inline(always)]
                            || inputs::turn(self.simd, codes, first, (x, block.row(row))),
                        );
                    }
                    Matrix::Dense(_) => block.row(row)[..x.len()].copy_from_slice(x),
                }
            }
        });
    }

    fn up(&self, pool: &mut Pool, slots: &mut [Slots<'_>; KINDS], scratch: &mut [f32]) {
        let inputs = arranged(self.x.cols());
        let mut blocks = Blocks::default();
        let mut arranged = [[&[][..]; 2]; KINDS];
        for (kind, slots) in slots.iter_mut().enumerate() {
            let width = self.between(kind);
            blocks.push(slots.between, Columns::spaced(width, RECORD), self.cut(kind));
            arranged[kind] = [&*slots.for_gate, &*slots.for_up];
        }
        for_each_block(pool, blocks, scratch, |mut block, scratch| {
            let [gate, up, down] = self.unit(block.matrix, self.expert(block.matrix, block.part));
            let rows = block.rows.len();
            let (gates, rest) = scratch.split_at_mut(rows * RECORD);
            let (ups, room) = rest.split_at_mut(rows * RECORD);
            let known = block.cols.start..block.cols.end.min(gate.out());
            for (which, (matrix, acc)) in [(gate, &mut *gates), (up, &mut *ups)].into_iter().enumerate() {
                let x = Rows::new(arranged[block.matrix][which], spaced(inputs), 0, matrix.multiplied());
                self.columns(matrix, (known.clone(), rows), x.from(block.rows.start), (acc, &mut *room));
            }
            self.simd.vectorize(
                #[inline(always)]
                || {
                    let pairs = gates.chunks_exact(RECORD).zip(ups.chunks_exact(RECORD));
                    for (row, (gate, up)) in pairs.take(rows).enumerate() {
                        let out = block.row(row);
                        let (combined, padding) = out.split_at_mut(known.len());
                        let pair = (&gate[..known.len()], &up[..known.len()], self.layer.act);
                        act_mul_row(self.simd, pair, combined);
                        padding.fill(0.0);
                        if let (Matrix::Codes(codes), Some(out)) = (down, out.first_chunk_mut()) {
                            let codes = (codes, self.form(codes));
                            inputs::turn_record(self.simd, codes, known.start / RECORD, out);
                        }
                    }
                },
            );
        });
    }

    /// Columns of what lies between up and down.
    fn between(&self, kind: usize) -> usize {
        arranged(self.unit(kind, 0)[1].out())
    }

    fn down(&self, pool: &mut Pool, slots: &mut [Slots<'_>; KINDS], scratch: &mut [f32]) {
        let mut blocks = Blocks::default();
        let mut between = [&[][..]; KINDS];
        for (kind, slots) in slots.iter_mut().enumerate() {
            blocks.push(slots.results, Columns::dense(self.x.cols(), RECORD), self.cut(kind));
            between[kind] = slots.between;
        }
        for_each_block(pool, blocks, scratch, |mut block, scratch| {
            let kind = block.matrix;
            let [_, _, down] = self.unit(kind, self.expert(kind, block.part));
            let x = Rows::new(between[kind], spaced(self.between(kind)), 0, down.multiplied())
                .from(block.rows.start);
            let rows = block.rows.len();
            let (acc, room) = scratch.split_at_mut(rows * RECORD);
            self.columns(down, (block.cols.clone(), rows), x, (&mut *acc, room));
            for (row, acc) in acc.chunks_exact(RECORD).enumerate() {
                let out = block.row(row);
                out.copy_from_slice(&acc[..out.len()]);
            }
        });
    }

    fn combine(&self, pool: &mut Pool, slots: &[Slots<'_>; KINDS], gates: &[f32], out: &mut [f32]) {
        let hidden = self.x.cols();
        let [routed, shared] = slots.each_ref().map(|slots| Rows::new(slots.results, hidden, 0, hidden));
        let blocks = Blocks::of(out, Columns::dense(hidden, hidden), light_rows(hidden));
        for_each_block(pool, blocks, &mut [], |mut block, _| {
            self.simd.vectorize(
                #[inline(always)]
                || {
                    for row in 0..block.rows.len() {
                        let at = block.rows.start + row;
                        let out = block.row(row);
                        out.fill(0.0);
                        let slots = at * self.top_k..(at + 1) * self.top_k;
                        for (gate, position) in
                            gates[slots.clone()].iter().zip(&self.grouping.positions[slots])
                        {
                            for (out, result) in out.iter_mut().zip(routed.row(*position as usize)) {
                                *out += gate * result;
                            }
                        }
                        if self.layer.shared.is_some() {
                            for (out, result) in out.iter_mut().zip(shared.row(at)) {
                                *out += result;
                            }
                        }
                    }
                },
            );
        });
    }
}
