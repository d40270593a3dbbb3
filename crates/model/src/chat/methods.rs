//! The methods of Python's texts, lists and objects that templates call.

use minijinja::value::{Tuple, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// Calls a method by name: those here, or one of the many that `minijinja_contrib` has.
///
/// # Errors
/// If there is no such method, or if it takes other arguments.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    // Without a separator both split at white space, and without a limit from either side it is the same.
    let method = if method == "rsplit" && args.is_empty() { "split" } else { method };
    if let Some(text) = value.as_str() {
        match text_method(text, method, args) {
            Err(error) if error.kind() == ErrorKind::UnknownMethod => {}
            done => return done,
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

fn text_method(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    match method {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) =
                text.split_once(separator).map_or((text, None), |(before, after)| (before, Some(after)));
            Ok(triple(before, after.map_or("", |_| separator), after.unwrap_or_default()))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) =
                text.rsplit_once(separator).map_or((None, text), |(before, after)| (Some(before), after));
            Ok(triple(before.unwrap_or_default(), before.map_or("", |_| separator), after))
        }
        "rsplit" => {
            let (separator, most): (&str, Option<usize>) = from_args(args)?;
            let most = most.map_or(usize::MAX, |most| most.saturating_add(1));
            let mut parts: Vec<Value> = text.rsplitn(most, separator).map(Value::from).collect();
            parts.reverse();
            Ok(Value::from(parts))
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn triple(before: &str, separator: &str, after: &str) -> Value {
    Value::from(Tuple::from([Value::from(before), Value::from(separator), Value::from(after)]))
}
