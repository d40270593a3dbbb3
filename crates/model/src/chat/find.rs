//! Where a model's folder or GGUF file keeps its chat templates and the variables that they use.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::checkpoint::gguf::{self, Gguf};
use crate::{Error, Result, config};

/// The text of a template and where it is from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The file.
    pub(super) path: PathBuf,
    /// Where in the file, for messages; empty if it is all of it.
    pub(super) within: String,
    /// The template.
    pub(super) text: String,
}

/// The templates of a folder.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    /// The usual one.
    pub(super) default: Source,
    /// The one for conversations with tools, if that is another.
    pub(super) tool_use: Option<Source>,
}

/// The name that template lists give to the usual template.
const DEFAULT: &str = "default";
/// The name that template lists give to the one for tools.
const TOOL_USE: &str = "tool_use";
/// The key of templates in JSON files.
const KEY: &str = "chat_template";
/// The file that holds special tokens, and in older models the template.
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// Finds the templates of a folder; none if it has no template.
///
/// `chat_template.jinja` is newer than `tokenizer_config.json`, where the template was before, and goes first;
/// `chat_template.json` is how some multimodal models keep it.
///
/// # Errors
/// If a file cannot be read or holds something else, or if templates have names but none is the usual one.
pub(super) fn sources(folder: &Path) -> Result<Option<Sources>> {
    if let Some(file) = gguf::find(folder)? {
        let source = |(key, text): (&str, &str)| Source {
            path: file.clone(),
            within: key.into(),
            text: newlines(text),
        };
        let default = Gguf::open(&file)?.chat_template()?.map(source);
        return Ok(default.map(|default| Sources { default, tool_use: None }));
    }
    if let Some(default) = file(&folder.join("chat_template.jinja"))? {
        let tool_use = file(&folder.join("additional_chat_templates").join("tool_use.jinja"))?;
        return Ok(Some(Sources { default, tool_use }));
    }
    for name in [TOKENIZER_CONFIG, "chat_template.json"] {
        let path = folder.join(name);
        let Some(mut object) = json(&path)? else { continue };
        match object.remove(KEY) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => {
                let default = Source { path, within: KEY.into(), text: newlines(&text) };
                return Ok(Some(Sources { default, tool_use: None }));
            }
            Some(Value::Array(list)) => return named(&path, &list).map(Some),
            Some(_) => {
                let what = "is no text and no list of named templates";
                return Err(Error::Config { path, key: KEY.into(), what: what.into() });
            }
        }
    }
    Ok(None)
}

/// A template that is all of a file; none if there is no such file.
pub(super) fn file(path: &Path) -> Result<Option<Source>> {
    let text = read(path)?;
    Ok(text.map(|text| Source { path: path.into(), within: String::new(), text: newlines(&text) }))
}

/// The variables that every template may use: `bos_token`, `eos_token` and so on, as far as the model has them.
///
/// # Errors
/// If a file cannot be read or is no JSON.
pub(super) fn special_tokens(folder: &Path) -> Result<Map<String, Value>> {
    if let Some(file) = gguf::find(folder)? {
        return Gguf::open(&file)?.special_tokens();
    }
    let mut tokens = Map::new();
    for name in ["special_tokens_map.json", TOKENIZER_CONFIG] {
        for (key, value) in json(&folder.join(name))?.unwrap_or_default() {
            let text = match &value {
                Value::String(_) => &value,
                Value::Object(token) => token.get("content").unwrap_or(&Value::Null),
                _ => continue,
            };
            if key.ends_with("_token") && text.is_string() {
                tokens.insert(key, text.clone());
            }
        }
    }
    Ok(tokens)
}

