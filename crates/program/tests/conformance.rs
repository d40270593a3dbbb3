//! The reference passes the suite that it defines.

use program::conformance::{self, Case};
use program::reference::Reference;

fn assert_passes(cases: &[Case]) {
    let failures = conformance::failures(cases, &mut || Box::new(Reference::new()));
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn the_reference_passes_its_own_suite() {
    assert_passes(&conformance::cases());
}

#[test]
fn the_rows_of_the_reference_depend_on_nothing_but_their_own_sequence() {
    let mut cases = conformance::row_invariance();
    // It holds all weights and caches as `f32`: other widths and formats would be the same steps again.
    cases.retain(|case| {
        let name = case.name();
        !name.contains("-bit cache") && (!name.starts_with("linear EXL3") || name.contains(" 4 bits mul1"))
    });
    assert_passes(&cases);
}
