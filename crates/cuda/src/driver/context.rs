//! One GPU: its context, its stream, and what it is.

use std::sync::Arc;

use cudarc::driver::{result, sys};
use program::Result;

use super::{fault, while_doing};

/// What a GPU is.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Its name: `NVIDIA H200`.
    pub(crate) name: String,
    /// Compute capability times ten: 90.
    pub(crate) arch: u32,
    /// Multiprocessors.
    pub(crate) processors: u32,
    /// Bytes of shared memory that one block can have.
    pub(crate) shared: u32,
}

/// A GPU that this process uses, with the one stream that everything runs on.
#[derive(Debug)]
pub(crate) struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    pub(crate) facts: Facts,
}

// SAFETY: the driver's contexts and streams may be used by any thread, one that calls `enter` first.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks what it shares.
unsafe impl Sync for Context {}

impl Context {
    /// Opens GPU number `index`.
    ///
    /// # Errors
    /// If there is no NVIDIA driver, no such GPU, or the driver refuses.
    pub(crate) fn open(index: u32) -> Result<Arc<Context>> {
        // SAFETY: only looks for the library by name and opens it.
        if !unsafe { sys::is_culib_present() } {
            return Err(fault("there is no NVIDIA driver on this machine (libcuda was not found)"));
        }
        result::init().map_err(while_doing("the NVIDIA driver cannot be used"))?;
        let count = result::device::get_count().map_err(while_doing("counting GPUs"))?;
        if i64::from(index) >= i64::from(count) {
            return Err(fault(format!("GPU {index} was asked for, there are {count}; they count from 0")));
        }
        let device = result::device::get(index as i32).map_err(while_doing("opening the GPU"))?;
        let name = result::device::get_name(device).map_err(while_doing("asking for the GPU's name"))?;
        let attribute = |attribute| {
            // SAFETY: `device` was given by the driver just now.
            unsafe { result::device::get_attribute(device, attribute) }
                .map(|value| value as u32)
                .map_err(while_doing("asking what the GPU is"))
        };
        use sys::CUdevice_attribute as Ask;
        let major = attribute(Ask::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Ask::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let facts = Facts {
            arch: major * 10 + minor,
            processors: attribute(Ask::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared: attribute(Ask::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            name,
        };
        if facts.arch < 75 {
            let found = format!("{} has compute capability {major}.{minor}", facts.name);
            return Err(fault(format!("{found}; 7.5 (Turing, 2018) or newer is needed")));
        }
        // SAFETY: `device` was given by the driver; the context is released when this is dropped.
        let context =
            unsafe { result::primary_ctx::retain(device) }.map_err(while_doing("opening a context"))?;
        // SAFETY: the context was given by the driver just now.
        unsafe { result::ctx::set_current(context) }.map_err(while_doing("entering the context"))?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(while_doing("making a stream"))?;
        Ok(Arc::new(Context { device, context, stream, facts }))
    }

    /// Makes the calling thread use this GPU.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as `self`.
        unsafe { result::ctx::set_current(self.context) }.map_err(while_doing("entering the context"))
    }

    /// Waits for all that was started.
    ///
    /// # Errors
    /// What went wrong on the GPU since the last time.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.stream) }.map_err(while_doing("waiting for the GPU"))
    }

    /// Bytes that are free and that there are.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn memory(&self) -> Result<(usize, usize)> {
        result::mem_get_info().map_err(while_doing("asking for the GPU's memory"))
    }

    pub(super) fn stream(&self) -> sys::CUstream {
        self.stream
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: both were made in `open`, and nothing that holds this context is alive any more. Failures cannot be
        // told to anyone.
        unsafe {
            let _ = result::ctx::set_current(self.context);
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}
