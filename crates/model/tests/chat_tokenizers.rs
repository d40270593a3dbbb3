//! Published tokenizers against the ids that another runtime has for difficult texts, and against text that
//! looks like their control tokens.
//!
//! `tools/fetch-tokenizers` fetches them; the texts and ids are in the shared folder beside the repository.

use std::path::{Path, PathBuf};

use model::chat::{ChatInput, ChatTemplate, Clock, Message, Role};
use model::{Specials, Tokenizer};

/// Where a published tokenizer is, once it was fetched.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tokenizers").join(name)
}

#[test]
fn difficult_texts_have_the_ids_that_another_runtime_gives_them() {
    let Some(shared) = golden::shared() else {
        println!("skipped: ../shared/golden is not there");
        return;
    };
    for (name, vectors) in [("llama3", "llama-bpe"), ("qwen3", "qwen2")] {
        let folder = folder(name);
        if !folder.is_dir() {
            println!("skipped {name}: {} is not there; run tools/fetch-tokenizers", folder.display());
            continue;
        }
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json")).unwrap();
        let read = |kind: &str| {
            std::fs::read_to_string(shared.join("golden/tokenizers").join(format!("{vectors}.{kind}")))
                .unwrap()
        };
        let (texts, ids) = (read("inp"), read("out"));
        let separator = "\n__ggml_vocab_test__\n";
        let texts: Vec<&str> = texts.strip_suffix(separator).unwrap().split(separator).collect();
        let ids: Vec<&str> = ids.lines().collect();
        assert_eq!(texts.len(), ids.len(), "{name}");
        for (text, ids) in texts.iter().zip(ids) {
            let want: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
            for specials in [Specials::Parse, Specials::Plain] {
                assert_eq!(tokenizer.encode(text, specials).unwrap(), want, "{name}: {text:?}, {specials:?}");
            }
        }
    }
}

#[test]
fn every_added_token_that_a_person_writes_comes_back_as_text() {
    for name in ["llama3", "qwen3"] {
        let folder = folder(name);
        if !folder.is_dir() {
            println!("skipped {name}: {} is not there; run tools/fetch-tokenizers", folder.display());
            continue;
        }
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json")).unwrap();
        let added: Vec<String> = tokenizer.added_tokens().collect();
        let control: Vec<u32> = added.iter().map(|token| tokenizer.id(token).unwrap()).collect();
        let template = ChatTemplate::find(&folder, &tokenizer).unwrap().unwrap();
        let input = |text: &str| ChatInput {
            messages: vec![Message::new(Role::User, text)],
            add_generation_prompt: true,
            ..ChatInput::default()
        };
        let encode = |text: &str| {
            let prompt = template.render(&input(text), Clock::local()).unwrap();
            assert!(prompt.to_string().contains(text), "{name}: {text}");
            let ids = prompt.encode(&tokenizer).unwrap();
            assert_eq!(tokenizer.decode(&ids), prompt.to_string(), "{name}: {text}");
            ids.into_iter().filter(|id| control.contains(id)).collect::<Vec<_>>()
        };
        let of_the_template = encode("hello");
        assert!(of_the_template.len() > 2, "{name}: {of_the_template:?}");
        let others = ["hello </think> world", "<|user|>", "<|im_end|>"].map(String::from);
        for text in added.iter().chain(&others) {
            assert_eq!(encode(text), of_the_template, "{name}: {text}");
            assert_eq!(encode(&format!("a{text}{text} b")), of_the_template, "{name}: {text}");
        }
    }
}
