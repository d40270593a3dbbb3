//! Characters from bytes that arrive in pieces: a token may end in the middle of one.

/// A streaming UTF-8 decoder. The pieces that it gives, laid end to end, are what
/// [`String::from_utf8_lossy`] makes of all bytes at once, and no piece holds half a character: a
/// character waits until its last byte is there, and bytes that can no longer become one are replaced
/// by U+FFFD.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// The beginning of a character, at most three bytes between calls.
    pending: Vec<u8>,
}

impl Text {
    /// Takes the bytes of one token and appends the characters that are now complete to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        self.pending.extend_from_slice(bytes);
        let (mut seen, mut waiting) = (0, 0);
        for chunk in self.pending.utf8_chunks() {
            out.push_str(chunk.valid());
            let bad = chunk.invalid();
            seen += chunk.valid().len() + bad.len();
            // Only at the very end can bytes be missing; anywhere else the next byte shows that they are bad.
            let unfinished = std::str::from_utf8(bad).is_err_and(|error| error.error_len().is_none());
            if unfinished && seen == self.pending.len() {
                waiting = bad.len();
            } else if !bad.is_empty() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.pending.drain(..seen - waiting);
    }

    /// Ends the text: what still waits is no character.
    pub fn finish(&mut self, out: &mut String) {
        if !self.pending.is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
            self.pending.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn streamed(pieces: &[&[u8]]) -> Vec<String> {
        let mut text = Text::default();
        let mut outs: Vec<String> = Vec::new();
        for piece in pieces {
            let mut out = String::new();
            text.push(piece, &mut out);
            outs.push(out);
        }
        let mut out = String::new();
        text.finish(&mut out);
        outs.push(out);
        outs
    }

    #[test]
    fn a_character_split_over_tokens_waits_for_its_last_byte() {
        let emoji = "\u{1f980}".as_bytes();
        let pieces = [b"a".as_slice(), &emoji[..1], &emoji[1..3], &[emoji[3], b'!']];
        assert_eq!(streamed(&pieces), ["a", "", "", "\u{1f980}!", ""]);
    }

    #[test]
    fn a_lone_bad_byte_is_replaced_and_the_text_goes_on() {
        assert_eq!(streamed(&[b"a\xffb", b"c"]), ["a\u{fffd}b", "c", ""]);
        // The beginning of a character, then something else.
        assert_eq!(streamed(&[b"\xf0\x9f", b"x"]), ["", "\u{fffd}x", ""]);
    }

    #[test]
    fn half_a_character_at_the_end_is_replaced_once() {
        assert_eq!(streamed(&[b"a", b"\xf0\x9f\xa6"]), ["a", "", "\u{fffd}"]);
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<char>().prop_map(|character| character.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..3),
            prop::sample::select(vec![&b"\xf0\x9f"[..], b"\xed\xa0\x80", b"\xc0\xaf", b"\xe2\x82"])
                .prop_map(<[u8]>::to_vec),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn pieces_laid_end_to_end_are_the_text_decoded_at_once(
            bytes in bytes(),
            cuts in prop::collection::vec(1usize..5, 0..64),
        ) {
            let mut pieces: Vec<&[u8]> = Vec::new();
            let mut rest = &bytes[..];
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(streamed(&pieces).concat(), String::from_utf8_lossy(&bytes));
        }
    }
}
