//! A model that is not here: every weight is there, as bf16, and has no numbers.

use program::{Catalogue, Dtype, Kind, Result, Storage};

use crate::block::{Names, tied};
use crate::config::Config;

/// The weights that a configuration describes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    tied: bool,
}

impl Published {
    /// The weights of a model with this configuration.
    pub(crate) fn new(config: &Config) -> crate::Result<Published> {
        Ok(Published { tied: tied(config)? })
    }
}

impl Catalogue for Published {
    fn storage(&self, _name: &str, _kind: Kind) -> Result<Storage> {
        Ok(Storage::Dense(Dtype::Bf16))
    }

    fn has(&self, name: &str) -> bool {
        name != Names::PLAIN.head || !self.tied
    }
}
