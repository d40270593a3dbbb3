//! The compiler: NVIDIA's libnvrtc, opened from wherever it lies.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::{fs, ptr};

use libloading::Library;
use program::Result;

use super::fault;

/// A program being compiled, as the library sees it.
type Handle = *mut std::ffi::c_void;
type Create = unsafe extern "C" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// The opened library.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Bytes,
    cubin_size: Size,
    cubin: Bytes,
    destroy: Destroy,
    version: (c_int, c_int),
    /// Kept open: the functions lie in the first, which looks for the others by name.
    _libraries: Vec<Library>,
}

/// The built-in functions' libraries in the folder of `library`.
fn beside(library: &Path) -> Vec<PathBuf> {
    let entries =
        library.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let is_builtins = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libnvrtc-builtins.so") || name.starts_with("nvrtc-builtins64_")
    };
    entries.map(|entry| entry.path()).filter(is_builtins).collect()
}

impl Nvrtc {
    /// Opens the library at `path`, or by name where the loader looks; none if it is not there or no NVRTC.
    pub(crate) fn open(path: &OsStr) -> Option<Nvrtc> {
        // SAFETY: the library's initialisers run; it is NVIDIA's, or what the user gave as such. The types are those
        // of nvrtc.h, which has not changed them since CUDA 11.1.
        unsafe {
            let mut libraries = vec![Library::new(path).ok()?];
            let library = &libraries[0];
            let version_of: Version = *library.get("nvrtcVersion").ok()?;
            let mut version = (0, 0);
            if version_of(&mut version.0, &mut version.1) != 0 {
                return None;
            }
            let mut nvrtc = Nvrtc {
                create: *library.get("nvrtcCreateProgram").ok()?,
                compile: *library.get("nvrtcCompileProgram").ok()?,
                log_size: *library.get("nvrtcGetProgramLogSize").ok()?,
                log: *library.get("nvrtcGetProgramLog").ok()?,
                cubin_size: *library.get("nvrtcGetCUBINSize").ok()?,
                cubin: *library.get("nvrtcGetCUBIN").ok()?,
                destroy: *library.get("nvrtcDestroyProgram").ok()?,
                version,
                _libraries: Vec::new(),
            };
            // The compiler opens its built-in functions by name alone when it first compiles; where the loader would
            // not find them, it finds them open already.
            libraries
                .extend(beside(Path::new(path)).iter().filter_map(|builtins| Library::new(builtins).ok()));
            nvrtc._libraries = libraries;
            Some(nvrtc)
        }
    }

    /// Its version: `13.0`.
    pub(crate) fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Compiles `source` with `flags` into a cubin. Any thread may call it at any time.
    ///
    /// # Errors
    /// What the compiler says.
    pub(crate) fn compile(&self, name: &str, source: &str, flags: &[String]) -> Result<Vec<u8>> {
        let c_string =
            |text: &str| CString::new(text).map_err(|_| fault(format!("{name} has a zero byte in it")));
        let (c_name, source) = (c_string(name)?, c_string(source)?);
        let flags = flags.iter().map(|flag| c_string(flag)).collect::<Result<Vec<_>>>()?;
        let flags: Vec<*const c_char> = flags.iter().map(|flag| flag.as_ptr()).collect();
        let mut program: Handle = ptr::null_mut();
        // SAFETY: all strings live to the end of this function and end with a zero byte; the buffers are as long as
        // the library says; the program is destroyed once, at the end.
        unsafe {
            if (self.create)(&mut program, source.as_ptr(), c_name.as_ptr(), 0, ptr::null(), ptr::null()) != 0
            {
                return Err(fault(format!("NVRTC {} takes no program", self.version())));
            }
            let status = (self.compile)(program, flags.len() as c_int, flags.as_ptr());
            let result = if status == 0 {
                self.bytes(program, self.cubin_size, self.cubin)
                    .ok_or_else(|| format!("{name} gave no cubin"))
            } else {
                let log = self.bytes(program, self.log_size, self.log).unwrap_or_default();
                let log = CStr::from_bytes_until_nul(&log).map(|log| log.to_string_lossy().into_owned());
                let log = log.unwrap_or_default();
                Err(format!("NVRTC {} cannot compile {name} (status {status}): {log}", self.version()))
            };
            let _ = (self.destroy)(&mut program);
            result.map_err(fault)
        }
    }

    /// # Safety
    /// `program` must be alive, and `bytes` write as many as `size` says.
    unsafe fn bytes(&self, program: Handle, size: Size, bytes: Bytes) -> Option<Vec<u8>> {
        let mut len = 0;
        // SAFETY: the caller's promise.
        unsafe {
            if size(program, &mut len) != 0 || len == 0 {
                return None;
            }
            let mut buffer = vec![0; len];
            (bytes(program, buffer.as_mut_ptr().cast()) == 0).then_some(buffer)
        }
    }
}
