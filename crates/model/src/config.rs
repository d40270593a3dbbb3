//! A model's `config.json`: what is in it, and what the code relies on.
//!
//! An architecture reads the keys it needs and *requires* the values that its maths relies on, so that a
//! model which asks for something else is refused by name and never run as if it had not asked.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Sizes are at most this, so that a product of two and a few bytes is far from overflowing 64 bits.
const LARGEST: u32 = 1 << 28;

/// The settings of a text model: `config.json`, or the `text_config` within it.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    path: PathBuf,
    /// The objects around the keys, for messages: empty, or for instance `text_config.`.
    within: String,
    text: Map<String, Value>,
    /// The keys beside `text_config`; empty where nothing is nested.
    around: Map<String, Value>,
}

/// What [`Config::whole`] needs, in words.
const WHOLE: &str = "a whole number";

impl Config {
    /// Reads a configuration file.
    pub(crate) fn open(path: &Path) -> Result<Config> {
        let json = std::fs::read_to_string(path).map_err(|error| Error::io(path, &error))?;
        Config::parse(path, &json)
    }

    /// Reads a configuration from its text; `path` is for messages.
    pub(crate) fn parse(path: &Path, json: &str) -> Result<Config> {
        let mut text = object(path, json)?;
        match text.remove("text_config") {
            Some(Value::Object(nested)) => {
                Ok(Config { path: path.into(), within: "text_config.".into(), text: nested, around: text })
            }
            None | Some(Value::Null) => {
                Ok(Config { path: path.into(), within: String::new(), text, around: Map::new() })
            }
            Some(_) => Err(Error::file(path, "text_config is no object")),
        }
    }

    /// The file, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The value of a key, or none where it is absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.text.get(key).filter(|value| !value.is_null())
    }

    /// As [`Config::get`], but looks beside `text_config` too: for the few keys that wrappers of text models
    /// keep at the top.
    pub(crate) fn get_around(&self, key: &str) -> Option<&Value> {
        self.get(key).or_else(|| self.around.get(key).filter(|value| !value.is_null()))
    }

    /// The object under a key, as a configuration of its own.
    pub(crate) fn object(&self, key: &str) -> Result<Option<Config>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(Config {
                path: self.path.clone(),
                within: format!("{}{key}.", self.within),
                text: object.clone(),
                around: Map::new(),
            })),
            Some(other) => Err(self.error(key, format!("is {other}, an object is needed"))),
        }
    }

    /// A positive whole number that must be there, at most [`LARGEST`].
    pub(crate) fn count(&self, key: &str) -> Result<u32> {
        self.optional_count(key)?.ok_or_else(|| self.absent(key, "a positive whole number"))
    }

    /// As [`Config::count`], or none where the key is absent.
    pub(crate) fn optional_count(&self, key: &str) -> Result<Option<u32>> {
        let count =
            self.optional(key, "a positive whole number", |value| value.as_u64().filter(|&n| n > 0))?;
        let count = count.map(|count| match u32::try_from(count) {
            Ok(count) if count <= LARGEST => Ok(count),
            _ => Err(self.error(key, format!("is {count}, at most {LARGEST} is supported"))),
        });
        count.transpose()
    }

    /// A whole number, perhaps 0, that must be there.
    pub(crate) fn whole(&self, key: &str) -> Result<u32> {
        self.optional_whole(key)?.ok_or_else(|| self.absent(key, WHOLE))
    }

    /// A whole number, perhaps 0, or none where the key is absent.
    pub(crate) fn optional_whole(&self, key: &str) -> Result<Option<u32>> {
        self.optional(key, WHOLE, |value| value.as_u64()?.try_into().ok())
    }

    /// A positive whole number of at most `most`.
    pub(crate) fn count_up_to(&self, key: &str, most: u32) -> Result<u32> {
        match self.count(key)? {
            count if count <= most => Ok(count),
            count => Err(self.error(key, format!("is {count}, at most {most} is supported"))),
        }
    }

    /// A finite number that must be there.
    pub(crate) fn number(&self, key: &str) -> Result<f64> {
        self.optional_number(key)?.ok_or_else(|| self.absent(key, "a number"))
    }

    /// A finite number, or none where the key is absent.
    pub(crate) fn optional_number(&self, key: &str) -> Result<Option<f64>> {
        self.optional(key, "a number", Value::as_f64)
    }

    /// True or false, or none where the key is absent.
    pub(crate) fn optional_flag(&self, key: &str) -> Result<Option<bool>> {
        self.optional(key, "true or false", Value::as_bool)
    }

    /// True or false that must be there.
    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        self.optional_flag(key)?.ok_or_else(|| self.absent(key, "true or false"))
    }

    /// A text that must be there.
    pub(crate) fn text(&self, key: &str) -> Result<&str> {
        self.optional_text(key)?.ok_or_else(|| self.absent(key, "a text"))
    }

    /// A text, or none where the key is absent.
    pub(crate) fn optional_text(&self, key: &str) -> Result<Option<&str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.error(key, format!("is {other}, a text is needed"))),
        }
    }

    /// A list, or none where the key is absent.
    pub(crate) fn optional_list(&self, key: &str) -> Result<Option<&[Value]>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(self.error(key, format!("is {other}, a list is needed"))),
        }
    }

    /// Says what the code relies on: the key is absent or has this value.
    ///
    /// # Errors
    /// With the value found and the one supported.
    pub(crate) fn require(&self, key: &str, value: impl Into<Value>) -> Result<()> {
        let needed = value.into();
        let equal = |found: &Value| match (found.as_f64(), needed.as_f64()) {
            (Some(found), Some(needed)) => found == needed,
            _ => *found == needed,
        };
        match self.get(key) {
            Some(found) if !equal(found) => {
                Err(self.error(key, format!("{found} is not supported, only {needed} is")))
            }
            _ => Ok(()),
        }
    }

    /// An error about a key.
    pub(crate) fn error(&self, key: &str, what: impl Into<String>) -> Error {
        Error::Config { path: self.path.clone(), key: format!("{}{key}", self.within), what: what.into() }
    }

    /// Replaces a value; how a shape gets another number of layers.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.text.insert(key.into(), value);
    }

    /// The whole file again, as text.
    pub(crate) fn to_json(&self) -> String {
        let mut whole = self.around.clone();
        if self.within.is_empty() {
            whole.extend(self.text.clone());
        } else {
            whole.insert("text_config".into(), Value::Object(self.text.clone()));
        }
        format!("{:#}\n", Value::Object(whole))
    }

    fn absent(&self, key: &str, needed: &str) -> Error {
        self.error(key, format!("is absent, {needed} is needed"))
    }

    fn optional<T>(&self, key: &str, needed: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
        let read =
            |value| read(value).ok_or_else(|| self.error(key, format!("is {value}, {needed} is needed")));
        self.get(key).map(read).transpose()
    }
}

