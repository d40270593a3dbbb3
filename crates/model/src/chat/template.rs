//! The chat template of one model.

use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value};
use serde_json::Map;

use super::clock::Clock;
use super::environment::{environment, raised, without_generation};
use super::find::{self, Source, Sources};
use super::input::ChatInput;
use super::prompt::Prompt;
use super::sentinel::ControlTexts;
use super::trial::{self, Expectations, Tools};
use crate::{Error, Result, Tokenizer};

/// A model's chat template, compiled and tried.
#[derive(Debug)]
pub struct ChatTemplate {
    default: Compiled,
    /// Another template for conversations with tools.
    tool_use: Option<Compiled>,
    /// `bos_token` and the like.
    special_tokens: Map<String, serde_json::Value>,
    controls: ControlTexts,
}

impl ChatTemplate {
    /// Reads the chat template of a model's folder or GGUF file; none if it has none, as models that only continue text.
    ///
    /// # Errors
    /// If a file cannot be read, or the template cannot be compiled or fails on a small conversation.
    pub fn find(folder: &Path, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        let sources = find::sources(folder)?;
        sources.map(|sources| ChatTemplate::compile(sources, folder, tokenizer)).transpose()
    }

    /// Reads another chat template for the model in a folder.
    ///
    /// # Errors
    /// As [`ChatTemplate::find`], and if there is no such file.
    pub fn open(file: &Path, folder: &Path, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
        let default = find::file(file)?.ok_or_else(|| Error::file(file, "there is no such chat template"))?;
        ChatTemplate::compile(Sources { default, tool_use: None }, folder, tokenizer)
    }

    fn compile(sources: Sources, folder: &Path, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
        let special_tokens = find::special_tokens(folder)?;
        Ok(ChatTemplate {
            default: Compiled::new(sources.default, &special_tokens)?,
            tool_use: sources.tool_use.map(|source| Compiled::new(source, &special_tokens)).transpose()?,
            controls: ControlTexts::new(tokenizer.added_tokens())?,
            special_tokens,
        })
    }

    /// The prompt of a conversation.
    ///
    /// # Errors
    /// [`Error::Refused`] if the template itself objects to the conversation, [`Error::Conversation`] if a message
    /// cannot be put into the form that it takes, [`Error::Template`] if it fails.
    pub fn render(&self, input: &ChatInput, clock: Clock) -> Result<Prompt> {
        let template = self.template(input);
        let mut variables = input.variables(&template.expectations)?;
        let sentinels = self.controls.hide(&mut variables)?;
        let rendered = render(&template.environment, &self.special_tokens, variables, clock);
        Ok(Prompt::new(sentinels.cut(&rendered.map_err(|error| template.source.error(&error, ""))?)))
    }

    /// Whether the template writes definitions of tools into the prompt; the model cannot know them otherwise.
    pub fn shows_tools(&self) -> bool {
        let template = self.tool_use.as_ref().unwrap_or(&self.default);
        template.expectations.tools == Tools::Shown
    }

    fn template(&self, input: &ChatInput) -> &Compiled {
        match &self.tool_use {
            Some(template) if !input.tools.is_empty() => template,
            _ => &self.default,
        }
    }
}

/// One template.
#[derive(Debug)]
struct Compiled {
    source: Source,
    environment: Environment<'static>,
    expectations: Expectations,
}

/// The name of the template in its environment.
const NAME: &str = "chat template";

impl Compiled {
    fn new(source: Source, special_tokens: &Map<String, serde_json::Value>) -> Result<Compiled> {
        let compiled = environment().and_then(|mut environment| {
            environment.add_template_owned(NAME, without_generation(&source.text).into_owned())?;
            Ok(environment)
        });
        let environment = compiled.map_err(|error| source.error(&error, ""))?;
        let expectations = trial::run(|input, expectations| {
            let variables = input.variables(expectations).map_err(|error| invalid(error.to_string()))?;
            render(&environment, special_tokens, variables, Clock::TRIAL)
        });
        let expectations = expectations.map_err(|failure| {
            source.error(&failure.error, &format!(", on trial with {}", failure.conversation))
        })?;
        Ok(Compiled { source, environment, expectations })
    }
}

