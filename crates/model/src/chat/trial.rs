//! Small conversations that every template is tried on when it is loaded, and what they show of it.
//!
//! Templates differ in what they take: some iterate over the parts of a message, others append the message to a
//! text; some write the arguments of a call as JSON themselves, others want them written. None says so, but
//! each shows it: a form that fails, or whose text is missing in the result, is not the one.

use minijinja::{Error, ErrorKind};
use serde_json::{Value, json};

use super::environment::raised;
use super::input::ChatInput;
use super::message::{Content, FunctionCall, Message, Role, ToolCall, ToolKind};

/// What a template was seen to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expectations {
    pub(super) parts: Parts,
    pub(super) arguments: Arguments,
    pub(super) silence: Silence,
    pub(super) tools: Tools,
}

/// The form of a message's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// A list, as they came.
    Listed,
    /// One text.
    Joined,
}

/// The form of a call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arguments {
    /// An object.
    Object,
    /// A text that holds the object as JSON.
    Text,
}

/// The content of an assistant's message that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// An empty text.
    Empty,
    /// None, which some templates tell calls by.
    None,
}

/// What becomes of the definitions of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tools {
    /// They are written into the prompt.
    Shown,
    /// They are left out, or refused.
    Ignored,
}

/// How a trial failed.
pub(super) struct Failure {
    /// Which conversation it was.
    pub(super) conversation: &'static str,
    /// Why it failed.
    pub(super) error: Error,
}

/// The forms to begin with: what most templates take.
const USUAL: Expectations = Expectations {
    parts: Parts::Listed,
    arguments: Arguments::Object,
    silence: Silence::Empty,
    tools: Tools::Ignored,
};
/// Texts to look for in what comes out; no template has them.
const TOOL: &str = "observe_tide";
const HARBOUR: &str = "Scheveningen";

/// Tries a template on conversations: plain ones, one with tools, and one with a tool's result.
///
/// What the template itself refuses, and what it makes of tools if it knows none, is no failure.
///
/// # Errors
/// If a plain conversation fails, or one with tools for want of something that the template uses.
pub(super) fn run(
    render: impl Fn(&ChatInput, &Expectations) -> Result<String, Error>,
) -> Result<Expectations, Failure> {
    let question = Message::new(Role::User, HARBOUR);
    let asked = input(vec![question.clone()]);
    let answered =
        input(vec![question, Message::new(Role::Assistant, "Yes."), Message::new(Role::User, "And now?")]);
    for (conversation, input) in [("a first message", &asked), ("an answered message", &answered)] {
        match render(input, &USUAL) {
            Err(error) if raised(&error).is_none() => return Err(Failure { conversation, error }),
            _ => {}
        }
    }

    // A template that takes parts makes the same of one part as of its text.
    let listed = render(&input(vec![in_parts(HARBOUR)]), &USUAL).ok() == render(&asked, &USUAL).ok();
    let seen = Expectations { parts: if listed { Parts::Listed } else { Parts::Joined }, ..USUAL };

    let mut with_tools = ChatInput { tools: vec![definition()], ..asked };
    let tools = match render(&with_tools, &seen) {
        Ok(text) if text.contains(TOOL) => Tools::Shown,
        Err(error) if lacks(&error) => return Err(Failure { conversation: "tools", error }),
        _ => Tools::Ignored,
    };
    with_tools.messages.extend([call(), result()]);
    form_of_calls(|tried| render(&with_tools, tried), Expectations { tools, ..seen })
        .map_err(|error| Failure { conversation: "a tool's result", error })
}

/// Finds the form in which the call of a tool shows in the prompt; the usual one if it never does.
fn form_of_calls(
    render: impl Fn(&Expectations) -> Result<String, Error>,
    seen: Expectations,
) -> Result<Expectations, Error> {
    let (mut rendered, mut failure) = (false, None);
    for arguments in [Arguments::Object, Arguments::Text] {
        for silence in [Silence::Empty, Silence::None] {
            let tried = Expectations { arguments, silence, ..seen };
            match render(&tried) {
                // The question names the harbour too.
                Ok(text) if text.matches(HARBOUR).count() > 1 => return Ok(tried),
                Ok(_) => rendered = true,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
    }
    match failure {
        Some(error) if !rendered && lacks(&error) => Err(error),
        _ => Ok(seen),
    }
}

/// Whether a template uses something that is not there, whatever the conversation.
fn lacks(error: &Error) -> bool {
    use ErrorKind::{SyntaxError, UnknownFilter, UnknownFunction, UnknownMethod, UnknownTest};
    matches!(error.kind(), SyntaxError | UnknownFilter | UnknownFunction | UnknownMethod | UnknownTest)
}

fn input(messages: Vec<Message>) -> ChatInput {
    ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() }
}

fn in_parts(text: &str) -> Message {
    let part = [("type".to_owned(), "text".into()), ("text".to_owned(), text.into())];
    Message {
        content: Some(Content::Parts(vec![part.into_iter().collect()])),
        ..Message::new(Role::User, "")
    }
}

/// A tool with the kinds of parameters that templates tell apart.
fn definition() -> Value {
    json!({"type": "function", "function": {
        "name": TOOL,
        "description": "The tide in a harbour.",
        "parameters": {"type": "object", "required": ["harbour"], "properties": {
            "harbour": {"type": "string", "description": "Where."},
            "unit": {"type": "string", "enum": ["metre", "foot"], "default": "metre"},
            "days": {"type": "array", "items": {"type": "integer"}},
            "datum": {"type": "object", "properties": {"height": {"type": ["number", "null"]}}},
        }},
    }})
}

/// The id has the form that the strictest templates want: nine letters and digits.
const CALL_ID: &str = "call00001";

fn call() -> Message {
    let arguments = json!({"harbour": HARBOUR, "days": [1, 2], "datum": {"height": 0.5}});
    let function = FunctionCall { name: TOOL.into(), arguments };
    let tool_calls = vec![ToolCall { id: Some(CALL_ID.into()), kind: ToolKind::Function, function }];
    Message { content: None, tool_calls, ..Message::new(Role::Assistant, "") }
}

fn result() -> Message {
    let (name, tool_call_id) = (Some(TOOL.into()), Some(CALL_ID.into()));
    Message { name, tool_call_id, ..Message::new(Role::Tool, "41 decimetres") }
}
