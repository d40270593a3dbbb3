//! Bars on stderr, hidden where stderr is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that counts bytes.
pub(crate) fn bytes(what: &'static str, total: u64) -> ProgressBar {
    bar(what, total, "{prefix} {bar:40} {bytes} of {total_bytes} {msg}")
}

/// A bar that counts tokens.
pub(crate) fn tokens(what: &'static str, total: u64) -> ProgressBar {
    bar(what, total, "{prefix} {bar:40} {pos} of {len} tokens, {per_sec}, {eta} left {msg}")
}

fn bar(what: &'static str, total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style).with_prefix(what)
}
