//! Messages, with the names and the forms that chat APIs give them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation.
///
/// It is read leniently: absent and null are the same, and reasoning may be called `reasoning` too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Received")]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said; none where an assistant only called tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// What an assistant thought before it spoke, without the tags around it.
    #[serde(rename = "reasoning_content", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The tools that an assistant called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Which call a tool's message answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The name of the tool, or of a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whatever else the message has, for templates that know of it.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Message {
    /// A message of nothing but text.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message {
            role,
            content: Some(Content::Text(content.into())),
            reasoning: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
            other: Map::new(),
        }
    }
}

/// A message before both names of its reasoning are one.
#[derive(Deserialize)]
struct Received {
    role: Role,
    content: Option<Content>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
    tool_call_id: Option<String>,
    name: Option<String>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl From<Received> for Message {
    fn from(received: Received) -> Message {
        Message {
            role: received.role,
            content: received.content,
            reasoning: received.reasoning_content.or(received.reasoning),
            tool_calls: received.tool_calls.unwrap_or_default(),
            tool_call_id: received.tool_call_id,
            name: received.name,
            other: received.other,
        }
    }
}

/// Who speaks in a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Whoever set the conversation up.
    System,
    /// The same, by its newer name; few templates know it.
    Developer,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
    /// A role that only some templates know.
    #[serde(untagged)]
    Other(String),
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "content is a text or a list of parts, which are objects")]
pub enum Content {
    /// Text.
    Text(String),
    /// Parts such as `{"type": "text", "text": "..."}`.
    Parts(Vec<Map<String, Value>>),
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// What the answer refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Always `function`, the only kind of tool that templates know.
    #[serde(rename = "type", default)]
    pub kind: ToolKind,
    /// The function and its arguments.
    pub function: FunctionCall,
}

/// The kind of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolKind {
    /// A function with a JSON schema of its parameters.
    #[default]
    Function,
}

/// A function's name and the arguments it is called with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The function's name.
    pub name: String,
    /// A JSON object, or a text that holds one, as the API sends it.
    #[serde(default)]
    pub arguments: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(message: Value) -> Message {
        serde_json::from_value(message).unwrap()
    }

    #[test]
    fn absent_null_and_empty_are_the_same() {
        let short = read(json!({"role": "assistant", "content": "Hi"}));
        let long = read(json!({
            "role": "assistant", "content": "Hi", "reasoning": null, "reasoning_content": null, "tool_calls": null,
            "tool_call_id": null, "name": null,
        }));
        assert_eq!(short, long);
        assert_eq!(short, read(json!({"role": "assistant", "content": "Hi", "tool_calls": []})));
        assert_eq!(short, Message::new(Role::Assistant, "Hi"));
        assert_eq!(serde_json::to_value(&short).unwrap(), json!({"role": "assistant", "content": "Hi"}));
    }

    #[test]
    fn reasoning_is_read_by_either_name_and_by_both() {
        for keys in [vec!["reasoning"], vec!["reasoning_content"], vec!["reasoning", "reasoning_content"]] {
            let mut message = json!({"role": "assistant"});
            for key in keys {
                message[key] = "hmm".into();
            }
            assert_eq!(read(message).reasoning.as_deref(), Some("hmm"));
        }
    }

    #[test]
    fn what_only_some_templates_know_is_kept_as_it_came() {
        let message = json!({
            "role": "ipython", "content": [{"type": "text", "text": "a"}], "prefix": true,
            "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}],
        });
        assert_eq!(read(message.clone()).role, Role::Other("ipython".into()));
        assert_eq!(serde_json::to_value(read(message.clone())).unwrap(), message);
    }

    #[test]
    fn content_that_is_neither_text_nor_parts_is_refused_with_what_it_may_be() {
        for content in [json!(5), json!(["a"]), json!({"text": "a"})] {
            let error =
                serde_json::from_value::<Message>(json!({"role": "user", "content": content})).unwrap_err();
            assert_eq!(error.to_string(), "content is a text or a list of parts, which are objects");
        }
    }

    #[test]
    fn only_functions_can_be_called() {
        let call = json!({"type": "custom", "function": {"name": "f", "arguments": "{}"}});
        assert!(serde_json::from_value::<ToolCall>(call).is_err());
    }
}
