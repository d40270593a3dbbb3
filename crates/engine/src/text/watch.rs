//! Strings that are looked for in an answer while it is drawn.
//!
//! A **stop string** ends the answer; what stands before it is kept. A **banned string** must not be in the answer:
//! the tokens that it lies in are taken back. Both are found wherever tokens end, so bytes that may be the beginning
//! of one are held until the next tokens decide. Of several, the one counts that is complete first; this does not
//! depend on how the text is cut into tokens.

/// Looks for strings in the bytes of an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    stops: Vec<Vec<u8>>,
    banned: Vec<Vec<u8>>,
    /// Bytes that came and did not leave yet.
    held: Vec<u8>,
    /// Where in `held` the tokens begin that can still be taken back.
    starts: Vec<usize>,
    /// Where in `held` the text begins that a stop string may be in.
    stops_from: usize,
}

/// What a token completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// A stop string: the answer is at its end.
    Stop,
    /// A banned string, which lies in this many of the last tokens. Their bytes are gone.
    Banned {
        /// How many, the last token included.
        tokens: usize,
    },
}

/// Whether stop strings count yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stops {
    /// They end the answer.
    Count,
    /// The answer is still too short: one that ends here, or begins here, is text like any other.
    TooEarly,
}

impl Watch {
    /// Empty strings are never found.
    pub(crate) fn new(stops: &[String], banned: &[String]) -> Watch {
        let bytes = |strings: &[String]| {
            let strings = strings.iter().filter(|string| !string.is_empty());
            strings.map(|string| string.clone().into_bytes()).collect()
        };
        Watch { stops: bytes(stops), banned: bytes(banned), ..Watch::default() }
    }

    /// Takes the bytes of a token and hands the bytes that can leave to `release`.
    pub(crate) fn push(&mut self, bytes: &[u8], stops: Stops, release: &mut dyn FnMut(&[u8])) -> Found {
        if self.stops.is_empty() && self.banned.is_empty() {
            release(bytes);
            return Found::Nothing;
        }
        let before = self.held.len();
        self.starts.push(before);
        self.held.extend_from_slice(bytes);
        for end in before + 1..=self.held.len() {
            let held = &self.held[..end];
            let start_of = |string: &Vec<u8>| held.ends_with(string).then(|| end - string.len());
            let stop = self.stops.iter().filter_map(start_of).filter(|start| *start >= self.stops_from).min();
            if let Some(start) = stop.filter(|_| stops == Stops::Count) {
                release(&self.held[..start]);
                self.held.clear();
                self.starts.clear();
                return Found::Stop;
            }
            if let Some(start) = self.banned.iter().filter_map(start_of).min() {
                let first = self.token_of(start);
                self.held.truncate(self.starts[first]);
                self.stops_from = self.stops_from.min(self.held.len());
                return Found::Banned { tokens: self.starts.drain(first..).count() };
            }
        }
        if stops == Stops::TooEarly {
            self.stops_from = self.held.len();
        }
        let free = self.free();
        release(&self.held[..free]);
        self.forget(free);
        Found::Nothing
    }

    /// Ends the answer: what is held is the beginning of nothing.
    pub(crate) fn finish(&mut self, release: &mut dyn FnMut(&[u8])) {
        release(&self.held);
        self.held.clear();
        self.starts.clear();
    }