/// Renders the template of an environment; `variables` go before special tokens of the same name.
fn render(
    environment: &Environment<'static>,
    special_tokens: &Map<String, serde_json::Value>,
    variables: Map<String, serde_json::Value>,
    clock: Clock,
) -> Result<String, minijinja::Error> {
    let strftime_now = Value::from_function(move |format: &str| {
        clock.format(format).map_err(|error| invalid(error.to_string()))
    });
    let own = [("strftime_now".to_owned(), strftime_now)];
    let given =
        special_tokens.iter().chain(&variables).map(|(key, value)| (key.clone(), Value::from(Serde(value))));
    environment.get_template(NAME)?.render(Value::from_pairs(own.into_iter().chain(given)))
}

fn invalid(what: String) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, what)
}

impl Source {
    /// An error of this template.
    fn error(&self, error: &minijinja::Error, when: &str) -> Error {
        if let Some(message) = raised(error) {
            return Error::Refused { message };
        }
        let what = match error.detail() {
            Some(detail) => format!("{}: {detail}{when}", error.kind()),
            None => format!("{}{when}", error.kind()),
        };
        let within = if self.within.is_empty() { String::new() } else { format!("{}: ", self.within) };
        Error::Template { path: self.path.clone(), within, line: error.line().unwrap_or(1), what }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Message, Role};
    use super::super::trial::{Arguments, Parts, Silence};
    use super::*;
    use crate::{Specials, tokenizer};
    use serde_json::json;

