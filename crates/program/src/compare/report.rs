//! What an operation-by-operation comparison found.

use std::fmt;

use super::Answers;
use super::routing::Choice;
use crate::{Answer, ModelSpec, Op, Role, Val, distance, text};

/// The result of each operation of a program, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// One entry an operation.
    pub differences: Vec<Difference>,
}

/// How far one operation of the other device is from the reference, given the same inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The operation's index in the program.
    pub index: usize,
    /// Its name.
    pub op: &'static str,
    /// The operation as [`text::op`] writes it: values, weights by name, shapes, numbers.
    pub text: String,
    /// The names of its weights.
    pub weights: Vec<String>,
    /// The largest relative error (Frobenius norm over all rows) of the values it makes. For a router the
    /// gap of the worst different choice, if that is larger; infinite for another token. NaN if the other
    /// device gave one.
    pub error: f64,
    /// The row that is furthest off, if the operation makes a value.
    pub worst: Option<Worst>,
    /// Rows for which a router chose other experts.
    pub choices: Vec<Choice>,
}

/// A row, and what lies around its worst column.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// The value's id.
    pub value: u32,
    /// The row.
    pub row: usize,
    /// How many rows the value has.
    pub rows: usize,
    /// The relative error of the row.
    pub error: f64,
    /// The column that is furthest off.
    pub column: usize,
    /// The first of the columns shown.
    pub first_column: usize,
    /// What the other device gave in these columns.
    pub got: Vec<f32>,
    /// What the reference gave.
    pub want: Vec<f32>,
}

/// A value on both devices.
pub(super) struct Both {
    pub(super) val: Val,
    pub(super) got: Vec<f32>,
    pub(super) want: Vec<f32>,
}

/// Columns shown on each side of the worst.
const AROUND: usize = 2;

impl Both {
    fn error(&self) -> f64 {
        match self.val.role {
            Role::Index if self.got != self.want => f64::INFINITY,
            Role::Index => 0.0,
            Role::Stream | Role::Activation | Role::Logits => distance::relative(&self.got, &self.want),
        }
    }

    fn worst(&self) -> Option<Worst> {
        let cols = self.val.cols as usize;
        let rows = self.got.chunks_exact(cols).zip(self.want.chunks_exact(cols));
        let errors = rows.map(|(got, want)| distance::relative(got, want)).enumerate();
        let (row, error) = errors.reduce(|worst, row| if exceeds(row.1, worst.1) { row } else { worst })?;
        let (got, want) = (&self.got[row * cols..][..cols], &self.want[row * cols..][..cols]);
        let column = distance::worst_column(got, want);
        let shown = column.saturating_sub(AROUND)..(column + AROUND + 1).min(cols);
        Some(Worst {
            value: self.val.id,
            row,
            rows: self.want.len() / cols,
            error,
            column,
            first_column: shown.start,
            got: got[shown.clone()].to_vec(),
            want: want[shown].to_vec(),
        })
    }
}

/// Whether `error` is more than `bound`; NaN is more than any number.
fn exceeds(error: f64, bound: f64) -> bool {
    error > bound || error.is_nan() && !bound.is_nan()
}

/// Tokens, scores and logits that came of `logits`, as values of their own.
pub(super) fn answers(logits: Val, got: &Answers, want: &Answers) -> Vec<Both> {
    let column = |role| Val { cols: 1, role, ..logits };
    let tokens = |answers: &Answers| {
        let token = |answer: &Answer| match answer {
            Answer::Token(token) => Some(*token as f32),
            Answer::NotFinite => Some(f32::NAN),
            Answer::Score(_) | Answer::Logits(_) => None,
        };
        answers.answers.iter().filter_map(token).collect()
    };
    let scores = |answers: &Answers| {
        let score = |answer: &Answer| match answer {
            Answer::Score(score) => Some(*score),
            _ => None,
        };
        answers.answers.iter().filter_map(score).collect()
    };
    vec![
        Both { val: column(Role::Index), got: tokens(got), want: tokens(want) },
        Both { val: column(Role::Logits), got: scores(got), want: scores(want) },
        Both { val: logits, got: got.logits.clone(), want: want.logits.clone() },
    ]
}

impl Difference {
    /// No difference yet.
    pub(super) fn new(index: usize, op: &Op, model: &ModelSpec) -> Difference {
        Difference {
            index,
            op: op.name(),
            text: text::op(op, model),
            weights: op.weights().iter().map(|id| text::weight_name(model.weight(*id))).collect(),
            error: 0.0,
            worst: None,
            choices: Vec::new(),
        }
    }

    pub(super) fn with_choices(mut self, choices: Vec<Choice>) -> Difference {
        self.error = choices.iter().map(|choice| f64::from(choice.gap)).fold(self.error, f64::max);
        self.choices = choices;
        self
    }

    pub(super) fn with_values(mut self, values: &[Both]) -> Difference {
        for value in values {
            let error = value.error();
            if exceeds(error, self.error) {
                self.error = error;
            }
            let worst = value.worst();
            let before = self.worst.as_ref().map_or(f64::NEG_INFINITY, |worst| worst.error);
            if worst.as_ref().is_some_and(|worst| exceeds(worst.error, before)) {
                self.worst = worst;
            }
        }
        self
    }
}

impl Report {
    /// The first operation whose error is larger than `tolerance`, or not a number.
    pub fn first_difference(&self, tolerance: f64) -> Option<&Difference> {
        self.differences.iter().find(|difference| exceeds(difference.error, tolerance))
    }

    /// The largest error of all operations.
    pub fn largest_error(&self) -> f64 {
        let errors = self.differences.iter().map(|difference| difference.error);
        errors.fold(0.0, |largest, error| if exceeds(error, largest) { error } else { largest })
    }
}

/// A table with one line an operation.
impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{:>5}  {:<12}  {:>8}  {:>17}  weights", "op", "name", "error", "worst row")?;
        for difference in &self.differences {
            let worst = match &difference.worst {
                Some(worst) => format!("{:.1e} in {:>5}", worst.error, worst.row),
                None => String::new(),
            };
            writeln!(
                formatter,
                "{:>5}  {:<12}  {:>8}  {worst:>17}  {}",
                difference.index,
                difference.op,
                format!("{:.1e}", difference.error),
                difference.weights.join(", ")
            )?;
        }
        Ok(())
    }
}

/// The operation with its weights and shapes, and the numbers around the worst one.
impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "operation {} is off by {:.1e}: {}", self.index, self.error, self.text)?;
        if let Some(worst) = &self.worst {
            writeln!(
                formatter,
                "  v{}, row {} of {} is off by {:.1e}; columns from {} on:",
                worst.value, worst.row, worst.rows, worst.error, worst.first_column
            )?;
            let numbers = |numbers: &[f32]| numbers.iter().map(|x| format!("{x:>14.6e}")).collect::<String>();
            writeln!(formatter, "    got    {}", numbers(&worst.got))?;
            writeln!(formatter, "    needed {}", numbers(&worst.want))?;
        }
        for choice in &self.choices {
            writeln!(
                formatter,
                "  row {} chose experts {:?}, needed {:?}: {:.1e} apart",
                choice.row, choice.other, choice.reference, choice.gap
            )?;
        }
        Ok(())
    }
}
