//! The driver: the only room of this crate with `unsafe`.
//!
//! Everything here keeps what it holds alive through its [`Context`], and hands out device addresses as plain numbers
//! ([`Address`]). A kernel launched with a wrong address damages device memory or ends in an error of the driver; it
//! cannot reach memory of the host but for [`Pinned`] blocks, which live as long as the device.

mod context;
mod graph;
mod memory;
mod module;
mod nvrtc;

pub(crate) use context::{Context, Facts};
pub(crate) use graph::{Event, Graph};
pub(crate) use memory::{Address, Buffer, Pinned};
pub(crate) use module::{Function, Grid, Module, Order};
pub(crate) use nvrtc::Nvrtc;

use cudarc::driver::DriverError;
use program::Error;

/// The device's name in errors that have no better one.
pub(crate) const NAME: &str = "cuda";

/// An error of this device.
pub(crate) fn fault(what: impl Into<String>) -> Error {
    Error::Use { device: NAME.into(), what: what.into() }
}

/// Says what was being done when the driver refused.
fn while_doing(what: impl Into<String>) -> impl FnOnce(DriverError) -> Error {
    let what = what.into();
    move |error| {
        let said = error
            .error_string()
            .map_or_else(|_| format!("{error:?}"), |text| text.to_string_lossy().into_owned());
        fault(format!("{what}: {said}"))
    }
}
