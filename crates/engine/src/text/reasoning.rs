//! What a model thinks apart from what it says.
//!
//! Models that reason write it between two tags before the answer. The opening tag is either the first thing that
//! they write, or the prompt ends with it.

/// Who a piece of text is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// What the model thinks.
    Thinks,
    /// What it says.
    Says,
}

/// Divides the text of an answer, as it comes, into reasoning and the rest. The tags are in neither, nor is the
/// white space beside them.
#[derive(Clone, Debug)]
pub struct Reasoning {
    tags: &'static [(&'static str, &'static str)],
    state: State,
    /// Text that may be the beginning of a tag, or white space that may stand before one.
    held: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but white space came, and a tag may open.
    Beginning,
    /// White space after an opening tag is left out.
    Opened(&'static str),
    /// Until this tag.
    Inside(&'static str),
    /// White space after a closing tag is left out.
    Closed,
    /// To the end.
    After,
}

impl Reasoning {
    /// For an answer to a prompt that ends inside of reasoning, which `open` closes, or outside of it. `tags` are
    /// the pairs that a model may write itself.
    pub fn new(tags: &'static [(&'static str, &'static str)], open: Option<&'static str>) -> Reasoning {
        let state = open.map_or(State::Beginning, State::Opened);
        Reasoning { tags, state, held: String::new() }
    }

    /// Whether what comes now is reasoning, as far as one can tell.
    pub fn voice(&self) -> Voice {
        match self.state {
            State::Opened(_) | State::Inside(_) => Voice::Thinks,
            State::Beginning | State::Closed | State::After => Voice::Says,
        }
    }

    /// Takes a piece of the answer and hands on what can be told, in pieces that are not empty.
    pub fn push(&mut self, text: &str, hand_on: &mut dyn FnMut(Voice, &str)) {
        self.held.push_str(text);
        loop {
            let before = (self.state, self.held.len());
            self.step(hand_on);
            if before == (self.state, self.held.len()) {
                break;
            }
        }
    }

    /// Ends the answer: what was held is no tag.
    pub fn finish(&mut self, hand_on: &mut dyn FnMut(Voice, &str)) {
        if self.state == State::Beginning || !self.held.trim().is_empty() {
            self.give(self.held.len(), hand_on);
        }
        self.held.clear();
    }

    fn step(&mut self, hand_on: &mut dyn FnMut(Voice, &str)) {
        match self.state {
            State::Beginning => {
                let text = self.held.trim_start();
                if let Some((open, close)) = self.tags.iter().find(|(open, _)| text.starts_with(open)) {
                    self.held = text[open.len()..].to_owned();
                    self.state = State::Opened(close);
                } else if !self.tags.iter().any(|(open, _)| open.starts_with(text)) {
                    self.state = State::After;
                }
            }
            State::Opened(close) => {
                self.trim_start();
                if !self.held.is_empty() {
                    self.state = State::Inside(close);
                }
            }
            State::Inside(close) => match self.held.find(close) {
                Some(at) => {
                    self.give(self.held[..at].trim_end().len(), hand_on);
                    let after = self.held.find(close).map_or(0, |at| at + close.len());
                    self.held.drain(..after);
                    self.state = State::Closed;
                }
                None => {
                    // The longest end that may be the beginning of the tag, and the white space before it.
                    let begins = |at: &usize| close.starts_with(&self.held[*at..]);
                    let boundaries = self.held.char_indices().map(|(at, _)| at);
                    let tag = { boundaries }.find(begins).unwrap_or(self.held.len());
                    self.give(self.held[..tag].trim_end().len(), hand_on);
                }
            },
            State::Closed => {
                self.trim_start();
                if !self.held.is_empty() {
                    self.state = State::After;
                }
            }
            State::After => self.give(self.held.len(), hand_on),
        }
    }

    fn trim_start(&mut self) {
        let white = self.held.len() - self.held.trim_start().len();
        self.held.drain(..white);
    }

    /// Hands on the first `bytes` held.
    fn give(&mut self, bytes: usize, hand_on: &mut dyn FnMut(Voice, &str)) {
        if bytes > 0 {
            hand_on(self.voice(), &self.held[..bytes]);
            self.held.drain(..bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAGS: &[(&str, &str)] = &[("<think>", "</think>"), ("[THINK]", "[/THINK]")];

    /// Thoughts and answer of a text that comes in pieces.
    fn divided(open: Option<&'static str>, pieces: &[&str]) -> (String, String) {
        let mut reasoning = Reasoning::new(TAGS, open);
        let (mut thoughts, mut answer) = (String::new(), String::new());
        let mut hand_on = |voice, text: &str| match voice {
            Voice::Thinks => thoughts.push_str(text),
            Voice::Says => answer.push_str(text),
        };
        pieces.iter().for_each(|piece| reasoning.push(piece, &mut hand_on));
        reasoning.finish(&mut hand_on);
        (thoughts, answer)
    }

    fn of(thoughts: &str, answer: &str) -> (String, String) {
        (thoughts.into(), answer.into())
    }

    #[test]
    fn reasoning_that_the_model_opens_itself_is_told_apart() {
        assert_eq!(divided(None, &["<think>\nHm.\nSo.\n</think>\n\nYes."]), of("Hm.\nSo.", "Yes."));
        assert_eq!(divided(None, &["\n<th", "ink>Hm", ".</", "think", "> Yes."]), of("Hm.", "Yes."));
        assert_eq!(divided(None, &["[THINK]Hm.[/THINK]Yes."]), of("Hm.", "Yes."));
    }

    #[test]
    fn reasoning_that_the_prompt_opened_is_told_apart() {
        assert_eq!(divided(Some("</think>"), &["\nHm.\n", "</think>", "\n\nYes."]), of("Hm.", "Yes."));
        assert_eq!(divided(Some("</think>"), &["</think>Yes."]), of("", "Yes."));
        // It never ended.
        assert_eq!(divided(Some("</think>"), &["Hm. </thin"]), of("Hm. </thin", ""));
    }

    #[test]
    fn an_answer_that_only_speaks_of_tags_has_no_reasoning() {
        let text = "The tag <think> ends with </think>.";
        assert_eq!(divided(None, &[text]), of("", text));
        assert_eq!(divided(None, &["  <thin", "g>"]), of("", "  <thing>"));
        assert_eq!(divided(None, &["  <thin"]), of("", "  <thin"));
        assert_eq!(divided(None, &["  "]), of("", "  "));
    }

    #[test]
    fn white_space_within_thoughts_and_answer_stays() {
        assert_eq!(divided(None, &["<think>a\n", "\n", "b</think>c\n", "\nd\n"]), of("a\n\nb", "c\n\nd\n"));
    }

    proptest! {
        #[test]
        fn pieces_divide_as_the_whole_does(
            text in r"(<think>)?(a|\n|é|<|/|</think>|think>){0,12}",
            cuts in prop::collection::vec(1usize..5, 40),
            opened in any::<bool>(),
        ) {
            let open = opened.then_some("</think>");
            let (mut pieces, mut rest) = (Vec::new(), text.as_str());
            for cut in cuts {
                let at = rest.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(rest.len());
                let (piece, after) = rest.split_at(at);
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(divided(open, &pieces), divided(open, &[&text]));
        }
    }
}
