/// Why a request cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to predict from.
    #[error("the prompt has no tokens, and there is nothing to predict a first one from")]
    EmptyPrompt,
    /// The prompt alone fills more than the context.
    #[error(
        "the prompt has {prompt} tokens, the context holds {context}: shorten the one or enlarge the other"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens that a sequence can have cached.
        context: u32,
    },
    /// The prompt has a token that the model has no embedding of.
    #[error(
        "the prompt has token id {token}, the model knows {vocabulary}: it was made by another tokenizer"
    )]
    UnknownToken {
        /// The token.
        token: u32,
        /// Ids below this are known.
        vocabulary: u32,
    },
    /// As many answers wait as may.
    #[error("{waiting} answers wait already and {limit} may: try again later")]
    QueueFull {
        /// Answers that wait.
        waiting: usize,
        /// How many may.
        limit: usize,
    },
    /// Limits that a scheduler could not work within.
    #[error("{0}")]
    Limits(String),
    /// A step would take a sequence past its context.
    #[error("the sequence would have {needed} tokens, the context holds {context}")]
    ContextFull {
        /// Tokens after the step.
        needed: u32,
        /// Tokens that a sequence can have cached.
        context: u32,
    },
    /// All cache pages are taken.
    #[error("the step needs {needed} more cache pages, {free} are free: close a sequence first")]
    OutOfPages {
        /// Pages that one sequence lacks for its rows of the step.
        needed: usize,
        /// Pages that nobody owns.
        free: usize,
    },
    /// As many sequences are open as there are slots.
    #[error("all {slots} sequences are open already: close one first")]
    OutOfSlots {
        /// How many there are.
        slots: u32,
    },
    /// The model gave numbers that make no distribution over tokens.
    #[error(
        "the logits after {tokens} tokens are not finite: the weights are damaged, or a device computes wrongly \
         (`billfish verify` tells which operation)"
    )]
    NotFinite {
        /// Tokens of the sequence so far.
        tokens: u32,
    },
    /// What was asked for leaves no token to draw.
    #[error(
        "after {tokens} tokens every token is ruled out: relax logit biases, banned strings, penalties or the least \
         length"
    )]
    NothingLeft {
        /// Tokens of the sequence so far.
        tokens: u32,
    },
    /// The device refused or failed.
    #[error(transparent)]
    Device(#[from] program::Error),
}

/// A result whose error is this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
