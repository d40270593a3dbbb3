//! The suite that any [`Device`] must pass: random data through every operation, against the reference.
//!
//! A device's own test makes one list of failures out of it:
//!
//! ```no_run
//! use program::conformance;
//! use program::reference::Reference;
//!
//! let failures = conformance::failures(&conformance::cases(), &mut || Box::new(Reference::new()));
//! assert!(failures.is_empty(), "{}", failures.join("\n"));
//! ```
//!
//! [`cases`] are for all devices; [`cache_formats`] for those that store caches as their format says (the
//! reference does not); [`row_invariance`] for those that claim that the bits of a row depend on nothing
//! but its own sequence: the same steps again, each row computed alone as well.
//!
//! What the suite cannot see is an error that a device and the reference share: that takes golden values.

mod answers;
mod attention;
mod batch;
mod cache_formats;
mod elementwise;
mod experts;
mod linear;
mod models;
mod prepared;
mod refusals;
mod sample;
mod steps;
mod trial;

pub use sample::{Architecture, KNOWN, Sample, VOCAB};

use crate::{Device, Format};
use trial::{Standard, Subject};

/// How far a row of any value may lie from the reference's, relative to its norm.
///
/// A device may hold activations and caches as f16 or as 13-bit integers and multiply in f16 with f32 sums.
/// Rounding all inputs to 11 bits moves a row by 2^-11 / sqrt(3) = 2.8e-4 of its norm; a few such
/// roundings in a row stay below 1e-3, and a wrong index, sign or scale is far above 2e-3.
pub const TOLERANCE: f64 = 2e-3;

/// How far what a choice is made from (gates, log-probabilities) may lie from the reference's: these are
/// `f32` everywhere, and the tolerance leaves room for approximations of exp and for another order of sums.
pub const EXACT: f64 = 2e-5;

/// What makes a device afresh: each case starts with an empty one.
pub type Make<'a> = &'a mut dyn FnMut() -> Box<dyn Device>;

/// What a case found: nothing, or what differs.
pub type Check = Result<(), String>;

/// One thing that a device must do right.
pub struct Case {
    name: String,
    standard: Standard,
    check: Box<dyn Fn(&mut Subject<'_>) -> Check>,
}

impl Case {
    fn new(name: impl Into<String>, check: impl Fn(&mut Subject<'_>) -> Check + 'static) -> Case {
        Case { name: name.into(), standard: Standard::Reference, check: Box::new(check) }
    }

    /// The same steps, the device being compared with itself.
    fn against_itself(self) -> Case {
        Case { name: format!("{} (rows alone)", self.name), standard: Standard::Itself, ..self }
    }

    /// The operation first, then what is special about it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the case on devices of its own.
    ///
    /// # Errors
    /// What differs, with the row and the numbers.
    pub fn check(&self, make: Make<'_>) -> Check {
        (self.check)(&mut Subject { make, standard: self.standard })
    }
}

/// Runs `cases` one after the other and gives a line for each that failed, its name first.
pub fn failures(cases: &[Case], make: Make<'_>) -> Vec<String> {
    let failure = |case: &Case| case.check(make).err().map(|what| format!("{}: {what}", case.name));
    cases.iter().filter_map(failure).collect()
}

/// What every device must do.
pub fn cases() -> Vec<Case> {
    [results(), models::cases(), answers::cases(), steps::cases(), refusals::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// What a device must do that stores caches as their format says.
pub fn cache_formats() -> Vec<Case> {
    cache_formats::cases()
}

/// What a device must do whose rows depend on nothing but their own sequence: not on other rows or sequences
/// of the step, not on how a prompt is cut into steps, not on the order of pages. Compared bit by bit.
pub fn row_invariance() -> Vec<Case> {
    let mut cases = results();
    cases.extend(models::invariant_cases(Format::F16));
    for format in cache_formats::quantised() {
        cases.extend(attention::cases(format));
        cases.extend(models::invariant_cases(format));
    }
    cases.into_iter().map(Case::against_itself).collect()
}

/// The cases that compare the results of single operations.
fn results() -> Vec<Case> {
    [elementwise::cases(), linear::cases(), experts::cases(), attention::cases(Format::F16)]
        .into_iter()
        .flatten()
        .collect()
}

/// Numbers of rows on both sides of where devices change their way: one row, a few, a tile, a page.
const ROWS: [u32; 8] = [1, 2, 3, 16, 17, 63, 64, 65];
