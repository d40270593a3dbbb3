//! The reference passes the suite that it defines.

use program::conformance;
use program::reference::Reference;

#[test]
fn the_reference_passes_its_own_suite() {
    let failures = conformance::failures(&conformance::cases(), &mut || Box::new(Reference::new()));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
