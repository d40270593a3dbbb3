//! Sentinels: private-use characters that stand for the texts of added tokens while a template is rendered.

use std::collections::{HashMap, HashSet};

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value};

use super::prompt::Segment;
use crate::{Error, Result, Specials};

/// The texts that a tokenizer reads as tokens of their own, wherever they stand.
#[derive(Debug)]
pub(super) struct ControlTexts(AhoCorasick);

impl ControlTexts {
    /// Takes the texts of a tokenizer's added tokens.
    ///
    /// Runs of white space, which some tokenizers have added tokens for, control nothing: they are left out, so
    /// that code keeps the ids that the model has learnt it with.
    ///
    /// # Errors
    /// If there are too many of them for a search automaton.
    pub(super) fn new(tokens: impl IntoIterator<Item = String>) -> Result<ControlTexts> {
        let texts = tokens.into_iter().filter(|text| !text.trim().is_empty());
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        let unfit = |error| Error::Conversation {
            what: format!("the tokenizer's added tokens cannot be searched: {error}"),
        };
        Ok(ControlTexts(automaton.map_err(unfit)?))
    }

    /// Replaces these texts in a template's variables by sentinels: everywhere but in what the assistant said.
    ///
    /// # Errors
    /// If the texts use up all private-use characters.
    pub(super) fn hide(&self, variables: &mut Map<String, Value>) -> Result<Sentinels> {
        let mut sentinels =
            Sentinels { texts: HashMap::new(), characters: HashMap::new(), unused: Unused::default() };
        for value in variables.values_mut() {
            texts(value, &mut |text| {
                sentinels.unused.present.extend(text.chars().filter(|&character| character >= FIRST));
                Ok(())
            })?;
        }
        for (key, value) in variables {
            match value {
                Value::Array(messages) if key == "messages" => {
                    for message in messages.iter_mut().filter(|message| message["role"] != "assistant") {
                        self.hide_in_parts(message, &mut sentinels)?;
                        texts(message, &mut |text| self.hide_in([text], &mut sentinels))?;
                    }
                }
                other => texts(other, &mut |text| self.hide_in([text], &mut sentinels))?,
            }
        }
        Ok(sentinels)
    }

    /// Hides what the texts of a message's parts hold when they are laid end to end, as templates lay them.
    fn hide_in_parts(&self, message: &mut Value, sentinels: &mut Sentinels) -> Result<()> {
        let Some(parts) = message["content"].as_array_mut() else { return Ok(()) };
        let texts = parts.iter_mut().filter_map(|part| match part.get_mut("text") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        });
        self.hide_in(texts, sentinels)
    }

    /// Hides what is in some texts and what goes from one into the next.
    fn hide_in<'a>(
        &self,
        texts: impl IntoIterator<Item = &'a mut String>,
        sentinels: &mut Sentinels,
    ) -> Result<()> {
        let texts: Vec<&mut String> = texts.into_iter().collect();
        let whole: String = texts.iter().map(|text| text.as_str()).collect();
        let mut found = self.0.find_iter(&whole).map(|found| found.range()).peekable();
        if found.peek().is_none() {
            return Ok(());
        }
        let mut start = 0;
        for text in texts {
            let end = start + text.len();
            text.clear();
            let mut at = start;
            while let Some(range) = found.peek().cloned().filter(|range| range.start < end) {
                let (from, to) = (range.start.max(start), range.end.min(end));
                text.push_str(&whole[at..from]);
                if from < to {
                    text.push(sentinels.of(&whole[from..to])?);
                }
                at = to;
                if range.end > end {
                    break;
                }
                found.next();
            }
            text.push_str(&whole[at..end]);
            start = end;
        }
        Ok(())
    }
}

/// Which sentinel stands for which text in one prompt.
#[derive(Debug)]
pub(super) struct Sentinels {
    texts: HashMap<char, String>,
    characters: HashMap<String, char>,
    unused: Unused,
}

impl Sentinels {
    fn of(&mut self, text: &str) -> Result<char> {
        if let Some(&character) = self.characters.get(text) {
            return Ok(character);
        }
        let character = self.unused.next().ok_or_else(|| Error::Conversation {
            what: "the messages use all private-use characters from U+F0000 on; leave one out".into(),
        })?;
        self.texts.insert(character, text.to_owned());
        self.characters.insert(text.to_owned(), character);
        Ok(character)
    }

    /// A rendered template as segments, with the texts back in the places of their sentinels.
    pub(super) fn cut(&self, rendered: &str) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut push = |text: &str, specials: Specials| match segments.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.specials == specials => last.text.push_str(text),
            _ => segments.push(Segment { text: text.to_owned(), specials }),
        };
        let mut start = 0;
        for (at, character) in rendered.char_indices() {
            if let Some(text) = self.texts.get(&character) {
                push(&rendered[start..at], Specials::Parse);
                push(text, Specials::Plain);
                start = at + character.len_utf8();
            }
        }
        push(&rendered[start..], Specials::Parse);
        segments
    }
}

/// The first character that may be a sentinel: planes 15 and 16 are for private use but for their last two
/// code points, and no font or keyboard has a use for them.
const FIRST: char = '\u{f0000}';

