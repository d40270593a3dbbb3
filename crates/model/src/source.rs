//! Where the numbers of a model come from.

use program::{Catalogue, HostTensor, Kind, Result};

/// Weights that can be looked up and read: a checkpoint, or numbers made up on the spot.
pub(crate) trait Source: Catalogue + Send + Sync {
    /// The host's copy of a weight.
    ///
    /// # Errors
    /// As [`Catalogue::storage`], and if its numbers are damaged.
    fn read(&self, name: &str, kind: Kind) -> Result<HostTensor>;
}
