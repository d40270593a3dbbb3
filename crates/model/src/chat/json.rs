//! JSON as templates write it: `tojson` and `fromjson`.

use std::fmt::Write;

use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// The filter `tojson`, with the defaults of the Python library that templates are written for: characters
/// outside ASCII stay as they are, items are separated by `, ` and keys from values by `: `.
///
/// # Errors
/// If the value has no JSON form: it is undefined, bytes or a function.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    let style = Style::read(&options)?;
    let mut out = String::new();
    style.write(&mut out, value, 0)?;
    Ok(out)
}

/// The filter `fromjson`.
///
/// # Errors
/// If the text is no JSON.
pub(super) fn fromjson(text: &str) -> Result<Value, Error> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| invalid(format!("fromjson of what is no JSON: {error}")))?;
    Ok(Value::from(Serde(&value)))
}

/// The widest indent of a level, in spaces.
const WIDEST: usize = 64;

/// The layout that a template asks for.
struct Style {
    characters: Characters,
    /// What a level is indented by; none writes everything in one line.
    indent: Option<String>,
    between_items: String,
    after_key: String,
    order: Order,
}

/// What becomes of characters outside ASCII.
enum Characters {
    Plain,
    /// `\uXXXX`, but for the last private-use planes: those characters may be sentinels.
    Escaped,
}

/// The order of an object's keys.
enum Order {
    AsGiven,
    Sorted,
}

impl Style {
    fn read(options: &Kwargs) -> Result<Style, Error> {
        let flag = |name: &str| {
            Ok::<_, Error>(options.get::<Option<Value>>(name)?.is_some_and(|value| value.is_true()))
        };
        let characters = if flag("ensure_ascii")? { Characters::Escaped } else { Characters::Plain };
        let order = if flag("sort_keys")? { Order::Sorted } else { Order::AsGiven };
        let indent = match options.get::<Option<Value>>("indent")?.filter(|indent| !indent.is_none()) {
            None => None,
            Some(indent) => Some(match (indent.as_str(), indent.as_usize()) {
                (Some(text), _) => text.to_owned(),
                (None, Some(spaces @ 0..=WIDEST)) => " ".repeat(spaces),
                _ => {
                    return Err(invalid(format!(
                        "tojson with an indent of {indent}, at most {WIDEST} is supported"
                    )));
                }
            }),
        };
        let (mut between_items, mut after_key) =
            (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
        if let Some(separators) = options.get::<Option<Vec<String>>>("separators")? {
            let [items, keys] = <[String; 2]>::try_from(separators)
                .map_err(|_| invalid("separators of tojson are two texts"))?;
            (between_items, after_key) = (items, keys);
        }
        options.assert_all_used()?;
        Ok(Style { characters, indent, between_items, after_key, order })
    }

    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
            ValueKind::Number => out.push_str(&float(f64::try_from(value.clone())?)),
            ValueKind::String => self.write_text(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_all(out, ['[', ']'], items.len(), depth, |out, index| {
                    self.write(out, &items[index], depth + 1)
                })?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if matches!(self.order, Order::Sorted) {
                    keys.sort();
                }
                self.write_all(out, ['{', '}'], keys.len(), depth, |out, index| {
                    let key = &keys[index];
                    match key.as_str() {
                        Some(text) => self.write_text(out, text),
                        None => {
                            out.push('"');
                            self.write(out, key, depth)?;
                            out.push('"');
                        }
                    }
                    out.push_str(&self.after_key);
                    self.write(out, &value.get_item(key)?, depth + 1)
                })?;
            }
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson of a value that is {kind}"),
                ));
            }
        }
        Ok(())
    }

    /// Writes brackets around `count` items, each on a line of its own if there is an indent.
    fn write_all(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        count: usize,
        depth: usize,
        item: impl Fn(&mut String, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |out: &mut String, depth: usize| {
            if let Some(indent) = &self.indent {
                out.push('\n');
                out.push_str(&indent.repeat(depth));
            }
        };
        out.push(open);
        for index in 0..count {
            if index > 0 {
                out.push_str(&self.between_items);
            }
            line(out, depth + 1);
            item(out, index)?;
        }
        if count > 0 {
            line(out, depth);
        }
        out.push(close);
        Ok(())
    }

    fn write_text(&self, out: &mut String, text: &str) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\0'..='\u{1f}' => escape(out, character),
                '\u{7f}'..'\u{f0000}' if matches!(self.characters, Characters::Escaped) => {
                    escape(out, character);
                }
                _ => out.push(character),
            }
        }
        out.push('"');
    }
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// Writes a character as `\uXXXX`, or as two of them.
fn escape(out: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// A float as Python writes it: the shortest digits that give it back, with an exponent of at least two digits
/// outside 1e-4 to 1e16 (where Rust's debug form has its exponent too).
fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let text = format!("{number:?}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) =
                exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(options: &[(&str, Value)]) -> Result<String, Error> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        tojson(&Value::from(vec!["\u{e9}\u{1f600}\u{f0000}"]), options)
    }

    #[test]
    fn sentinels_survive_when_everything_outside_ascii_is_escaped() {
        let escaped = with(&[("ensure_ascii", Value::from(true))]).unwrap();
        assert_eq!(escaped, "[\"\\u00e9\\ud83d\\ude00\u{f0000}\"]");
        assert_eq!(with(&[]).unwrap(), "[\"\u{e9}\u{1f600}\u{f0000}\"]");
    }

    #[test]
    fn layouts_that_make_no_sense_are_refused() {
        assert!(with(&[("indent", Value::from(64))]).is_ok());
        for (name, value) in [
            ("indent", Value::from(65)),
            ("indent", Value::from(-1)),
            ("separators", Value::from(vec![","])),
            ("colour", Value::from(1)),
        ] {
            assert!(with(&[(name, value.clone())]).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn numbers_that_json_has_no_word_for_are_written_as_python_does() {
        for (number, want) in
            [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")]
        {
            assert_eq!(float(number), want);
        }
    }
}
