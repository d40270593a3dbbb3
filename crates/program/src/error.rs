/// What can go wrong between recording a program and reading a step's outcome.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation was recorded with operands that do not fit together.
    #[error("{op}: {what}")]
    Shape {
        /// The operation, with the weight it was recorded for where it has one.
        op: String,
        /// What was found and what is needed.
        what: String,
    },
    /// A weight is absent, has another shape, or is stored in a way that its use does not allow.
    #[error("{name}: {what}")]
    Weight {
        /// The weight's name in the checkpoint.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A step's lists contradict each other or the caches reserved.
    #[error("the step is malformed: {0}")]
    Step(String),
    /// A device was called out of order (a program not prepared, a ticket already waited for, ...).
    #[error("{device}: {what}")]
    Use {
        /// The device's name.
        device: String,
        /// What was asked and why it cannot be done.
        what: String,
    },
    /// The codec refused a tensor.
    #[error(transparent)]
    Codec(#[from] exl3::Error),
}

/// A result whose error is this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