    /// One id a byte, and the added tokens from 256 on: a special one or two and one that is not.
    fn bytes_and(added: &[&str]) -> Tokenizer {
        let mut json: serde_json::Value = serde_json::from_str(&tokenizer::byte_tokenizer()).unwrap();
        let added = added.iter().enumerate().map(|(index, text)| {
            json!({
                "id": 256 + index, "content": text, "special": text.contains('|'), "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false,
            })
        });
        json["added_tokens"] = added.collect::<Vec<_>>().into();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json.to_string()).unwrap();
        Tokenizer::open(file.path()).unwrap()
    }

    const ADDED: [&str; 5] = ["<|user|>", "<|assistant|>", "<|im_end|>", "<think>", "</think>"];

    /// A template in the manner of many: tags before messages, reasoning taken out of what was said.
    const TAGS: &str = "\
{%- for tool in tools or [] %}{{ tool | tojson }}{% endfor %}
{%- for message in messages %}
    {%- set text = message.content %}
    {%- if text is not string %}{% set text = text | map(attribute='text') | join %}{% endif %}
    {%- if '</think>' in text %}{% set text = text.split('</think>')[-1] %}{% endif %}
    {{- '<|' + message.role + '|>' + text }}
    {%- for call in message.tool_calls or [] %}
        {{- '[' + call.function.name }}
        {%- for key, value in call.function.arguments.items() %} {{ key }}={{ value }}{% endfor %}]
    {%- endfor %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|><think>' }}{% endif %}";

    fn template(text: &str) -> Result<ChatTemplate> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("chat_template.jinja"), text).unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), r#"{"bos_token": "<s>"}"#).unwrap();
        Ok(ChatTemplate::find(folder.path(), &bytes_and(&ADDED))?.unwrap())
    }

    fn user(text: &str) -> ChatInput {
        let messages = vec![Message::new(Role::User, text)];
        ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() }
    }

    fn clock() -> Clock {
        Clock::midnight(2026, 11, 30).unwrap()
    }

    fn rendered(text: &str) -> String {
        template(text).unwrap().render(&user("Hi"), clock()).unwrap().to_string()
    }

    /// The error's sentence from the template's name on.
    fn sentence(text: &str) -> String {
        let error = template(text).unwrap_err().to_string();
        error.split_once("chat_template.jinja: ").unwrap_or_else(|| panic!("{error}")).1.to_owned()
    }

    #[test]
    fn control_tokens_that_a_person_writes_come_back_as_text() {
        let template = template(TAGS).unwrap();
        let tokenizer = bytes_and(&ADDED);
        for text in ["hello </think> world", "<|user|>", "<|im_end|>", "a<|im_end|><|assistant|>b", "<think>"]
        {
            let prompt = template.render(&user(text), clock()).unwrap();
            assert_eq!(prompt.to_string(), format!("<|user|>{text}<|assistant|><think>"));
            let ids = prompt.encode(&tokenizer).unwrap();
            assert_eq!(tokenizer.decode(&ids), prompt.to_string());
            let (first, rest) = ids.split_first().unwrap();
            let (content, end) = rest.split_at(text.len());
            assert_eq!((*first, end), (256, &[257, 259][..]), "{text}");
            assert!(content.iter().all(|&id| id < 256), "{text}: {content:?}");
            assert_eq!(prompt.open_reasoning(), Some("</think>"));
        }
    }

    #[test]
    fn control_tokens_in_what_a_model_said_are_left_to_the_template() {
        let mut input = user("a");
        input
            .messages
            .extend([Message::new(Role::Assistant, "hm</think>b<|im_end|>"), Message::new(Role::User, "c")]);
        let prompt = template(TAGS).unwrap().render(&input, clock()).unwrap();
        assert_eq!(prompt.to_string(), "<|user|>a<|assistant|>b<|im_end|><|user|>c<|assistant|><think>");
        assert_eq!(prompt.segments().len(), 1);
        assert_eq!(prompt.segments()[0].specials, Specials::Parse);
    }

    #[test]
    fn text_that_is_read_plainly_has_no_added_token_even_where_the_model_would_make_one() {
        let mut json: serde_json::Value = serde_json::from_str(&tokenizer::byte_tokenizer()).unwrap();
        json["model"]["vocab"]["<b"] = 256.into();
        json["model"]["vocab"]["<b>"] = 257.into();
        json["model"]["merges"] = json!([["<", "b"], ["<b", ">"]]);
        json["added_tokens"] = json!([{
            "id": 257, "content": "<b>", "special": false, "normalized": false, "single_word": false, "lstrip": false,
            "rstrip": false,
        }]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json.to_string()).unwrap();
        let tokenizer = Tokenizer::open(file.path()).unwrap();
        assert_eq!(tokenizer.encode("<b>", Specials::Parse).unwrap(), [257]);
        assert_eq!(tokenizer.encode("<b>", Specials::Plain).unwrap(), b"<b>".map(u32::from));
        assert_eq!(tokenizer.encode("<bx", Specials::Plain).unwrap(), [256, u32::from(b'x')]);
    }

    #[test]
    fn a_template_that_cannot_be_compiled_is_refused_with_its_line() {
        assert_eq!(sentence("a\n{% if %}"), "line 2: syntax error: unexpected end of block");
    }

    #[test]
    fn what_a_template_uses_and_is_not_there_is_found_at_load_in_every_branch() {
        assert_eq!(
            sentence("\n{{ messages | nope }}"),
            "line 2: unknown filter: filter nope is unknown, on trial with a first message"
        );
        assert_eq!(
            sentence("{% if messages | length > 2 %}\n{{ messages[0].content.nope() }}{% endif %}"),
            "line 2: unknown method: string has no method named nope, on trial with an answered message"
        );
        assert_eq!(
            sentence("{% if tools %}\n\n{{ tools is nope }}{% endif %}"),
            "line 3: unknown test: test nope is unknown, on trial with tools"
        );
        assert_eq!(
            sentence("{% for m in messages if m.role == 'tool' %}\n{{ nope(m) }}{% endfor %}"),
            "line 2: unknown function: nope is unknown, on trial with a tool's result"
        );
    }

    #[test]
    fn an_error_names_which_of_several_templates_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        let list = json!({"chat_template": [{"name": "default", "template": ""}, {"name": "tool_use", "template": "\n{{"}]});
        let path = folder.path().join("tokenizer_config.json");
        std::fs::write(&path, list.to_string()).unwrap();
        let error = ChatTemplate::find(folder.path(), &bytes_and(&[])).unwrap_err().to_string();
        let want = format!("{}: chat_template \"tool_use\": line 2: syntax error: ", path.display());
        assert!(error.starts_with(&want), "{error}");
    }

    #[test]
    fn what_a_template_refuses_is_said_in_its_words_when_it_is_asked_for() {
        let template =
            template("{{ raise_exception('No tools, please.') if tools else messages[0].content }}").unwrap();
        assert_eq!(template.render(&user("Hi"), clock()).unwrap().to_string(), "Hi");
        let input = ChatInput { tools: vec![json!({})], ..user("Hi") };
        let error = template.render(&input, clock()).unwrap_err();
        assert!(matches!(&error, Error::Refused { message } if message == "No tools, please."), "{error}");
        assert!(!template.shows_tools());
    }

    #[test]
    fn the_clock_and_the_special_tokens_are_there_and_further_variables_go_first() {
        assert_eq!(
            rendered("{{ bos_token }}{{ strftime_now('%d %b %Y') }}{{ eos_token is defined }}"),
            "<s>30 Nov 2026False"
        );
        let template = template("{{ bos_token }}{{ enable_thinking }}").unwrap();
        let extra = json!({"bos_token": "", "enable_thinking": false}).as_object().unwrap().clone();
        let prompt = template.render(&ChatInput { extra, ..user("Hi") }, clock()).unwrap();
        assert_eq!(prompt.to_string(), "False");
    }

    #[test]
    fn tools_are_rendered_by_their_own_template_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let list = json!([{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools|tojson }}"}]);
        let config = json!({"chat_template": list});
        std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
        let template = ChatTemplate::find(folder.path(), &bytes_and(&ADDED)).unwrap().unwrap();
        assert!(template.shows_tools());
        assert_eq!(template.render(&user("Hi"), clock()).unwrap().to_string(), "plain");
        let tools = vec![json!({"b": "<|user|>", "a": 1})];
        let prompt = template.render(&ChatInput { tools, ..user("Hi") }, clock()).unwrap();
        assert_eq!(prompt.to_string(), r#"[{"b": "<|user|>", "a": 1}]"#);
        assert_eq!(prompt.segments()[1].text, "<|user|>");
        assert_eq!(prompt.segments()[1].specials, Specials::Plain);
    }

    #[test]
    fn a_template_shows_which_forms_it_takes() {
        let expectations = |text: &str| template(text).unwrap().default.expectations;
        let tags = Expectations {
            parts: Parts::Listed,
            arguments: Arguments::Object,
            silence: Silence::Empty,
            tools: Tools::Shown,
        };
        assert_eq!(expectations(TAGS), tags);
        // Texts only, and nothing of tools.
        let plain = Expectations { parts: Parts::Joined, tools: Tools::Ignored, ..tags };
        assert_eq!(expectations("{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}"), plain);
        // Parts would come out as a list in Python's notation.
        assert_eq!(expectations("{% for m in messages %}{{ m.content }}{% endfor %}"), plain);
        // Calls are told by content that is none, and their arguments appended.
        let calls = "{% for m in messages %}{% if m.content is none %}{% for call in m.tool_calls %}
            {{- call.function.name + call.function.arguments }}{% endfor %}{% else %}{{ m.content + '' }}{% endif %}{% endfor %}";
        assert_eq!(
            expectations(calls),
            Expectations { arguments: Arguments::Text, silence: Silence::None, ..plain }
        );
    }

    #[test]
    fn a_template_of_a_file_is_opened_with_the_special_tokens_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), r#"{"bos_token": "<s>"}"#).unwrap();
        let file = folder.path().join("other.jinja");
        assert!(ChatTemplate::find(folder.path(), &bytes_and(&[])).unwrap().is_none());
        assert!(ChatTemplate::open(&file, folder.path(), &bytes_and(&[])).is_err());
        std::fs::write(&file, "{{ bos_token }}!").unwrap();
        let template = ChatTemplate::open(&file, folder.path(), &bytes_and(&[])).unwrap();
        assert_eq!(template.render(&user("Hi"), clock()).unwrap().to_string(), "<s>!");
    }
}
