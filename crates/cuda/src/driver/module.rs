//! Compiled kernels and their launches.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{result, sys};
use program::Result;

use super::{Context, fault, while_doing};

/// How many blocks a kernel runs in, and how large they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Blocks in each dimension.
    pub(crate) blocks: [u32; 3],
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Bytes of shared memory of a block whose size is not known to the compiler.
    pub(crate) shared: u32,
    /// Blocks along the second dimension that form a cluster; 1: none do.
    pub(crate) cluster: u32,
}

/// When a kernel may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// When the one before has ended.
    After,
    /// While the one before ends: it waits by itself before it touches what others write.
    Overlapping,
}

/// A loaded cubin.
#[derive(Debug)]
pub(crate) struct Module {
    context: Arc<Context>,
    module: sys::CUmodule,
}

// SAFETY: the driver lets any thread use a module whose context it has entered.
unsafe impl Send for Module {}
// SAFETY: as above; nothing changes a module.
unsafe impl Sync for Module {}

/// A kernel of a loaded cubin.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    module: Arc<Module>,
    function: sys::CUfunction,
}

// SAFETY: the driver lets any thread use a function whose context it has entered.
unsafe impl Send for Function {}

impl Module {
    /// Loads a cubin that was made for this GPU.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub(crate) fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Arc<Module>> {
        // SAFETY: the image is a whole cubin, whose header says how long it is; the driver copies it.
        let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
            .map_err(while_doing("loading a compiled kernel"))?;
        Ok(Arc::new(Module { context: context.clone(), module }))
    }

    /// The kernel `entry`.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn function(self: &Arc<Module>, entry: &str) -> Result<Function> {
        let name = CString::new(entry).map_err(|_| fault("a kernel's name has a zero byte"))?;
        // SAFETY: the module is loaded as long as `self` lives, and the function holds it.
        let function = unsafe { result::module::get_function(self.module, name) }
            .map_err(while_doing(format!("looking for the kernel {entry}")))?;
        Ok(Function { module: self.clone(), function })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: no function of it is alive any more, since each holds the module.
        let _ = unsafe { result::module::unload(self.module) };
    }
}

impl Function {
    /// Lets a launch have up to `bytes` of shared memory beside what the compiler knows of.
    ///
    /// # Errors
    /// If a block cannot have so much.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<()> {
        let most = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function's module is loaded as long as `self` lives.
        unsafe { result::function::set_function_attribute(self.function, most, bytes as i32) }
            .map_err(while_doing(format!("giving a kernel {bytes} bytes of shared memory")))
    }

    /// Starts the kernel, or records it if a graph is being captured. `params` are the bytes of its one argument.
    ///
    /// # Errors
    /// If the driver refuses; errors of the kernel itself come later.
    pub(crate) fn launch(&self, grid: Grid, order: Order, params: &[u8]) -> Result<()> {
        let [x, y, z] = grid.blocks;
        // The driver copies argument and attributes before it returns.
        let mut arguments = [params.as_ptr().cast_mut().cast()];
        let mut attributes = Vec::new();
        if grid.cluster > 1 {
            attributes.push(attribute(
                sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                |value| {
                    // SAFETY: the field that goes with the attribute's kind.
                    let dims = unsafe { &mut value.clusterDim };
                    (dims.x, dims.y, dims.z) = (1, grid.cluster, 1);
                },
            ));
        }
        if order == Order::Overlapping {
            attributes.push(attribute(
                sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                |value| value.programmaticStreamSerializationAllowed = 1,
            ));
        }
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared,
            hStream: self.module.context.stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        // SAFETY: every kernel of this crate takes one struct, which the lists of launches lay out byte by byte; its
        // addresses are those of buffers that live as long as the device.
        unsafe {
            sys::cuLaunchKernelEx(&config, self.function, arguments.as_mut_ptr(), ptr::null_mut()).result()
        }
        .map_err(while_doing("launching a kernel"))
    }
}

/// A launch attribute; `set` fills the field that belongs to `kind`.
fn attribute(
    kind: sys::CUlaunchAttributeID,
    set: impl FnOnce(&mut sys::CUlaunchAttributeValue),
) -> sys::CUlaunchAttribute {
    // SAFETY: the struct is plain numbers and pointers, for which zero is a value.
    let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
    attribute.id = kind;
    set(&mut attribute.value);
    attribute
}
