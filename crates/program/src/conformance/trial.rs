//! The device under test beside what it is compared with.

use super::batch::Batch;
use super::prepared::{Prepared, Setup, Values};
use super::{Check, Make, TOLERANCE};
use crate::reference::Reference;
use crate::{Format, Op, Role, Rows, Val, distance};

/// What a device is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standard {
    /// The reference, within a tolerance.
    Reference,
    /// The device itself, computing each row alone or each sequence alone, bit by bit.
    Itself,
}

/// The device under test.
pub(super) struct Subject<'a> {
    pub(super) make: Make<'a>,
    pub(super) standard: Standard,
}

impl Subject<'_> {
    /// The device and its standard, ready for steps.
    pub(super) fn trial(&mut self, setup: &Setup) -> Result<Trial, String> {
        let deterministic = self.standard == Standard::Itself;
        let setup = &Setup { deterministic, ..setup.clone() };
        let device = Prepared::new((self.make)(), setup)?;
        let standard = match self.standard {
            Standard::Reference => Box::new(Reference::new()),
            Standard::Itself => (self.make)(),
        };
        let twin = Prepared::new(standard, setup)?;
        let cached = match self.standard {
            Standard::Reference => cached(setup),
            Standard::Itself => Vec::new(),
        };
        Ok(Trial { device, twin, standard: self.standard, cached, tolerance: TOLERANCE })
    }
}

/// The inputs that go into caches, with the format of their part.
fn cached(setup: &Setup) -> Vec<(Val, Format)> {
    let format = |op: &Op| match op {
        Op::CacheWrite { x, cache, part } => {
            Some((x.val, setup.caches[cache.0 as usize].parts[*part as usize].format))
        }
        _ => None,
    };
    setup.programs.iter().flat_map(|program| &program.ops).filter_map(format).collect()
}

/// The same programs on the device under test and on its standard.
pub(super) struct Trial {
    pub(super) device: Prepared,
    twin: Prepared,
    pub(super) standard: Standard,
    cached: Vec<(Val, Format)>,
    /// How far a row may lie from the reference's.
    pub(super) tolerance: f64,
}

impl Trial {
    /// Runs one step and compares all results: with the reference's of the same step, or with what the
    /// device itself makes of one row after the other.
    pub(super) fn compare(&mut self, batch: &Batch, inputs: &[Values]) -> Check {
        let got = self.device.run(batch, inputs)?;
        let want = match self.standard {
            Standard::Reference => self.want(batch, inputs)?,
            Standard::Itself => self.row_by_row(batch, inputs)?,
        };
        self.same(&got, &want)
    }

    /// Runs one step on the standard alone. The caches of the reference hold `f32`: it is given rows that have
    /// been through the format of their cache already, while the device gets them as they are.
    pub(super) fn want(&mut self, batch: &Batch, inputs: &[Values]) -> Result<Vec<Values>, String> {
        let stored = |(val, rows): &Values| match self.cached.iter().find(|(cached, _)| cached == val) {
            Some((_, format)) => (*val, format.stored(rows)),
            None => (*val, rows.clone()),
        };
        let inputs: Vec<Values> = inputs.iter().map(stored).collect();
        self.twin.run(batch, &inputs)
    }

    /// The logits that the standard gives for all rows of one step without inputs.
    pub(super) fn want_logits(&mut self, batch: &Batch) -> Result<Vec<f32>, String> {
        Ok(self.twin.answers(batch, &[])?.1)
    }

    /// Compares results value by value; whole numbers must always be equal.
    pub(super) fn same(&self, got: &[Values], want: &[Values]) -> Check {
        for ((val, got), (_, want)) in got.iter().zip(want) {
            let cols = val.cols as usize;
            match (self.standard, val.role) {
                (Standard::Reference, Role::Index) => same_rows(got, want, cols, 0.0),
                (Standard::Reference, _) => same_rows(got, want, cols, self.tolerance),
                (Standard::Itself, _) => same_bits(got, want, cols),
            }
            .map_err(|what| format!("value {}: {what}", val.id))?;
        }
        Ok(())
    }

    /// Runs each row of `batch` as a step of its own, in their order.
    fn row_by_row(&mut self, batch: &Batch, inputs: &[Values]) -> Result<Vec<Values>, String> {
        let mut results: Vec<Values> = Vec::new();
        for row in 0..batch.tokens.len() as u32 {
            let of_row = |(val, rows): &Values| {
                let cols = val.cols as usize;
                (*val, rows[row as usize * cols..][..cols].to_vec())
            };
            let inputs: Vec<Values> = inputs.iter().map(of_row).collect();
            for (index, (val, rows)) in self.twin.run(&batch.row(row), &inputs)?.into_iter().enumerate() {
                if row == 0 {
                    results.push((val, Vec::new()));
                }
                results[index].1.extend(rows);
            }
        }
        for (val, rows) in &mut results {
            if val.rows == Rows::Outputs {
                *rows = batch.in_order_of_outputs(rows, val.cols as usize);
            }
        }
        Ok(results)
    }
}

/// Compares row by row.
pub(super) fn same_rows(got: &[f32], want: &[f32], cols: usize, tolerance: f64) -> Check {
    if got.len() != want.len() {
        return Err(format!("{} numbers, needed {}", got.len(), want.len()));
    }
    let rows = want.len() / cols;
    for (row, (got, want)) in got.chunks_exact(cols).zip(want.chunks_exact(cols)).enumerate() {
        let error = distance::relative(got, want);
        // NaN is no error below any tolerance.
        if error.is_nan() || error > tolerance {
            let column = distance::worst_column(got, want);
            return Err(format!(
                "row {row} of {rows} is off by {error:.1e} (allowed {tolerance:.0e}); at column {column} it \
                 is {}, needed {}",
                got[column], want[column]
            ));
        }
    }
    Ok(())
}

/// Compares bit by bit.
pub(super) fn same_bits(got: &[f32], want: &[f32], cols: usize) -> Check {
    match got.iter().zip(want).position(|(got, want)| got.to_bits() != want.to_bits()) {
        None if got.len() == want.len() => Ok(()),
        None => Err(format!("{} numbers, needed {}", got.len(), want.len())),
        Some(index) => Err(format!(
            "row {} of {}, column {}: {} and {} are not the same bits",
            index / cols,
            want.len() / cols,
            index % cols,
            got[index],
            want[index]
        )),
    }
}
