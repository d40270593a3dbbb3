//! One program on two devices: which operation differs, and what becomes of a whole model when none does.
//!
//! A whole model cannot be compared number by number: a rounding turns over a near tie of a router, and from
//! there on the two devices compute different things. So there are three comparisons, all of the first
//! program of a model and of steps whose tokens are ids:
//!
//! | method | the other device gets | what is told |
//! |---|---|---|
//! | [`Comparison::op_by_op`] | the reference's values before each operation | the error of each operation |
//! | [`Comparison::forced_routing`] | its own values, but the reference's choice of experts | both logits |
//! | [`Comparison::free_routing`] | its own values | both logits, and where the choices differ |
//!
//! Both devices hold the model already: its weights are uploaded and its caches reserved. Steps follow each
//! other as they would without a comparison. All three write the rows of their step into the caches of both
//! devices: after `op_by_op` those of the other device hold the reference's rows, otherwise its own.

mod report;
mod routing;

use std::collections::HashMap;

pub use report::{Difference, Report, Worst};
pub use routing::{Choice, FreeRouting};

use crate::reference::Reference;
use crate::{
    Answer, Device, Error, ModelSpec, Op, Options, Outcome, Program, ProgramId, Result, Rows, Size, Step,
    Token, Val,
};
use report::Both;

/// The largest relative error (Frobenius norm over all rows) of one operation that gets the reference's values.
/// Rows cached as f16 are off by 2^-11 (5e-4) each, which is the most that an operation of a right device rounds;
/// sums in another order are off by less. A wrong index, sign or scale gives errors near 1.
pub const OPERATION: f64 = 2e-3;

/// The largest relative error of a row of logits when the reference chooses the experts: what those roundings
/// add up to, one layer after the other.
pub const WHOLE: f64 = 5e-3;

/// The largest gap between the scores of two experts of which either may be chosen: what a score moves by when
/// the numbers behind it are rounded as above.
pub const NEAR_TIE: f32 = 1e-3;

/// The reference and another device with the same model.
pub struct Comparison<'a> {
    model: &'a ModelSpec,
    reference: &'a mut Reference,
    other: &'a mut dyn Device,
    size: Size,
    /// The whole program on the reference, all values kept.
    whole: ProgramId,
    /// What the other device has prepared.
    pieces: HashMap<Piece, (Program, ProgramId)>,
}

/// A part of the program, by its first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Piece {
    /// One operation.
    Op(usize),
    /// Operations up to the second index.
    Between(usize, usize),
    /// All of them, with all values kept.
    Whole,
}

/// The logits that a step asked for, row after row, from both devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Logits {
    /// The reference's.
    pub reference: Vec<f32>,
    /// The other device's.
    pub other: Vec<f32>,
}

/// A copy of a step's outcome.
struct Answers {
    answers: Vec<Answer>,
    logits: Vec<f32>,
}

impl Answers {
    fn of(outcome: Outcome<'_>) -> Answers {
        Answers { answers: outcome.answers.to_vec(), logits: outcome.logits.to_vec() }
    }
}

