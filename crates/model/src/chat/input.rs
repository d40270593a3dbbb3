//! A conversation and what is asked of it, turned into the variables that a template sees.

use serde_json::{Map, Value, json};

use super::message::{Content, Message, Role};
use super::trial::{Arguments, Expectations, Parts, Silence};
use crate::{Error, Result};

/// What a prompt is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatInput {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Definitions of tools: objects such as `{"type": "function", "function": {...}}`, whose keys a template
    /// writes in the order they have.
    pub tools: Vec<Value>,
    /// Whether the prompt ends where the model's answer begins.
    pub add_generation_prompt: bool,
    /// Further variables that a template may know of, such as `enable_thinking`.
    pub extra: Map<String, Value>,
}

impl ChatInput {
    /// The variables of a template that has these expectations.
    ///
    /// # Errors
    /// If a message cannot be put into the form that the template takes.
    pub(super) fn variables(&self, expectations: &Expectations) -> Result<Map<String, Value>> {
        let mut variables = self.extra.clone();
        let messages = self.messages.iter().enumerate();
        let messages: Result<Vec<Value>> =
            messages.map(|(index, message)| variable(index + 1, message, expectations)).collect();
        variables.insert("messages".into(), messages?.into());
        // Templates ask whether `tools` is none, so that none and an empty list are two things to them.
        let tools = if self.tools.is_empty() { Value::Null } else { self.tools.clone().into() };
        variables.insert("tools".into(), tools);
        variables.entry("documents").or_insert(Value::Null);
        variables.insert("add_generation_prompt".into(), self.add_generation_prompt.into());
        Ok(variables)
    }
}

/// A message as a template sees it; `number` counts from 1 and is for errors.
fn variable(number: usize, message: &Message, expectations: &Expectations) -> Result<Value> {
    let unfit = |what: String| Error::Conversation { what: format!("message {number}: {what}") };
    let mut variable = serde_json::to_value(message).map_err(|error| unfit(error.to_string()))?;
    variable["content"] = match &message.content {
        Some(Content::Text(text)) => text.as_str().into(),
        Some(Content::Parts(parts)) => match expectations.parts {
            Parts::Listed => json!(parts),
            Parts::Joined => joined(parts).map_err(unfit)?.into(),
        },
        None if message.role == Role::Assistant && expectations.silence == Silence::None => Value::Null,
        None => "".into(),
    };
    if let Some(reasoning) = &message.reasoning {
        variable["reasoning"] = reasoning.as_str().into();
    }
    for (index, call) in message.tool_calls.iter().enumerate() {
        let arguments = arguments(&call.function.arguments)
            .map_err(|what| unfit(format!("the arguments of {} {what}", call.function.name)))?;
        variable["tool_calls"][index]["function"]["arguments"] = match expectations.arguments {
            Arguments::Object => arguments.into(),
            // As the model wrote it, where that is known.
            Arguments::Text if call.function.arguments.is_string() => call.function.arguments.clone(),
            Arguments::Text => Value::Object(arguments).to_string().into(),
        };
    }
    Ok(variable)
}

