//! The metadata of a GGUF file: named values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::reader::Reader;
use crate::{Error, Result};

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A whole number from 0 on.
    Whole(u64),
    /// A negative one.
    Negative(i64),
    /// A number of 32 or 64 bits with a fraction.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
    /// Values of one kind, none of them a list.
    List(Vec<Value>),
}

/// All values by their keys.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    path: PathBuf,
    values: BTreeMap<String, Value>,
}

/// The longest list that is read; the largest vocabularies have fewer than a million merges.
const LONGEST_LIST: u64 = 4 << 20;
/// The number of a list among the kinds of values.
const LIST: u32 = 9;

impl Metadata {
    /// Reads `count` keys and values.
    pub(super) fn read(path: &Path, reader: &mut Reader<'_>, count: u64) -> Result<Metadata> {
        let mut values = BTreeMap::new();
        for _ in 0..count {
            let key = reader.text()?;
            let kind = reader.u32()?;
            let value = value(reader, kind)?;
            if values.insert(key.clone(), value).is_some() {
                return Err(reader.damaged(&format!("its header has the key {key} twice")));
            }
        }
        Ok(Metadata { path: path.into(), values })
    }

    /// The value of a key, if it is there.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// A text that must be there.
    pub(crate) fn text(&self, key: &str) -> Result<&str> {
        self.optional_text(key)?.ok_or_else(|| self.absent(key, "a text"))
    }

    /// A text, or none where the key is absent.
    pub(crate) fn optional_text(&self, key: &str) -> Result<Option<&str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, other, "a text")),
        }
    }

    /// A whole number that must be there.
    pub(crate) fn whole(&self, key: &str) -> Result<u64> {
        self.optional_whole(key)?.ok_or_else(|| self.absent(key, "a whole number"))
    }

    /// A whole number, or none where the key is absent.
    pub(crate) fn optional_whole(&self, key: &str) -> Result<Option<u64>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Whole(number)) => Ok(Some(*number)),
            Some(other) => Err(self.wrong(key, other, "a whole number")),
        }
    }

    /// A number, or none where the key is absent.
    pub(crate) fn optional_number(&self, key: &str) -> Result<Option<f64>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(*number)),
            Some(Value::Whole(number)) => Ok(Some(*number as f64)),
            Some(other) => Err(self.wrong(key, other, "a number")),
        }
    }

    /// Whether a flag is there and true.
    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Flag(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(key, other, "true or false")),
        }
    }

    /// A list that must be there.
    pub(crate) fn list(&self, key: &str) -> Result<&[Value]> {
        match self.get(key) {
            None => Err(self.absent(key, "a list")),
            Some(Value::List(list)) => Ok(list),
            Some(other) => Err(self.wrong(key, other, "a list")),
        }
    }

    /// A list of texts that must be there.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&str>> {
        let texts: Option<Vec<&str>> = self.list(key)?.iter().map(Value::as_text).collect();
        texts.ok_or_else(|| self.error(key, "holds something else than texts"))
    }

    /// An error about a key.
    pub(crate) fn error(&self, key: &str, what: impl Into<String>) -> Error {
        Error::Config { path: self.path.clone(), key: key.into(), what: what.into() }
    }

    fn absent(&self, key: &str, needed: &str) -> Error {
        self.error(key, format!("is absent, {needed} is needed"))
    }

    fn wrong(&self, key: &str, value: &Value, needed: &str) -> Error {
        self.error(key, format!("is {}, {needed} is needed", value.described()))
    }
}

impl Value {
    fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn described(&self) -> String {
        match self {
            Value::Whole(number) => number.to_string(),
            Value::Negative(number) => number.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Text(text) => format!("{text:?}"),
            Value::List(list) => format!("a list of {}", list.len()),
        }
    }
}

/// A value of the kind with this number.
fn value(reader: &mut Reader<'_>, kind: u32) -> Result<Value> {
    if kind != LIST {
        return single(reader, kind);
    }
    let (kind, length) = (reader.u32()?, reader.u64()?);
    if length > LONGEST_LIST {
        return Err(reader.damaged(&format!("a list of its header has {length} values")));
    }
    // Grown as values are found, since the length may be anything.
    (0..length).map(|_| single(reader, kind)).collect::<Result<_>>().map(Value::List)
}

fn single(reader: &mut Reader<'_>, kind: u32) -> Result<Value> {
    let signed = |number: i64| u64::try_from(number).map_or(Value::Negative(number), Value::Whole);
    Ok(match kind {
        0 => Value::Whole(u8::from_le_bytes(reader.array()?).into()),
        1 => signed(i8::from_le_bytes(reader.array()?).into()),
        2 => Value::Whole(u16::from_le_bytes(reader.array()?).into()),
        3 => signed(i16::from_le_bytes(reader.array()?).into()),
        4 => Value::Whole(reader.u32()?.into()),
        5 => signed(i32::from_le_bytes(reader.array()?).into()),
        6 => Value::Number(f32::from_le_bytes(reader.array()?).into()),
        7 => match reader.array()? {
            [0] => Value::Flag(false),
            [1] => Value::Flag(true),
            [other] => return Err(reader.damaged(&format!("a flag of its header is {other}"))),
        },
        8 => Value::Text(reader.text()?),
        10 => Value::Whole(reader.u64()?),
        11 => signed(i64::from_le_bytes(reader.array()?)),
        12 => Value::Number(f64::from_le_bytes(reader.array()?)),
        other => return Err(reader.damaged(&format!("its header has a value of the unknown kind {other}"))),
    })
}