impl<'a> Comparison<'a> {
    /// Prepares the first program of `model` for steps of up to `size` on the reference; the other device
    /// prepares what each comparison needs when it is first asked for.
    ///
    /// # Errors
    /// The reference's, if it cannot prepare the program.
    pub fn new(
        model: &'a ModelSpec,
        size: Size,
        reference: &'a mut Reference,
        other: &'a mut dyn Device,
    ) -> Result<Comparison<'a>> {
        let whole =
            reference.prepare(&model.programs[0], &Options { keep_all: true, ..Options::new(size) })?;
        Ok(Comparison { model, reference, other, size, whole, pieces: HashMap::new() })
    }

    /// Runs every operation on the other device from the reference's values.
    ///
    /// # Errors
    /// Those of either device, and a step whose tokens are not ids.
    pub fn op_by_op(&mut self, step: &Step<'_>) -> Result<Report> {
        let want = self.run_reference(step)?;
        let mut differences = Vec::new();
        for (index, op) in self.model.programs[0].ops.iter().enumerate() {
            let (program, id) = self.piece(Piece::Op(index))?;
            for input in program.inputs {
                let rows = self.reference_rows(input, step)?;
                self.other.write(id, input, &rows)?;
            }
            let ticket = self.other.submit(id, step)?;
            let got = Answers::of(self.other.wait(ticket)?);
            let values = match op {
                Op::Answer { logits, .. } => report::answers(*logits, &got, &want),
                _ => op.writes().into_iter().map(|val| self.both(id, val, step)).collect::<Result<_>>()?,
            };
            let difference = Difference::new(index, op, self.model);
            differences.push(match op {
                Op::Route { .. } => {
                    let (choices, gates) = self.routed(index, values, step)?;
                    difference.with_choices(choices).with_values(&gates)
                }
                _ => difference.with_values(&values),
            });
        }
        Ok(Report { differences })
    }

    /// Runs the whole program on the other device, its experts being the reference's choice.
    ///
    /// # Errors
    /// Those of either device, and a step whose tokens are not ids.
    pub fn forced_routing(&mut self, step: &Step<'_>) -> Result<Logits> {
        let reference = self.run_reference(step)?.logits;
        let mut makers: HashMap<Val, ProgramId> = HashMap::new();
        let mut other = Vec::new();
        for piece in self.between_choices() {
            let (program, id) = self.piece(piece)?;
            for input in program.inputs {
                let rows = match makers.get(&input) {
                    Some(maker) => {
                        let mut rows = vec![0.0; numbers(input, step)];
                        self.other.read(*maker, input, &mut rows)?;
                        rows
                    }
                    None => self.reference_rows(input, step)?,
                };
                self.other.write(id, input, &rows)?;
            }
            let ticket = self.other.submit(id, step)?;
            other.extend_from_slice(self.other.wait(ticket)?.logits);
            makers.extend(program.results.into_iter().map(|val| (val, id)));
        }
        Ok(Logits { reference, other })
    }

    /// Runs the whole program on both devices, each making its own choices.
    ///
    /// # Errors
    /// Those of either device, and a step whose tokens are not ids.
    pub fn free_routing(&mut self, step: &Step<'_>) -> Result<FreeRouting> {
        let reference = self.run_reference(step)?.logits;
        let (_, id) = self.piece(Piece::Whole)?;
        let ticket = self.other.submit(id, step)?;
        let other = self.other.wait(ticket)?.logits.to_vec();
        let mut choices = Vec::new();
        for (index, op) in self.model.programs[0].ops.iter().enumerate() {
            if let Op::Route { ids, gates, .. } = op {
                let values = [ids, gates].map(|val| self.both(id, *val, step));
                let [ids, gates] = values;
                choices.extend(self.routed(index, vec![ids?, gates?], step)?.0);
            }
        }
        Ok(FreeRouting { logits: Logits { reference, other }, choices })
    }

    /// Runs one step of the whole program on the reference.
    fn run_reference(&mut self, step: &Step<'_>) -> Result<Answers> {
        if let Some(row) = step.tokens.iter().position(|token| !matches!(token, Token::Id(_))) {
            let what = format!("row {row} has no token id, and a program in pieces cannot look back");
            return Err(Error::Step(what));
        }
        let ticket = self.reference.submit(self.whole, step)?;
        Ok(Answers::of(self.reference.wait(ticket)?))
    }

    /// A value of the step that the reference ran last.
    fn reference_rows(&mut self, val: Val, step: &Step<'_>) -> Result<Vec<f32>> {
        let mut rows = vec![0.0; numbers(val, step)];
        self.reference.read(self.whole, val, &mut rows)?;
        Ok(rows)
    }

    /// A value of the step that both devices ran last.
    fn both(&mut self, program: ProgramId, val: Val, step: &Step<'_>) -> Result<Both> {
        let want = self.reference_rows(val, step)?;
        let mut got = vec![0.0; want.len()];
        self.other.read(program, val, &mut got)?;
        Ok(Both { val, got, want })
    }

    /// Where the chosen experts differ, and the gates of the rows where they do not. `values` are the ids and
    /// the gates that the operation at `index` made.
    fn routed(
        &mut self,
        index: usize,
        values: Vec<Both>,
        step: &Step<'_>,
    ) -> Result<(Vec<Choice>, Vec<Both>)> {
        let Op::Route { logits, bias, how, .. } = &self.model.programs[0].ops[index] else {
            return Ok((Vec::new(), values));
        };
        let logits = self.reference_rows(*logits, step)?;
        let bias = bias.map(|bias| self.reference.vector(bias)).transpose()?;
        let keys: Vec<Vec<f32>> = logits
            .chunks_exact(how.experts as usize)
            .map(|logits| crate::reference::keys(logits, bias, how))
            .collect();
        Ok(routing::compare(index, how, &keys, values))
    }

    /// The operations between one choice of experts and the next.
    fn between_choices(&self) -> Vec<Piece> {
        let ops = &self.model.programs[0].ops;
        let mut ends: Vec<usize> =
            (0..ops.len()).filter(|index| matches!(ops[*index], Op::Route { .. })).collect();
        ends.push(ops.len());
        let starts = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
        let ranges = starts.zip(&ends).filter(|(start, end)| start < end);
        ranges.map(|(start, end)| Piece::Between(start, *end)).collect()
    }

    /// A part of the program as one of its own on the other device. Its results are what later operations
    /// read, or all that it makes if it is one operation alone.
    fn piece(&mut self, piece: Piece) -> Result<(Program, ProgramId)> {
        if let Some(known) = self.pieces.get(&piece) {
            return Ok(known.clone());
        }
        let whole = &self.model.programs[0];
        let program = match piece {
            Piece::Op(index) => Program::of(&whole.ops[index..=index]),
            Piece::Between(start, end) => {
                let mut program = Program::of(&whole.ops[start..end]);
                let later: Vec<Val> = whole.ops[end..].iter().flat_map(Op::reads).collect();
                program.results.retain(|val| later.contains(val));
                program
            }
            Piece::Whole => whole.clone(),
        };
        let keep_all = piece == Piece::Whole;
        let id = self.other.prepare(&program, &Options { keep_all, ..Options::new(self.size) })?;
        self.pieces.insert(piece, (program.clone(), id));
        Ok((program, id))
    }
}

/// How many numbers a value has in this step.
fn numbers(val: Val, step: &Step<'_>) -> usize {
    let rows = match val.rows {
        Rows::Tokens => step.tokens.len(),
        Rows::Outputs => step.outputs.len(),
    };
    rows * val.cols as usize
}
