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
//! but its own sequence.
//!
//! What the suite cannot see is an error that a device and the reference share: that takes golden values.

mod attention;
mod batch;
mod elementwise;
mod experts;
mod linear;
mod trial;

use crate::Device;

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
    check: Box<dyn Fn(Make<'_>) -> Check>,
}

impl Case {
    fn new(name: impl Into<String>, check: impl Fn(Make<'_>) -> Check + 'static) -> Case {
        Case { name: name.into(), check: Box::new(check) }
    }

    /// The operation first, then what is special about it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the case on a device of its own.
    ///
    /// # Errors
    /// What differs, with the row and the numbers.
    pub fn check(&self, make: Make<'_>) -> Check {
        (self.check)(make)
    }
}

/// Runs `cases` one after the other and gives a line for each that failed, its name first.
pub fn failures(cases: &[Case], make: Make<'_>) -> Vec<String> {
    let failure = |case: &Case| case.check(make).err().map(|what| format!("{}: {what}", case.name));
    cases.iter().filter_map(failure).collect()
}

/// What every device must do.
pub fn cases() -> Vec<Case> {
    [elementwise::cases(), linear::cases(), experts::cases(), attention::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// Numbers of rows on both sides of where devices change their way: one row, a few, a tile, a page.
const ROWS: [u32; 8] = [1, 2, 3, 16, 17, 63, 64, 65];
