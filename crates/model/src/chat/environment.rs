//! Jinja as templates expect it: the environment that the Python library `transformers` renders them in.

use std::borrow::Cow;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use super::{json, methods};

/// A refusal by the template itself, which calls `raise_exception` with what is wrong with the conversation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(String);

/// The environment, with no template in it.
///
/// # Errors
/// Never: the delimiters are the usual ones.
pub(super) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::call);
    minijinja_contrib::add_to_environment(&mut environment);
    environment.add_filter("tojson", json::tojson);
    environment.add_filter("fromjson", json::fromjson);
    environment.add_filter("from_json", json::fromjson);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
    environment.add_function("raise_exception", raise_exception);
    Ok(environment)
}

/// The message of [`Raised`], where that is why a template failed.
pub(super) fn raised(error: &Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(raised) = error.downcast_ref::<Raised>() {
            return Some(raised.to_string());
        }
        cause = error.source();
    }
    None
}

fn raise_exception(message: &str) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()).with_source(Raised(message.to_owned())))
}

/// In Python texts and objects are sequences too, so that templates write `is sequence and is not string`.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Undefined)
}

/// In Python none is not iterable, but what is undefined is.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Makes `{% generation %}` blocks, which mark what training counts, plain blocks with a scope.
///
/// Lines and the whitespace control of the tags stay as they are.
pub(super) fn without_generation(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return source.into();
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let tag = &rest[start..];
        let Some(end) = tag.find("%}") else { break };
        let tag = &tag[..end];
        out.push_str(&rest[..start]);
        match tag[2..].trim_matches(['-', '+']).trim() {
            "generation" => out.push_str(&tag.replace("generation", "with")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endwith")),
            _ => out.push_str(tag),
        }
        rest = &rest[start + end..];
    }
    out.push_str(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use minijinja::value::Serde;
    use serde_json::Value as Json;

    use super::*;

    fn render(template: &str, variables: &Json) -> Result<String, Error> {
        let mut environment = environment().unwrap();
        environment.add_template_owned("template", without_generation(template).into_owned())?;
        environment.get_template("template")?.render(Value::from(Serde(variables)))
    }

    #[test]
    fn pieces_of_templates_come_out_as_pythons_jinja_renders_them() {
        let golden: Json = serde_json::from_str(include_str!("../../tests/chat_snippets.json")).unwrap();
        let mut failures = 0;
        for case in golden["cases"].as_array().unwrap() {
            let template = case[0].as_str().unwrap();
            match (render(template, &golden["context"]), case[1].as_str()) {
                (Ok(got), Some(want)) => assert_eq!(got, want, "{template}"),
                (Err(_), None) => failures += 1,
                (got, want) => panic!("{template}\n got {got:?}\nwant {want:?}"),
            }
        }
        assert!(failures > 10, "{failures} pieces fail in both");
    }

    #[test]
    fn json_in_a_text_can_be_read_by_either_name() {
        for filter in ["fromjson", "from_json"] {
            let template = format!("{{{{ (text|{filter}).b[0] }}}}");
            assert_eq!(render(&template, &serde_json::json!({"text": r#"{"b": ["x"]}"#})).unwrap(), "x");
            assert!(render(&template, &serde_json::json!({"text": "no"})).is_err());
        }
    }

    #[test]
    fn a_refusal_is_told_from_a_failure_even_within_macros() {
        let refusal = "{% macro no() %}{{ raise_exception('No images.') }}{% endmacro %}\n{{ no() }}";
        let refusal = render(refusal, &Json::Null).unwrap_err();
        assert_eq!(raised(&refusal).as_deref(), Some("No images."));
        assert_eq!(raised(&render("{{ absent.x }}", &Json::Null).unwrap_err()), None);
    }

    #[test]
    fn only_tags_are_taken_for_generation_blocks() {
        let text = "a generation {{ 'generation' }}{# {% #} {% set generation = 1 %}{% if x %}";
        assert_eq!(without_generation(text), text);
        assert_eq!(
            without_generation("{%-  generation +%}\n{% endgeneration-%}{% open"),
            "{%-  with +%}\n{% endwith-%}{% open"
        );
    }
}