/// The texts of parts, one on a line.
fn joined(parts: &[Map<String, Value>]) -> Result<String, String> {
    let text = |part: &Map<String, Value>| match part.get("text") {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => {
            let kind = part.get("type").unwrap_or(&Value::Null);
            Err(format!("a part is of type {kind}, and the chat template of this model takes text only"))
        }
    };
    Ok(parts.iter().map(text).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// Arguments as an object. The API has them as a text, which is empty where a function takes none.
fn arguments(arguments: &Value) -> Result<Map<String, Value>, String> {
    match arguments {
        Value::Object(object) => Ok(object.clone()),
        Value::Null => Ok(Map::new()),
        Value::String(text) if text.trim().is_empty() => Ok(Map::new()),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err("are JSON, but no object".into()),
            Err(error) => Err(format!("are no JSON: {error}")),
        },
        _ => Err("are no object and no text that holds one".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::trial::Tools;

    const OBJECTS: Expectations = Expectations {
        parts: Parts::Listed,
        arguments: Arguments::Object,
        silence: Silence::Empty,
        tools: Tools::Ignored,
    };
    const TEXTS: Expectations = Expectations {
        parts: Parts::Joined,
        arguments: Arguments::Text,
        silence: Silence::None,
        tools: Tools::Ignored,
    };

    fn seen(message: Value, expectations: &Expectations) -> Result<Value> {
        let messages = vec![serde_json::from_value(message).unwrap()];
        let variables = ChatInput { messages, ..ChatInput::default() }.variables(expectations)?;
        Ok(variables["messages"][0].clone())
    }

    fn call(arguments: Value) -> Value {
        json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]})
    }

    fn sentence(message: Value, expectations: &Expectations) -> String {
        seen(message, expectations).unwrap_err().to_string()
    }

    #[test]
    fn arguments_are_an_object_whether_they_came_as_one_or_as_a_text() {
        for arguments in [json!({"b": 1, "a": [2]}), json!(r#"{"b": 1, "a": [2]}"#)] {
            let message = seen(call(arguments.clone()), &OBJECTS).unwrap();
            assert_eq!(message["tool_calls"][0]["function"]["arguments"].to_string(), r#"{"b":1,"a":[2]}"#);
        }
        for (arguments, text) in [
            (json!({"b": 1, "a": [2]}), r#"{"b":1,"a":[2]}"#),
            (json!(r#"{"b": 1, "a": [2]}"#), r#"{"b": 1, "a": [2]}"#),
        ] {
            assert_eq!(
                seen(call(arguments), &TEXTS).unwrap()["tool_calls"][0]["function"]["arguments"],
                text
            );
        }
        for none in [json!(""), json!(null), json!({})] {
            assert_eq!(
                seen(call(none), &OBJECTS).unwrap()["tool_calls"][0]["function"]["arguments"],
                json!({})
            );
        }
    }

    #[test]
    fn arguments_that_are_no_object_are_refused_with_message_and_function() {
        assert!(
            sentence(call(json!("{\"a\"")), &OBJECTS)
                .starts_with("message 1: the arguments of f are no JSON: ")
        );
        assert_eq!(
            sentence(call(json!("[1]")), &OBJECTS),
            "message 1: the arguments of f are JSON, but no object"
        );
        assert_eq!(
            sentence(call(json!(5)), &OBJECTS),
            "message 1: the arguments of f are no object and no text that holds one"
        );
    }

    #[test]
    fn an_assistant_that_said_nothing_is_given_the_content_that_the_template_wants() {
        assert_eq!(seen(call(json!({})), &OBJECTS).unwrap()["content"], "");
        assert_eq!(seen(call(json!({})), &TEXTS).unwrap()["content"], Value::Null);
        assert_eq!(seen(json!({"role": "user"}), &TEXTS).unwrap()["content"], "");
    }

    #[test]
    fn parts_are_joined_for_templates_that_take_texts_only_and_pictures_refused() {
        let parts = json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
        assert_eq!(seen(parts.clone(), &TEXTS).unwrap()["content"], "a\nb");
        assert_eq!(seen(parts.clone(), &OBJECTS).unwrap()["content"], parts["content"]);
        assert_eq!(
            sentence(json!({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}), &TEXTS),
            "message 1: a part is of type \"image_url\", and the chat template of this model takes text only"
        );
    }

    #[test]
    fn no_tools_are_none_and_reasoning_has_both_names() {
        let variables = ChatInput::default().variables(&OBJECTS).unwrap();
        assert_eq!(variables["tools"], Value::Null);
        assert_eq!(variables["add_generation_prompt"], false);
        let message = seen(json!({"role": "assistant", "content": "b", "reasoning": "a"}), &OBJECTS).unwrap();
        assert_eq!((&message["reasoning"], &message["reasoning_content"]), (&json!("a"), &json!("a")));
        assert_eq!(message.get("tool_calls"), None);
    }

    #[test]
    fn variables_of_the_caller_do_not_replace_the_conversation() {
        let extra = json!({"messages": [], "enable_thinking": false, "documents": ["d"]})
            .as_object()
            .unwrap()
            .clone();
        let messages = vec![Message::new(Role::User, "a")];
        let variables = ChatInput { messages, extra, ..ChatInput::default() }.variables(&OBJECTS).unwrap();
        assert_eq!(variables["messages"].as_array().unwrap().len(), 1);
        assert_eq!(variables["enable_thinking"], false);
        assert_eq!(variables["documents"], json!(["d"]));
    }
}
