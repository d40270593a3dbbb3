//! How a stream of tokens is cut into windows.

use std::ops::Range;

/// One window of a stream: rows read tokens `inputs`, and row `i` predicts token `inputs.start + i + 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Which tokens are read.
    pub(super) inputs: Range<usize>,
    /// The first row that counts: what the rows before it predict was counted in an earlier window.
    pub(super) first: usize,
}

/// Windows of up to `len` inputs that begin `stride` tokens apart (at most `len`) and together predict
/// each token of a stream from the second to number `predicted + 1` exactly once.
pub(super) fn windows(predicted: usize, len: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut counted) = (0, 0);
    while counted < predicted {
        let end = (start + len).min(predicted);
        windows.push(Window { inputs: start..end, first: counted - start });
        counted = end;
        start += stride;
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_without_overlap_lie_end_to_end_and_the_last_may_be_short() {
        let found: Vec<_> = windows(1100, 512, 512).into_iter().map(|w| (w.inputs, w.first)).collect();
        assert_eq!(found, [(0..512, 0), (512..1024, 0), (1024..1100, 0)]);
    }

    #[test]
    fn windows_with_a_stride_count_each_token_once_with_as_much_context_as_there_is() {
        let found: Vec<_> = windows(1100, 512, 128).into_iter().map(|w| (w.inputs, w.first)).collect();
        assert_eq!(found[..2], [(0..512, 0), (128..640, 384)]);
        assert_eq!(found.last(), Some(&(640..1100, 384)));
        let counted: usize = found.iter().map(|(inputs, first)| inputs.len() - first).sum();
        assert_eq!(counted, 1100);
    }

    #[test]
    fn a_stream_that_predicts_nothing_has_no_windows() {
        assert_eq!(windows(0, 512, 512), []);
    }
}
