//! One program on a device under test and on the reference, and how their rows are compared.

use super::batch::Batch;
use super::{Check, TOLERANCE};
use crate::reference::Reference;
use crate::{
    CacheSize, CacheSpec, Device, Error, Format, HostTensor, Op, Options, Program, ProgramId, Role, Rows,
    Size, Val, WeightId,
};

/// What a device needs before it can run a program.
#[derive(Clone, Default)]
pub(super) struct Setup {
    pub(super) ops: Vec<Op>,
    /// Each part of each weight.
    pub(super) weights: Vec<(WeightId, u32, HostTensor)>,
    pub(super) caches: Vec<CacheSpec>,
}

/// The pages that trials reserve, the scratch page included.
pub(super) const PAGES: u32 = 24;

/// The sequences that trials may have.
const SLOTS: u32 = 8;

/// The largest step of a trial, so that every number of rows runs through one prepared program.
pub(super) const SIZE: Size = Size { tokens: 160, outputs: 160, sequences: SLOTS };

/// A device with one program prepared.
pub(super) struct Prepared {
    pub(super) device: Box<dyn Device>,
    pub(super) program: Program,
    pub(super) id: ProgramId,
}

/// The rows of one value.
pub(super) type Values = (Val, Vec<f32>);

impl Prepared {
    /// Uploads, reserves and prepares.
    pub(super) fn new(mut device: Box<dyn Device>, setup: &Setup) -> Result<Prepared, String> {
        for (id, part, tensor) in &setup.weights {
            device.upload(*id, *part, tensor.clone()).map_err(said("upload"))?;
        }
        device.reserve(&setup.caches, CacheSize { pages: PAGES, slots: SLOTS }).map_err(said("reserve"))?;
        let program = Program::of(&setup.ops);
        let options = Options { size: SIZE, keep_all: false };
        let id = device.prepare(&program, &options).map_err(said("prepare"))?;
        Ok(Prepared { device, program, id })
    }

    /// Writes the inputs, runs one step, and reads all results.
    pub(super) fn run(&mut self, batch: &Batch, inputs: &[Values]) -> Result<Vec<Values>, String> {
        for (val, rows) in inputs {
            self.device.write(self.id, *val, rows).map_err(said("write"))?;
        }
        let ticket = self.device.submit(self.id, &batch.step()).map_err(said("submit"))?;
        self.device.wait(ticket).map_err(said("wait"))?;
        let mut results = Vec::new();
        for val in self.program.results.clone() {
            let rows = match val.rows {
                Rows::Tokens => batch.tokens.len(),
                Rows::Outputs => batch.outputs.len(),
            };
            let mut numbers = vec![f32::NAN; rows * val.cols as usize];
            self.device.read(self.id, val, &mut numbers).map_err(said("read"))?;
            results.push((val, numbers));
        }
        Ok(results)
    }
}

/// Names the call that an error came from.
pub(super) fn said(call: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{call} failed: {error}")
}

/// The same program on the device under test and on the reference.
pub(super) struct Trial {
    pub(super) device: Prepared,
    reference: Prepared,
    /// The inputs that go into caches, with the format of their part.
    cached: Vec<(Val, Format)>,
}

impl Trial {
    pub(super) fn new(device: Box<dyn Device>, setup: &Setup) -> Result<Trial, String> {
        let reference = Prepared::new(Box::new(Reference::new()), setup)?;
        let format = |op: &Op| match op {
            Op::CacheWrite { x, cache, part } => {
                Some((x.val, setup.caches[cache.0 as usize].parts[*part as usize].format))
            }
            _ => None,
        };
        let cached = setup.ops.iter().filter_map(format).collect();
        Ok(Trial { device: Prepared::new(device, setup)?, reference, cached })
    }

    /// Runs one step on both and compares all results by [`TOLERANCE`].
    pub(super) fn compare(&mut self, batch: &Batch, inputs: &[Values]) -> Check {
        let got = self.device.run(batch, inputs)?;
        same_values(&got, &self.want(batch, inputs)?, TOLERANCE)
    }

    /// Runs one step on the reference alone. Its caches hold `f32`: it is given rows that have been through
    /// the format of their cache already, while the device gets them as they are.
    pub(super) fn want(&mut self, batch: &Batch, inputs: &[Values]) -> Result<Vec<Values>, String> {
        let stored = |(val, rows): &Values| match self.cached.iter().find(|(cached, _)| cached == val) {
            Some((_, format)) => (*val, format.stored(rows)),
            None => (*val, rows.clone()),
        };
        let inputs: Vec<Values> = inputs.iter().map(stored).collect();
        self.reference.run(batch, &inputs)
    }
}

/// Compares results value by value; whole numbers must be equal.
pub(super) fn same_values(got: &[Values], want: &[Values], tolerance: f64) -> Check {
    for ((val, got), (_, want)) in got.iter().zip(want) {
        let tolerance = if val.role == Role::Index { 0.0 } else { tolerance };
        same_rows(got, want, val.cols as usize, tolerance)
            .map_err(|what| format!("value {}: {what}", val.id))?;
    }
    Ok(())
}

/// Compares row by row: the norm of the difference over the norm of the wanted row.
pub(super) fn same_rows(got: &[f32], want: &[f32], cols: usize, tolerance: f64) -> Check {
    if got.len() != want.len() {
        return Err(format!("{} numbers, needed {}", got.len(), want.len()));
    }
    let rows = want.len() / cols;
    for (row, (got, want)) in got.chunks_exact(cols).zip(want.chunks_exact(cols)).enumerate() {
        let error = relative_error(got, want);
        // NaN is no error below any tolerance.
        if error.is_nan() || error > tolerance {
            let column = worst_column(got, want);
            return Err(format!(
                "row {row} of {rows} is off by {error:.1e} (allowed {tolerance:.0e}); at column {column} it \
                 is {}, needed {}",
                got[column], want[column]
            ));
        }
    }
    Ok(())
}

/// The norm of the difference over the norm of what is wanted, or over 1e-20 where that is smaller.
fn relative_error(got: &[f32], want: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let difference: f64 =
        got.iter().zip(want).map(|(got, want)| square(f64::from(*got) - f64::from(*want))).sum();
    let norm: f64 = want.iter().map(|want| square(f64::from(*want))).sum();
    difference.sqrt() / norm.sqrt().max(1e-20)
}

fn worst_column(got: &[f32], want: &[f32]) -> usize {
    let distance = |column: usize| (got[column] - want[column]).abs();
    let further = |best: usize, column: usize| {
        if distance(best).is_nan() || distance(column) <= distance(best) { best } else { column }
    };
    (0..want.len()).fold(0, further)
}

/// A value with as many rows as the step has tokens.
pub(super) fn val(id: u32, cols: u32) -> Val {
    Val { id, rows: Rows::Tokens, cols, role: Role::Activation }
}
