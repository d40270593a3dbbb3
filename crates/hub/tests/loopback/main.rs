//! Downloads from a small hub of this test's own, on a loopback address.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cached;
mod downloads;
mod interruptions;
mod offline;
mod refusals;
mod scratch;
