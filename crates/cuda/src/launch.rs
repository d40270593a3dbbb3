//! A step as the device sees it: a list of launches.

use program::Result;

use crate::driver::{Address, Function, Grid, Order};
use crate::kernel::Kernel;

/// One kernel with its grid and its argument.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The index of the operation that it belongs to.
    pub(crate) op: usize,
    pub(crate) kernel: Kernel,
    pub(crate) grid: Grid,
    pub(crate) params: Params,
}

/// The bytes of a kernel's argument, a C struct: fields in their order, each aligned to its size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Vec<u8>);

impl Params {
    pub(crate) fn new() -> Params {
        Params::default()
    }

    /// A pointer.
    pub(crate) fn address(mut self, address: Address) -> Params {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(address.0.to_le_bytes());
        self
    }

    /// A `u32`.
    pub(crate) fn word(mut self, word: u32) -> Params {
        self.0.extend(word.to_le_bytes());
        self
    }

    /// A `float`.
    pub(crate) fn float(self, float: f32) -> Params {
        self.word(float.to_bits())
    }

    /// A struct with pointers in it.
    pub(crate) fn bytes_of(mut self, bytes: &[u8]) -> Params {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(bytes);
        self
    }

    /// The struct, its length a multiple of a pointer's.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }
}

/// Starts launches in their order; `function` finds a kernel that was loaded. Where kernels overlap, each may start while
/// the one before it ends.
///
/// # Errors
/// If the driver refuses one.
pub(crate) fn start(
    launches: &[Launch],
    order: Order,
    function: impl Fn(&Kernel) -> Result<Function>,
) -> Result<()> {
    let mut this = Order::After;
    for launch in launches {
        function(&launch.kernel)?.launch(launch.grid, this, &launch.params.bytes())?;
        this = order;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_a_c_compiler_puts_them() {
        let params = Params::new().word(1).address(Address(2)).float(1.0).word(3).word(4);
        let bytes = params.bytes();
        assert_eq!(bytes.len(), 32);
        assert_eq!(bytes[..4], 1_u32.to_le_bytes());
        assert_eq!(bytes[8..16], 2_u64.to_le_bytes());
        assert_eq!(bytes[16..20], 1.0_f32.to_le_bytes());
        assert_eq!(bytes[20..24], 3_u32.to_le_bytes());
        assert_eq!(bytes[24..28], 4_u32.to_le_bytes());
    }
}
