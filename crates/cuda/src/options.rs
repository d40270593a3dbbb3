//! How the device is opened.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::compile::find;

/// Which GPU, and where the compiler and its results lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CudaOptions {
    /// The GPU's number, from 0.
    pub gpu: u32,
    /// NVIDIA's compiler library (libnvrtc), or a folder that has it; looked for if none.
    pub nvrtc: Option<PathBuf>,
    /// Folders in which the library is looked for before the loader is asked.
    pub folders: Vec<PathBuf>,
    /// A folder for compiled kernels, shared by all processes; nothing is kept if none.
    pub cache: Option<PathBuf>,
}

impl CudaOptions {
    /// The GPU number `gpu`, the library where the environment hints at (the toolkit at `CUDA_PATH`, Python's packages),
    /// and compiled kernels in the user's cache. `variable` gives the value of an environment variable.
    pub fn from_variables(gpu: u32, variable: &dyn Fn(&str) -> Option<OsString>) -> CudaOptions {
        let cache_home = variable("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache_home.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")));
        CudaOptions {
            gpu,
            nvrtc: None,
            folders: find::folders(variable),
            cache: cache.map(|cache| cache.join("billfish/cubins")),
        }
    }
}
