//! Memory of the device, and memory of the host that the device can reach.

use std::ops::Add;
use std::slice;
use std::sync::Arc;

use cudarc::driver::{result, sys};
use program::Result;

use super::{Context, fault, while_doing};

/// A place in the device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) u64);

impl Address {
    /// No place: kernels test for it.
    pub(crate) const NULL: Address = Address(0);
}

impl Add<usize> for Address {
    type Output = Address;

    /// The place so many bytes further on.
    fn add(self, bytes: usize) -> Address {
        Address(self.0 + bytes as u64)
    }
}

/// A block of the device's memory. It never moves.
#[derive(Debug)]
pub(crate) struct Buffer {
    context: Arc<Context>,
    address: sys::CUdeviceptr,
    bytes: usize,
}

impl Buffer {
    /// A block of `bytes` bytes of any content.
    ///
    /// # Errors
    /// If there is not so much memory left: how much is missing.
    pub(crate) fn new(context: &Arc<Context>, bytes: usize) -> Result<Buffer> {
        let bytes = bytes.max(256);
        // SAFETY: the block is freed when this is dropped, and its content is written before it is read.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(address) => Ok(Buffer { context: context.clone(), address, bytes }),
            Err(error) => {
                let free = context.memory().map_or(0, |(free, _)| free);
                let said = format!("{bytes} bytes were asked of the GPU's memory, {free} are free");
                Err(while_doing(said)(error))
            }
        }
    }

    /// A block of zeros.
    ///
    /// # Errors
    /// As [`Buffer::new`].
    pub(crate) fn zeros(context: &Arc<Context>, bytes: usize) -> Result<Buffer> {
        let buffer = Buffer::new(context, bytes)?;
        // SAFETY: the block has as many bytes.
        unsafe { result::memset_d8_async(buffer.address, 0, buffer.bytes, context.stream()) }
            .map_err(while_doing("clearing memory"))?;
        Ok(buffer)
    }

    /// Where it begins; at a multiple of 256.
    pub(crate) fn address(&self) -> Address {
        Address(self.address)
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Writes `from` at byte `start`, after all that was started and before what will be; the host waits until
    /// `from` was read.
    ///
    /// # Errors
    /// If it does not fit, or the driver refuses.
    pub(crate) fn write(&self, start: usize, from: &[u8]) -> Result<()> {
        self.check(start, from.len())?;
        // SAFETY: the range is within the block; `from` is pageable, so that the driver has read it on return.
        unsafe { result::memcpy_htod_async(self.address + start as u64, from, self.context.stream()) }
            .map_err(while_doing("copying to the GPU"))?;
        self.context.synchronize()
    }

    /// Reads numbers from number `start` on, after all that was started.
    ///
    /// # Errors
    /// If there are not so many, or the driver refuses.
    pub(crate) fn read_floats(&self, start: usize, to: &mut [f32]) -> Result<()> {
        self.check(start * 4, size_of_val(to))?;
        // SAFETY: the range is within the block, `to` outlives the wait below, and any bits are an `f32`.
        unsafe { result::memcpy_dtoh_async(to, self.address + start as u64 * 4, self.context.stream()) }
            .map_err(while_doing("copying from the GPU"))?;
        self.context.synchronize()
    }

    /// Writes numbers at number `start`, after all that was started and before what will be.
    ///
    /// # Errors
    /// If they do not fit, or the driver refuses.
    pub(crate) fn write_floats(&self, start: usize, from: &[f32]) -> Result<()> {
        self.check(start * 4, size_of_val(from))?;
        // SAFETY: the range is within the block; `from` is pageable, so that the driver has read it on return.
        unsafe { result::memcpy_htod_async(self.address + start as u64 * 4, from, self.context.stream()) }
            .map_err(while_doing("copying to the GPU"))?;
        self.context.synchronize()
    }

    /// Starts writing bytes of a pinned block; they must not change before the stream has passed this point.
    ///
    /// # Errors
    /// If they do not fit, or the driver refuses.
    pub(crate) fn start_write(
        &self,
        start: usize,
        from: &Pinned,
        from_start: usize,
        bytes: usize,
    ) -> Result<()> {
        self.check(start, bytes)?;
        let from = &from.bytes()[from_start..from_start + bytes];
        // SAFETY: both ranges are within their blocks, which live as long as the device.
        unsafe { result::memcpy_htod_async(self.address + start as u64, from, self.context.stream()) }
            .map_err(while_doing("copying to the GPU"))
    }

    /// Starts reading bytes into a pinned block.
    ///
    /// # Errors
    /// If there are not so many, or the driver refuses.
    pub(crate) fn start_read(
        &self,
        start: usize,
        to: &mut Pinned,
        to_start: usize,
        bytes: usize,
    ) -> Result<()> {
        self.check(start, bytes)?;
        let to = &mut to.bytes_mut()[to_start..to_start + bytes];
        // SAFETY: both ranges are within their blocks, which live as long as the device.
        unsafe { result::memcpy_dtoh_async(to, self.address + start as u64, self.context.stream()) }
            .map_err(while_doing("copying from the GPU"))
    }

    fn check(&self, start: usize, bytes: usize) -> Result<()> {
        if start + bytes > self.bytes {
            return Err(fault(format!("{bytes} bytes from {start} on are not within {}", self.bytes)));
        }
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Kernels that use it may be under way. Failures cannot be told to anyone.
        let _ = self.context.enter();
        let _ = self.context.synchronize();
        // SAFETY: the block was given by the driver, and nothing uses it any more.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// A block of the host's memory that the device reads and writes by itself.
#[derive(Debug)]
pub(crate) struct Pinned {
    context: Arc<Context>,
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the block belongs to this value alone, and the driver lets any thread free it.
unsafe impl Send for Pinned {}

impl Pinned {
    /// A block of zeros.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn zeros(context: &Arc<Context>, bytes: usize) -> Result<Pinned> {
        let bytes = bytes.max(256);
        // SAFETY: freed when this is dropped; cleared below before anything reads it.
        let start = unsafe { result::malloc_host(bytes, 0) }
            .map_err(while_doing(format!("pinning {bytes} bytes of memory")))?
            .cast::<u8>();
        // SAFETY: the driver gave a block of `bytes` bytes.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Pinned { context: context.clone(), start, bytes })
    }

    /// Where the device finds it.
    pub(crate) fn address(&self) -> Address {
        Address(self.start as u64)
    }

    /// What it holds. Bytes that the device is writing may be old or new.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the block has as many bytes, all of them written when it was made.
        unsafe { slice::from_raw_parts(self.start, self.bytes) }
    }

    /// What it holds, as words.
    pub(crate) fn words(&self) -> &[u32] {
        // SAFETY: as above; the driver aligns blocks to pages, and any bits are a word.
        unsafe { slice::from_raw_parts(self.start.cast(), self.bytes / 4) }
    }

    /// What it holds, as numbers.
    pub(crate) fn floats(&self) -> &[f32] {
        // SAFETY: as above; any bits are an `f32`.
        unsafe { slice::from_raw_parts(self.start.cast(), self.bytes / 4) }
    }

    /// What it holds, as words to be changed.
    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start.cast(), self.bytes / 4) }
    }

    /// What it holds, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.context.enter();
        let _ = self.context.synchronize();
        // SAFETY: the block was given by the driver, and nothing uses it any more.
        let _ = unsafe { result::free_host(self.start.cast()) };
    }
}