fn named(path: &Path, list: &[Value]) -> Result<Sources> {
    let source = |name: &str| {
        let text = list.iter().find(|entry| entry["name"] == name)?["template"].as_str()?;
        Some(Source { path: path.into(), within: format!("{KEY} \"{name}\""), text: newlines(text) })
    };
    let Some(default) = source(DEFAULT) else {
        let names: Vec<&str> = list.iter().filter_map(|entry| entry["name"].as_str()).collect();
        let what = format!("has no template named {DEFAULT}, only: {}", names.join(", "));
        return Err(Error::Config { path: path.into(), key: KEY.into(), what });
    };
    Ok(Sources { default, tool_use: source(TOOL_USE) })
}

fn json(path: &Path) -> Result<Option<Map<String, Value>>> {
    read(path)?.map(|json| config::object(path, &json)).transpose()
}

/// The text of a file without the byte order mark that some editors put before it; none if there is no file.
fn read(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, &error)),
    }
}

/// A template with the line ends that Jinja reads it with.
fn newlines(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn default(files: &[(&str, &str)]) -> Option<String> {
        sources(folder(files).path()).unwrap().map(|sources| sources.default.text)
    }

    #[test]
    fn a_template_is_found_wherever_models_keep_it_and_the_newest_place_goes_first() {
        let places = [
            ("chat_template.jinja", "one"),
            ("tokenizer_config.json", r#"{"chat_template": "two"}"#),
            ("chat_template.json", r#"{"chat_template": "three"}"#),
        ];
        assert_eq!(default(&places).as_deref(), Some("one"));
        assert_eq!(default(&places[1..]).as_deref(), Some("two"));
        assert_eq!(default(&places[2..]).as_deref(), Some("three"));
        assert_eq!(
            default(&[("tokenizer_config.json", r#"{"chat_template": null}"#), places[2]]).as_deref(),
            Some("three")
        );
        assert_eq!(default(&[("tokenizer_config.json", "{}")]), None);
        assert_eq!(default(&[]), None);
    }

    #[test]
    fn byte_order_marks_and_line_ends_of_another_system_are_no_part_of_a_template() {
        assert_eq!(default(&[("chat_template.jinja", "\u{feff}a\r\nb\rc\n")]).as_deref(), Some("a\nb\nc\n"));
        let config = "\u{feff}{\"chat_template\": \"\\ufeffa\\r\\nb\"}";
        assert_eq!(default(&[("tokenizer_config.json", config)]).as_deref(), Some("a\nb"));
    }

    #[test]
    fn one_of_several_named_templates_may_be_for_tools() {
        let list = json!({"chat_template": [
            {"name": "rag", "template": "r"}, {"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"},
        ]});
        let in_json = folder(&[("tokenizer_config.json", &list.to_string())]);
        let in_files =
            folder(&[("chat_template.jinja", "d"), ("additional_chat_templates/tool_use.jinja", "t")]);
        for folder in [in_json, in_files] {
            let sources = sources(folder.path()).unwrap().unwrap();
            assert_eq!(sources.default.text, "d");
            assert_eq!(sources.tool_use.unwrap().text, "t");
        }
    }

    #[test]
    fn what_is_no_template_is_refused_with_the_file_and_the_key() {
        for (config, want) in [
            (json!({"chat_template": 5}), "chat_template: is no text and no list of named templates"),
            (
                json!({"chat_template": [{"name": "rag", "template": "r"}]}),
                "chat_template: has no template named default, only: rag",
            ),
        ] {
            let folder = folder(&[("tokenizer_config.json", &config.to_string())]);
            let error = sources(folder.path()).unwrap_err().to_string();
            assert_eq!(error, format!("{}: {want}", folder.path().join("tokenizer_config.json").display()));
        }
    }

    #[test]
    fn special_tokens_are_texts_or_objects_and_the_configuration_goes_first() {
        let folder = folder(&[
            ("special_tokens_map.json", r#"{"bos_token": "<old>", "pad_token": {"content": "<pad>"}}"#),
            (
                "tokenizer_config.json",
                r#"{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": null, "add_bos_token": true, "x": "y"}"#,
            ),
        ]);
        let want = json!({"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>"});
        assert_eq!(Value::Object(special_tokens(folder.path()).unwrap()), want);
    }
}
