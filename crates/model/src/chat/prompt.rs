//! A rendered conversation, which knows what in it must not be read as control tokens.

use std::fmt;

use crate::{Result, Specials, Tokenizer};

/// A text that a model is to continue. Displayed, it is all of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    segments: Vec<Segment>,
}

/// A piece of a prompt that is encoded apart from its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The text.
    pub text: String,
    /// How added tokens that are written out in it are read.
    pub specials: Specials,
}

/// The tags around what a model thinks before it answers: of most models; of Seed-OSS, Magistral and Command A.
pub const REASONING: [(&str, &str); 4] = [
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
];

impl Prompt {
    pub(super) fn new(segments: Vec<Segment>) -> Prompt {
        Prompt { segments }
    }

    /// The pieces, whose texts laid end to end are the prompt; neighbours are read differently.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The ids of the prompt. Nothing is put before them: a template writes the beginning itself.
    ///
    /// # Errors
    /// If the text cannot be written with the tokens there are.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for segment in &self.segments {
            ids.extend(tokenizer.encode(&segment.text, segment.specials)?);
        }
        Ok(ids)
    }

    /// The tag that ends the reasoning which the prompt leaves open, or none if the answer begins outside of any.
    ///
    /// Where a prompt ends with `<think>` the model writes `</think>` without ever having written the opener.
    pub fn open_reasoning(&self) -> Option<&'static str> {
        let last = self.segments.last().filter(|last| last.specials == Specials::Parse)?;
        let text = last.text.trim_end();
        REASONING.iter().find(|(open, _)| text.ends_with(open)).map(|&(_, close)| close)
    }
}

impl fmt::Display for Prompt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| formatter.write_str(&segment.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_is_open_only_where_the_template_itself_ends_with_a_tag() {
        let open = |segments: &[(&str, Specials)]| {
            let segments = segments.iter().map(|&(text, specials)| Segment { text: text.into(), specials });
            Prompt::new(segments.collect()).open_reasoning()
        };
        assert_eq!(open(&[("<|assistant|><think>", Specials::Parse)]), Some("</think>"));
        assert_eq!(
            open(&[("a", Specials::Plain), ("<|Assistant|><think>\n", Specials::Parse)]),
            Some("</think>")
        );
        assert_eq!(open(&[("[THINK]", Specials::Parse)]), Some("[/THINK]"));
        assert_eq!(open(&[("<think>\n\n</think>\n\n", Specials::Parse)]), None);
        assert_eq!(open(&[("<think>hm", Specials::Parse)]), None);
        assert_eq!(open(&[("a", Specials::Parse), ("<think>", Specials::Plain)]), None);
        assert_eq!(open(&[]), None);
    }
}
