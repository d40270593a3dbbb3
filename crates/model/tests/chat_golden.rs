//! Published chat templates, rendered as the Python library that they are written for renders them.
//!
//! The templates are other people's text and stay in the shared folder beside the repository; the tests within the
//! crate cover what they use with templates of our own.

use std::path::Path;

use model::chat::{ChatInput, ChatTemplate, Clock, Content};
use model::{Specials, Tokenizer};
use serde_json::{Map, Value};

/// The scenarios and what each template makes of them.
fn expected(golden: &Path) -> std::io::Result<Value> {
    Ok(serde_json::from_str(&std::fs::read_to_string(golden.join("templates/expected.json"))?)?)
}

/// What a scenario asks for: all keys but those of the input itself are variables of the template.
fn input(scenario: &Value) -> serde_json::Result<ChatInput> {
    let mut extra: Map<String, Value> = serde_json::from_value(scenario.clone())?;
    let mut take = |key: &str| extra.shift_remove(key).unwrap_or(Value::Null);
    Ok(ChatInput {
        messages: serde_json::from_value(take("messages"))?,
        tools: serde_json::from_value::<Option<Vec<Value>>>(take("tools"))?.unwrap_or_default(),
        add_generation_prompt: serde_json::from_value(take("add_generation_prompt"))?,
        extra,
    })
}

/// A model folder with nothing but a template and the special tokens that it uses.
fn folder(template: &Path, render: &Value) -> std::io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::copy(template, folder.path().join("chat_template.jinja"))?;
    let config = serde_json::json!({"bos_token": render["bos_token"], "eos_token": render["eos_token"]});
    std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string())?;
    Ok(folder)
}

#[test]
fn twenty_published_templates_render_eight_conversations_byte_for_byte() {
    let Some(shared) = golden::shared() else {
        println!("skipped: ../shared/golden is not there");
        return;
    };
    let golden = shared.join("golden");
    // It has no added tokens, so that nothing is hidden from the templates.
    let tokenizer = Tokenizer::open(&golden.join("conversions/llama-even/tokenizer.json")).unwrap();
    let expected = expected(&golden).unwrap();
    let clock = Clock::midnight(2026, 11, 30).unwrap();
    let (mut renders, mut wrong) = (0, Vec::new());
    for (name, render) in expected["renders"].as_object().unwrap() {
        let template = golden.join("templates").join(format!("{name}.jinja"));
        let folder = folder(&template, render).unwrap();
        let template = ChatTemplate::find(folder.path(), &tokenizer)
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .unwrap();
        for (scenario, want) in render["out"].as_object().unwrap() {
            let prompt = template.render(&input(&expected["scenarios"][scenario]).unwrap(), clock);
            let got = prompt.map_or_else(|error| error.to_string(), |prompt| prompt.to_string());
            renders += 1;
            if got != want.as_str().unwrap() {
                wrong.push(format!("{name}, {scenario}:\n got {got:?}\nwant {want}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {renders} renders differ\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(renders, 20 * 8);
}

/// A tokenizer without added tokens, with some.
fn with_added_tokens(tokenizer: &Path, added: &[&str]) -> std::io::Result<tempfile::NamedTempFile> {
    let mut json: Value = serde_json::from_str(&std::fs::read_to_string(tokenizer)?)?;
    let tokens = added.iter().enumerate().map(|(index, text)| {
        serde_json::json!({
            "id": 1_000_000 + index, "content": text, "special": true, "normalized": false, "single_word": false,
            "lstrip": false, "rstrip": false,
        })
    });
    json["added_tokens"] = tokens.collect();
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), json.to_string())?;
    Ok(file)
}

#[test]
fn what_looks_like_a_control_token_goes_through_every_published_template_as_text() {
    const SAID: &str = "Hello, who are you?";
    const CONTROLS: [&str; 7] =
        ["<think>", "</think>", "<|user|>", "<|im_end|>", "<|eot_id|>", "<｜User｜>", "<tool_response>"];
    let Some(shared) = golden::shared() else {
        println!("skipped: ../shared/golden is not there");
        return;
    };
    let golden = shared.join("golden");
    let tokenizer =
        with_added_tokens(&golden.join("conversions/llama-even/tokenizer.json"), &CONTROLS).unwrap();
    let tokenizer = Tokenizer::open(tokenizer.path()).unwrap();
    let expected = expected(&golden).unwrap();
    for (name, render) in expected["renders"].as_object().unwrap() {
        let folder = folder(&golden.join("templates").join(format!("{name}.jinja")), render).unwrap();
        let template = ChatTemplate::find(folder.path(), &tokenizer).unwrap().unwrap();
        for control in CONTROLS {
            let text = format!("hello {control} world");
            let mut input = input(&expected["scenarios"]["user"]).unwrap();
            input.messages[0].content = Some(Content::Text(text.clone()));
            let prompt = template.render(&input, Clock::midnight(2026, 11, 30).unwrap()).unwrap();
            let want = render["out"]["user"].as_str().unwrap().replace(SAID, &text);
            assert_eq!(prompt.to_string(), want, "{name}");
            let plain: Vec<&str> = prompt
                .segments()
                .iter()
                .filter(|segment| segment.specials == Specials::Plain)
                .map(|segment| segment.text.as_str())
                .collect();
            assert_eq!(plain, [control], "{name}");
            let ids = prompt.encode(&tokenizer).unwrap();
            assert_eq!(tokenizer.decode(&ids), want, "{name}");
        }
    }
}

#[test]
fn published_templates_that_begin_the_reasoning_themselves_are_told_from_the_others() {
    let Some(shared) = golden::shared() else {
        println!("skipped: ../shared/golden is not there");
        return;
    };
    let golden = shared.join("golden");
    let tokenizer = Tokenizer::open(&golden.join("conversions/llama-even/tokenizer.json")).unwrap();
    let expected = expected(&golden).unwrap();
    let opened = |scenario: &str| -> Vec<&str> {
        let renders = expected["renders"].as_object().unwrap().iter();
        let opens = renders.filter(|(name, render)| {
            let folder = folder(&golden.join("templates").join(format!("{name}.jinja")), render).unwrap();
            let template = ChatTemplate::find(folder.path(), &tokenizer).unwrap().unwrap();
            let prompt = template.render(&input(&expected["scenarios"][scenario]).unwrap(), Clock::local());
            prompt.unwrap().open_reasoning() == Some("</think>")
        });
        opens.map(|(name, _)| name.as_str()).collect()
    };
    let thinkers = ["GLM-4.7-Flash", "GLM-5.2", "Qwen3.5-4B", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B"];
    assert_eq!(opened("user"), thinkers);
    // This one has no switch for it.
    assert_eq!(opened("nothink"), thinkers[3..]);
    assert!(opened("closed").is_empty());
}