/// The JSON object that a file holds.
pub(crate) fn object(path: &Path, json: &str) -> Result<Map<String, Value>> {
    match serde_json::from_str(json) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Error::file(path, "a JSON object is needed, this is another value")),
        Err(error) => Err(Error::file(path, format!("is no JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: &str) -> Config {
        Config::parse(Path::new("config.json"), json).unwrap()
    }

    fn sentence<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn an_absent_key_and_one_of_another_type_are_named() {
        let config = config(r#"{"hidden_size": 0, "eps": "small", "theta": 1e4}"#);
        assert_eq!(
            sentence(config.count("layers")),
            "config.json: layers: is absent, a positive whole number is needed"
        );
        assert_eq!(
            sentence(config.count("hidden_size")),
            "config.json: hidden_size: is 0, a positive whole number is needed"
        );
        assert_eq!(sentence(config.number("eps")), "config.json: eps: is \"small\", a number is needed");
        assert_eq!(config.number("theta").unwrap(), 10_000.0);
    }

    #[test]
    fn what_the_code_relies_on_may_be_absent_or_null_but_nothing_else() {
        let config = config(r#"{"hidden_act": "gelu", "n_group": 1.0, "sliding_window": null}"#);
        assert_eq!(
            sentence(config.require("hidden_act", "silu")),
            "config.json: hidden_act: \"gelu\" is not supported, only \"silu\" is"
        );
        config.require("n_group", 1).unwrap();
        config.require("sliding_window", false).unwrap();
        config.require("mlp_bias", false).unwrap();
    }

    #[test]
    fn text_settings_may_be_nested_and_only_some_keys_are_looked_up_around_them() {
        let config = config(r#"{"hidden_size": 8, "eos_token_id": 2, "text_config": {"vocab_size": 5}}"#);
        assert_eq!(config.count("vocab_size").unwrap(), 5);
        assert_eq!(config.get_around("eos_token_id"), Some(&Value::from(2)));
        assert_eq!(
            sentence(config.count("hidden_size")),
            "config.json: text_config.hidden_size: is absent, a positive whole number is needed"
        );
    }

    #[test]
    fn a_configuration_survives_being_written() {
        for json in [r#"{"a": 1}"#, r#"{"b": [2], "text_config": {"a": 1}}"#] {
            let once = config(json).to_json();
            assert_eq!(config(&once).to_json(), once);
            assert_eq!(
                serde_json::from_str::<Value>(&once).unwrap(),
                serde_json::from_str::<Value>(json).unwrap()
            );
        }
    }
}
