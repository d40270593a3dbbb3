//! A conversation: what was said so far, and the prompt that a chat template makes of it.

use anyhow::Result;
use model::Tokenizer;
use model::chat::{ChatInput, ChatTemplate, Clock, Message, Role};
use serde_json::{Map, Value, json};

use super::args::RunArgs;
use crate::report::note;

/// What was said so far.
pub(super) struct Conversation<'a> {
    template: ChatTemplate,
    tokenizer: &'a Tokenizer,
    /// The time that the template sees stays the same, so that the beginning of prompts does.
    clock: Clock,
    extra: Map<String, Value>,
    system: Option<String>,
    /// Everything after the system's message.
    messages: Vec<Message>,
}

/// What the model is given to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) tokens: Vec<u32>,
    /// The tag that ends the reasoning which the prompt leaves open.
    pub(super) open_reasoning: Option<&'static str>,
}

impl<'a> Conversation<'a> {
    /// Nothing was said so far.
    pub(super) fn new(
        template: ChatTemplate,
        tokenizer: &'a Tokenizer,
        args: &RunArgs,
    ) -> Result<Conversation<'a>> {
        let mut conversation = Conversation {
            template,
            tokenizer,
            clock: Clock::local(),
            extra: Map::new(),
            system: args.system.clone(),
            messages: Vec::new(),
        };
        if args.no_thinking {
            conversation.stop_thinking()?;
        }
        Ok(conversation)
    }

    /// Sets the variables by which templates ask for an answer without reasoning, and says so if this template
    /// knows none of them.
    fn stop_thinking(&mut self) -> Result<()> {
        self.messages.push(Message::new(Role::User, "Hello"));
        let thinking = self.prompt()?;
        for key in ["enable_thinking", "thinking"] {
            self.extra.insert(key.into(), false.into());
        }
        if self.prompt()? == thinking {
            note("this chat template has no switch for reasoning: --no-thinking changes nothing");
        }
        self.messages.clear();
        Ok(())
    }

    /// Adds what the user says and gives the prompt of the answer. If there is no prompt nothing was said.
    ///
    /// # Errors
    /// If the template refuses the conversation.
    pub(super) fn ask(&mut self, text: String) -> Result<Prompt> {
        self.messages.push(Message::new(Role::User, text));
        self.prompt().inspect_err(|_| self.take_back())
    }

    /// Takes back the last message, which had no answer.
    pub(super) fn take_back(&mut self) {
        self.messages.pop();
    }

    /// Adds what the model said.
    pub(super) fn answered(&mut self, reasoning: &str, answer: &str) {
        let mut message = Message::new(Role::Assistant, answer);
        message.reasoning = Some(reasoning.to_owned()).filter(|reasoning| !reasoning.is_empty());
        self.messages.push(message);
    }

    /// Forgets everything that was said but the system's message.
    pub(super) fn reset(&mut self) {
        self.messages.clear();
    }

    /// What the model is to be.
    pub(super) fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Changes it; an empty text leaves it out.
    pub(super) fn set_system(&mut self, text: &str) {
        self.system = Some(text.to_owned()).filter(|text| !text.is_empty());
    }

    /// How much was said, in messages.
    pub(super) fn length(&self) -> usize {
        self.messages.len()
    }

    /// The conversation in the form of chat APIs.
    pub(super) fn to_json(&self) -> String {
        format!("{:#}\n", json!({"messages": self.all()}))
    }

    fn all(&self) -> Vec<Message> {
        let system = self.system.iter().map(|text| Message::new(Role::System, text.clone()));
        system.chain(self.messages.iter().cloned()).collect()
    }

    fn prompt(&self) -> Result<Prompt> {
        let input = ChatInput {
            messages: self.all(),
            add_generation_prompt: true,
            extra: self.extra.clone(),
            ..ChatInput::default()
        };
        let prompt = self.template.render(&input, self.clock)?;
        Ok(Prompt { tokens: prompt.encode(self.tokenizer)?, open_reasoning: prompt.open_reasoning() })
    }
}
