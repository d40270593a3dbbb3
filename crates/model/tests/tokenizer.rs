//! Text to ids and back, with the tokenizer of the model that ships and with ones written here.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use std::path::{Path, PathBuf};

use model::{Specials, Tokenizer};
use serde_json::{Value, json};

fn shipped() -> Tokenizer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-glm");
    Tokenizer::open(&folder.join("tokenizer.json")).unwrap()
}

/// The tokenizer that a JSON value describes.
fn of(name: &str, tokenizer: &Value) -> Tokenizer {
    let path: PathBuf = std::env::temp_dir().join(format!("tokenizer-{}-{name}.json", std::process::id()));
    std::fs::write(&path, tokenizer.to_string()).unwrap();
    let tokenizer = Tokenizer::open(&path);
    std::fs::remove_file(&path).unwrap();
    tokenizer.unwrap()
}

#[test]
fn decoding_gives_back_every_text_byte_for_byte() {
    let tokenizer = shipped();
    for text in [
        "Once upon a time",
        "  two spaces,\n\n\tand a tab ",
        "naïve façade — “quoted”",
        "日本語 и кириллица 🦀👩‍👩‍👧",
        "\u{0}\u{7f}\u{80}\u{feff}",
        "",
    ] {
        let ids = tokenizer.encode(text, Specials::Plain).unwrap();
        assert_eq!(tokenizer.decode(&ids), text);
    }
}

#[test]
fn a_token_may_be_a_part_of_a_character() {
    let tokenizer = shipped();
    let ids = tokenizer.encode("🦀", Specials::Plain).unwrap();
    assert!(ids.len() > 1);
    let bytes: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.token_bytes(id)).copied().collect();
    assert_eq!(bytes, "🦀".as_bytes());
    assert_eq!(tokenizer.decode(&ids[..1]), "\u{fffd}");
}

#[test]
fn special_tokens_are_parsed_or_plain_as_asked() {
    let tokenizer = shipped();
    let text = "<|user|>Hello<think>";
    let parsed = tokenizer.encode(text, Specials::Parse).unwrap();
    let (user, think) = (tokenizer.id("<|user|>").unwrap(), tokenizer.id("<think>").unwrap());
    assert_eq!((user, think), (8179, 8182));
    assert_eq!((parsed.first(), parsed.last()), (Some(&user), Some(&think)));
    assert!(tokenizer.is_special(user) && tokenizer.is_special(think));
    let plain = tokenizer.encode(text, Specials::Plain).unwrap();
    assert!(plain.iter().all(|&id| !tokenizer.is_special(id)));
    assert_eq!(tokenizer.decode(&plain), text);
    assert_eq!(tokenizer.decode(&parsed), text);
}

#[test]
fn the_vocabulary_ends_at_the_highest_id() {
    let tokenizer = shipped();
    assert_eq!(tokenizer.vocab(), 8192);
    assert_eq!(tokenizer.token_bytes(8191), b"</arg_value>");
    assert_eq!(tokenizer.token_bytes(8192), b"");
    assert!(!tokenizer.is_special(8192));
    assert!(tokenizer.prefix().is_empty());
}

#[test]
fn what_a_tokenizer_puts_before_a_text_is_told_apart_from_the_text() {
    let tokenizer = of(
        "prefix",
        &json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": null,
            "added_tokens": [{
                "id": 3, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            }],
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
                "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 0 } }],
                "special_tokens": { "<s>": { "id": "<s>", "ids": [3], "tokens": ["<s>"] } },
            },
            "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false },
            "model": { "type": "BPE", "vocab": { "a": 0, "b": 1, "ab": 2 }, "merges": ["a b"] },
        }),
    );
    assert_eq!(tokenizer.prefix(), [3]);
    assert_eq!(tokenizer.encode("aba", Specials::Parse).unwrap(), [2, 0]);
}

#[test]
fn tokens_that_spell_bytes_and_spaces_in_their_own_way_are_read() {
    let tokenizer = of(
        "spaces",
        &json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "post_processor": null,
            "normalizer": { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
            "pre_tokenizer": null,
            "decoder": { "type": "Sequence", "decoders": [
                { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
                { "type": "ByteFallback" }, { "type": "Fuse" },
            ] },
            "model": {
                "type": "BPE", "byte_fallback": true, "unk_token": null, "merges": [],
                "vocab": { "▁": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "▁a": 4, "<0x>": 5, "é▁": 6 },
            },
        }),
    );
    assert_eq!(tokenizer.decode(&[1, 0, 2, 3, 4]), "a é a");
    assert_eq!(tokenizer.token_bytes(2), [0xc3]);
    assert_eq!(tokenizer.token_bytes(5), b"<0x>");
    assert_eq!(tokenizer.decode(&[6]), "é ");
    assert_eq!(tokenizer.encode("a é", Specials::Plain).unwrap(), [1, 0, 2, 3]);
}

#[test]
fn a_text_is_neither_cut_nor_padded_whatever_was_saved_with_the_tokenizer() {
    let tokenizer = |truncation: Value, padding: Value| {
        of(
            "whole",
            &json!({
                "version": "1.0", "truncation": truncation, "padding": padding, "added_tokens": [],
                "normalizer": null, "pre_tokenizer": null, "post_processor": null,
                "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false },
                "model": { "type": "BPE", "vocab": { "a": 0, "b": 1 }, "merges": [] },
            }),
        )
    };
    let truncation =
        json!({ "max_length": 1, "stride": 0, "strategy": "LongestFirst", "direction": "Right" });
    let padding = json!({
        "strategy": { "Fixed": 50 }, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "a",
    });
    for tokenizer in [tokenizer(truncation, Value::Null), tokenizer(Value::Null, padding)] {
        for specials in [Specials::Parse, Specials::Plain] {
            assert_eq!(tokenizer.encode("abab", specials).unwrap(), [0, 1, 0, 1]);
        }
    }
}