    /// The token, as an index into `starts`, that the byte at `at` belongs to.
    fn token_of(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// How many of the bytes held can leave: those before the first that may begin a stop string, and all of the
    /// tokens before the first that may begin a banned one, since that token would be taken back as a whole.
    fn free(&self) -> usize {
        let begins = |strings: &[Vec<u8>], from: usize| {
            let begins = |at: &usize| strings.iter().any(|string| string.starts_with(&self.held[*at..]));
            (from..self.held.len()).find(begins)
        };
        let stop = begins(&self.stops, self.stops_from).unwrap_or(self.held.len());
        let banned = begins(&self.banned, 0).map(|at| self.starts[self.token_of(at)]);
        stop.min(banned.unwrap_or(self.held.len()))
    }

    /// Drops the first `bytes` held. A token of which a part left cannot be taken back any more.
    fn forget(&mut self, bytes: usize) {
        self.held.drain(..bytes);
        let gone = self.starts.partition_point(|start| *start < bytes);
        self.starts.drain(..gone);
        self.starts.iter_mut().for_each(|start| *start -= bytes);
        self.stops_from = self.stops_from.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn watch(stops: &[&str], banned: &[&str]) -> Watch {
        let owned = |strings: &[&str]| strings.iter().map(|string| (*string).to_owned()).collect::<Vec<_>>();
        Watch::new(&owned(stops), &owned(banned))
    }

    /// What leaves after each token, the last being what leaves at the end, and what the last token completed.
    fn run(mut watch: Watch, tokens: &[&str]) -> (Vec<String>, Found) {
        let mut out = Vec::new();
        let mut found = Found::Nothing;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        for token in tokens {
            assert_eq!(found, Found::Nothing, "the text went on after {out:?}");
            let mut piece = String::new();
            found = watch.push(token.as_bytes(), Stops::Count, &mut |bytes| piece.push_str(&text(bytes)));
            out.push(piece);
        }
        if found == Found::Nothing {
            watch.finish(&mut |bytes| out.push(text(bytes)));
        }
        (out, found)
    }

    fn strings(pieces: &[&str]) -> Vec<String> {
        pieces.iter().map(|piece| (*piece).to_owned()).collect()
    }

    #[test]
    fn a_stop_string_is_found_over_three_tokens_and_nothing_of_it_leaves() {
        let (out, found) = run(watch(&["DEFGHIJ"], &[]), &["ABCDE", "FG", "HIJKL"]);
        assert_eq!((out, found), (strings(&["ABC", "", ""]), Found::Stop));
    }

    #[test]
    fn a_beginning_that_turns_out_to_be_none_leaves_with_the_next_token() {
        let (out, found) = run(watch(&["aab"], &[]), &["xa", "a", "a", "c"]);
        assert_eq!((out, found), (strings(&["x", "", "a", "aac", ""]), Found::Nothing));
        let (out, _) = run(watch(&["STOP"], &[]), &["a ST"]);
        assert_eq!(out, strings(&["a ", "ST"]));
    }

    #[test]
    fn the_string_that_is_complete_first_counts_however_the_text_is_cut() {
        for tokens in [&["abcd"][..], &["a", "b", "c"], &["ab", "cd"]] {
            let (out, found) = run(watch(&["abcd", "bc"], &[]), tokens);
            assert_eq!((out.concat(), found), ("a".to_owned(), Found::Stop), "{tokens:?}");
        }
        // Of two that end together the longer one.
        assert_eq!(run(watch(&["c", "bc"], &[]), &["abc"]), (strings(&["a"]), Found::Stop));
    }

    #[test]
    fn the_tokens_of_a_banned_string_never_leave() {
        let (out, found) = run(watch(&[], &["bad word"]), &["a ", "very ba", "d wo", "rd!"]);
        assert_eq!((out, found), (strings(&["a ", "", "", ""]), Found::Banned { tokens: 3 }));
        let (out, found) = run(watch(&[], &["bad word"]), &["a ", "very ba", "d", " man"]);
        assert_eq!((out, found), (strings(&["a ", "", "", "very bad man", ""]), Found::Nothing));
    }

    #[test]
    fn after_a_banned_string_the_text_goes_on_where_its_first_token_stood() {
        let mut watch = watch(&[], &["abc"]);
        let mut out = String::new();
        let mut push = |token: &str| {
            watch.push(token.as_bytes(), Stops::Count, &mut |bytes| {
                out.push_str(std::str::from_utf8(bytes).unwrap());
            })
        };
        assert_eq!(push("xa"), Found::Nothing);
        assert_eq!(push("b"), Found::Nothing);
        assert_eq!(push("c"), Found::Banned { tokens: 3 });
        assert_eq!(push("a"), Found::Nothing);
        assert_eq!(push("bc"), Found::Banned { tokens: 2 });
        assert_eq!(push("ay"), Found::Nothing);
        assert_eq!(out, "ay");
    }

    #[test]
    fn stop_strings_count_only_after_the_least_length() {
        let mut watch = watch(&["ab"], &[]);
        let mut out = String::new();
        let mut push = |token: &str, stops| {
            watch
                .push(token.as_bytes(), stops, &mut |bytes| out.push_str(std::str::from_utf8(bytes).unwrap()))
        };
        assert_eq!(push("ab", Stops::TooEarly), Found::Nothing);
        assert_eq!(push("a", Stops::TooEarly), Found::Nothing);
        // This one began too early.
        assert_eq!(push("b", Stops::Count), Found::Nothing);
        assert_eq!(push("ab", Stops::Count), Found::Stop);
        assert_eq!(out, "abab");
    }

    #[test]
    fn an_empty_string_is_never_found() {
        assert_eq!(run(watch(&[""], &[""]), &["a", "b"]).1, Found::Nothing);
    }

    proptest! {
        /// Small alphabets, so that strings overlap themselves and each other.
        #[test]
        fn a_stream_ends_where_a_search_of_the_whole_text_says(
            text in "[ab]{0,24}",
            stops in prop::collection::vec("[ab]{1,4}", 0..4),
            cuts in prop::collection::vec(1usize..4, 24),
        ) {
            let end = (0..=text.len()).find(|&end| stops.iter().any(|stop| text[..end].ends_with(stop)));
            let want = end.map(|end| {
                let longest = stops.iter().filter(|stop| text[..end].ends_with(*stop)).map(String::len).max();
                &text[..end - longest.unwrap()]
            });
            let mut watch = Watch::new(&stops, &[]);
            let (mut out, mut found, mut rest) = (Vec::new(), Found::Nothing, text.as_str());
            for cut in cuts {
                let (token, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                found = watch.push(token.as_bytes(), Stops::Count, &mut |bytes| out.extend_from_slice(bytes));
                if found == Found::Stop {
                    break;
                }
            }
            watch.finish(&mut |bytes| out.extend_from_slice(bytes));
            prop_assert_eq!(found == Found::Stop, want.is_some());
            prop_assert_eq!(String::from_utf8(out).unwrap(), want.unwrap_or(&text));
        }
    }
}