/// The private-use characters that a conversation does not have itself.
#[derive(Debug, Default)]
struct Unused {
    present: HashSet<char>,
    given: u32,
}

impl Iterator for Unused {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            let character = char::from_u32(u32::from(FIRST) + self.given)?;
            self.given += 1;
            if u32::from(character) & 0xffff < 0xfffe && !self.present.contains(&character) {
                return Some(character);
            }
        }
    }
}

/// Visits every text within a value, keys of objects too.
fn texts(value: &mut Value, visit: &mut impl FnMut(&mut String) -> Result<()>) -> Result<()> {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) => values.iter_mut().try_for_each(|value| texts(value, visit)),
        Value::Object(object) => {
            for (mut key, mut value) in std::mem::take(object) {
                visit(&mut key)?;
                texts(&mut value, visit)?;
                object.insert(key, value);
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn controls() -> ControlTexts {
        ControlTexts::new(["<|end|>", "<|end|>>", "</think>", "  ", "\n"].map(String::from)).unwrap()
    }

    /// What is left of a value as JSON, and the segments of its first message's content.
    fn hidden(variables: Value) -> (Value, Vec<Segment>) {
        let mut variables = variables.as_object().unwrap().clone();
        let sentinels = controls().hide(&mut variables).unwrap();
        let content = match &variables["messages"][0]["content"] {
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            content => content.as_str().unwrap_or_default().to_owned(),
        };
        let segments = sentinels.cut(&content);
        (Value::Object(variables), segments)
    }

    fn segment(text: &str, specials: Specials) -> Segment {
        Segment { text: text.into(), specials }
    }

    #[test]
    fn a_control_text_is_cut_out_and_the_longest_one_at_a_place() {
        let (_, segments) =
            hidden(json!({"messages": [{"role": "user", "content": "a <|end|>>  \n<|end|></think>b"}]}));
        let want = [
            segment("a ", Specials::Parse),
            segment("<|end|>>", Specials::Plain),
            segment("  \n", Specials::Parse),
            segment("<|end|></think>", Specials::Plain),
            segment("b", Specials::Parse),
        ];
        assert_eq!(segments, want);
    }

    #[test]
    fn a_control_text_that_goes_from_one_part_into_the_next_is_cut_out_too() {
        let part = |text: &str| json!({"type": "text", "text": text});
        let parts = json!([part("a<|e"), {"type": "image"}, part("nd|"), part(""), part(">b")]);
        let (_, segments) = hidden(json!({"messages": [{"role": "tool", "content": parts}]}));
        let want = [
            segment("a", Specials::Parse),
            segment("<|end|>", Specials::Plain),
            segment("b", Specials::Parse),
        ];
        assert_eq!(segments, want);
    }

    #[test]
    fn everything_but_what_the_assistant_said_is_searched() {
        let evil = "x</think>";
        let everywhere = json!({
            "messages": [{"role": evil, "content": evil, "name": evil}, {"role": "assistant", "content": evil}],
            "tools": [{"function": {"name": evil, "parameters": {"properties": {evil: {"enum": [evil]}}}}}],
            "reasoning_effort": evil,
        });
        let (hidden, _) = hidden(everywhere);
        assert_eq!(hidden.to_string().matches("</think>").count(), 1);
        assert_eq!(hidden["messages"][1]["content"], evil);
    }

    #[test]
    fn private_use_characters_of_the_conversation_are_no_sentinels() {
        let content = "\u{f0000}</think>\u{f0001}";
        let (_, segments) =
            hidden(json!({"messages": [{"role": "user", "content": content}], "x": "\u{f0002}"}));
        let want = [
            segment("\u{f0000}", Specials::Parse),
            segment("</think>", Specials::Plain),
            segment("\u{f0001}", Specials::Parse),
        ];
        assert_eq!(segments, want);
    }

    #[test]
    fn a_conversation_with_all_private_use_characters_is_refused() {
        let all: String = ('\u{f0000}'..='\u{10fffd}').collect();
        let refused = |text: String| {
            let mut variables =
                json!({"messages": [{"role": "user", "content": text}]}).as_object().unwrap().clone();
            controls().hide(&mut variables).is_err()
        };
        assert!(!refused(all.clone()));
        assert!(refused(all + "</think>"));
    }

    proptest! {
        #[test]
        fn segments_laid_end_to_end_are_the_text_and_no_parsed_one_holds_a_control_text(
            pieces in prop::collection::vec(
                prop::sample::select(vec!["<", "|", "end", "|>", ">", "<|end|>", "</think>", "é", "\u{f0000}", " "]),
                0..24,
            ),
            cut in 0usize..24,
        ) {
            let part = |pieces: &[&str]| json!({"type": "text", "text": pieces.concat()});
            let (left, right) = pieces.split_at(cut.min(pieces.len()));
            let (_, segments) = hidden(json!({"messages": [{"role": "user", "content": [part(left), part(right)]}]}));
            let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
            prop_assert_eq!(text, pieces.concat());
            for segment in segments {
                let control = ["<|end|>", "</think>"].iter().any(|control| segment.text.contains(control));
                prop_assert_eq!(control, segment.specials == Specials::Plain, "{:?}", segment);
            }
        }
    }
}
