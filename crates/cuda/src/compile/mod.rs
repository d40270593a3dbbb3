//! From a kernel to a cubin for one architecture: out of the cache, or compiled and put there.

mod cache;
#[cfg(test)]
mod every_kernel;
pub(crate) mod find;

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::thread;

use program::Result;

use crate::driver::{Nvrtc, fault};
use crate::kernel::Kernel;
use cache::CubinCache;

/// Compiles kernels; the library is opened when the first one is not in the cache.
#[derive(Debug)]
pub(crate) struct Compiler {
    given: Option<PathBuf>,
    folders: Vec<PathBuf>,
    cache: Option<CubinCache>,
    nvrtc: OnceLock<Nvrtc>,
}

impl Compiler {
    /// `given` is the library if the user said where it is, `folders` where to look otherwise, `cache` a folder for
    /// compiled kernels.
    pub(crate) fn new(given: Option<PathBuf>, folders: Vec<PathBuf>, cache: Option<PathBuf>) -> Compiler {
        let cache = cache.as_deref().map(CubinCache::new);
        Compiler { given, folders, cache, nvrtc: OnceLock::new() }
    }

    /// The cubins of `kernels` for `arch` (compute capability times ten), in their order.
    ///
    /// # Errors
    /// If there is no library and one is needed, a kernel does not compile, or the cache cannot be written.
    pub(crate) fn cubins(&self, kernels: &[Kernel], arch: u32) -> Result<Vec<Vec<u8>>> {
        let next = Mutex::new(0..kernels.len());
        let threads = thread::available_parallelism().map_or(1, usize::from).min(kernels.len());
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.lock().map_or(None, |mut next| next.next());
                let Some(index) = index else { return done };
                done.push((index, self.cubin(&kernels[index], arch)));
            }
        };
        let mut done: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        });
        if done.len() != kernels.len() {
            return Err(fault("a thread that compiled kernels panicked"));
        }
        done.sort_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, cubin)| cubin).collect()
    }

    fn cubin(&self, kernel: &Kernel, arch: u32) -> Result<Vec<u8>> {
        let (source, flags) = (kernel.source(), kernel.flags(arch));
        if let Some(cubin) = self.cache.as_ref().and_then(|cache| cache.get(&source, &flags)) {
            return Ok(cubin);
        }
        let nvrtc = match self.nvrtc.get() {
            Some(nvrtc) => nvrtc,
            None => {
                let opened = find::open(self.given.as_deref(), &self.folders)?;
                self.nvrtc.get_or_init(|| opened)
            }
        };
        let cubin = nvrtc.compile(&format!("{}.cu", kernel.file()), &source, &flags)?;
        if let Some(cache) = &self.cache {
            cache
                .put(&source, &flags, &cubin)
                .map_err(|error| fault(format!("cannot keep a compiled kernel in the cache: {error}")))?;
        }
        Ok(cubin)
    }
}
