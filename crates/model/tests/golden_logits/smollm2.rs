//! SmolLM2-135M-Instruct from a GGUF file, once `tools/fetch-smollm2` has fetched it.

use std::path::{Path, PathBuf};

use cpu::{Cpu, CpuOptions};
use model::chat::{ChatInput, ChatTemplate, Clock, Message, Role};
use model::{Model, Specials};
use serde_json::Value;

use crate::runner::Runner;
use crate::{OPTIONS, best, log_softmax, shared};

/// The model, and what numpy computed with it.
fn fetched() -> Option<(Model, Value)> {
    let folder = folder()?;
    let model = Model::open(&folder, &OPTIONS).unwrap_or_else(|error| panic!("{error}"));
    let golden = std::fs::read(golden::folder().join("smollm2-135m.json")).unwrap();
    Some((model, serde_json::from_slice(&golden).unwrap()))
}

fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/smollm2");
    if !folder.is_dir() {
        println!("skipped: {} is not there; run tools/fetch-smollm2", folder.display());
        return None;
    }
    Some(folder)
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn logsumexp(logits: &[f32]) -> f64 {
    f64::from(logits[0]) - log_softmax(logits)[0]
}

/// The golden weights are the file's rounded to bf16, by 2^-9 relative, ours rounded to f16. Over 30 layers that
/// moves a logit of some 20 or 30, and a log-probability, by hundredths: 0.057 is the most that was measured.
const ROUNDED: f64 = 0.1;

/// Of the mean of 188 log-probabilities, where these errors cancel in part.
const ROUNDED_MEAN: f64 = 0.003;

#[test]
fn smollm2_gives_the_best_logits_that_numpy_gives() {
    let Some((model, golden)) = fetched() else { return };
    let mut runner = Runner::new(&model, 64);
    for case in golden["cases"].as_array().unwrap() {
        let ids = ids(&case["ids"]);
        let logits = runner.logits(&ids, 64, ids.len() as u32 - 1);
        for pair in case["top10"].as_array().unwrap() {
            let (id, want) = (pair[0].as_u64().unwrap() as usize, pair[1].as_f64().unwrap());
            assert!((f64::from(logits[id]) - want).abs() <= ROUNDED, "{id}: {} {want}", logits[id]);
        }
        let (found, want) = (logsumexp(&logits), case["logsumexp"].as_f64().unwrap());
        assert!((found - want).abs() <= ROUNDED, "{found} {want}");
    }
}

#[test]
fn smollm2_on_the_cpu_continues_and_predicts_as_numpy_does() {
    let Some((model, golden)) = fetched() else { return };
    let mut runner = Runner::on(Box::new(Cpu::new(CpuOptions::default()).unwrap()), &model, 64);
    let vocab = model.facts.vocab as usize;
    for case in golden["cases"].as_array().unwrap() {
        let (prompt, out) = (ids(&case["ids"]), ids(&case["greedy"]));
        let ids = [&*prompt, &out[..out.len() - 1]].concat();
        let logits = runner.logits(&ids, 64, prompt.len() as u32 - 1);
        assert_eq!(logits.chunks(vocab).map(best).collect::<Vec<u32>>(), out, "{}", case["prompt"]);
    }
    let (ids, want) = (ids(&golden["para"]["ids"]), golden["para"]["nll"].as_array().unwrap());
    let logits = runner.logits(&ids, 64, 0);
    let rows = logits.chunks(vocab).zip(&ids[1..]);
    let found: Vec<f64> = rows.map(|(row, next)| -log_softmax(row)[*next as usize]).collect();
    assert_eq!(found.len(), want.len());
    for (found, want) in found.iter().zip(want) {
        assert!((found - want.as_f64().unwrap()).abs() <= ROUNDED, "{found} {want}");
    }
    let (mean, want) =
        (found.iter().sum::<f64>() / found.len() as f64, golden["para"]["mean_nll"].as_f64().unwrap());
    println!("{mean} {want}");
    assert!((mean - want).abs() <= ROUNDED_MEAN, "{mean} {want}");
}

#[test]
fn smollm2_reads_prompts_as_its_own_tokenizer_does_and_has_a_chat_template() {
    let Some((model, golden)) = fetched() else { return };
    let tokenizer = model.tokenizer.as_ref().unwrap();
    for case in golden["cases"].as_array().unwrap() {
        let (prompt, greedy) = (case["prompt"].as_str().unwrap(), ids(&case["greedy"]));
        assert_eq!(tokenizer.encode(prompt, Specials::Parse).unwrap(), ids(&case["ids"]));
        assert_eq!(tokenizer.decode(&greedy), case["greedy_text"].as_str().unwrap());
    }
    assert_eq!((model.facts.bos, &*model.facts.eos, tokenizer.prefix()), (Some(1), &[2][..], &[][..]));
    let folder = folder().unwrap();
    let template = ChatTemplate::find(&folder, tokenizer).unwrap().unwrap();
    let messages = vec![Message::new(Role::User, "What is 2+2? <|im_end|>")];
    let input = ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() };
    let prompt = template.render(&input, Clock::local()).unwrap();
    let text = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
                <|im_start|>user\nWhat is 2+2? <|im_end|><|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt.to_string(), text);
    // What the user wrote is no control token.
    let control = prompt.encode(tokenizer).unwrap().into_iter().filter(|&id| id == 2).count();
    assert_eq!(control, 2);
}

#[test]
fn smollm2s_tokenizer_gives_difficult_texts_the_ids_that_llama_cpp_gives_them() {
    let (Some((model, _)), Some(shared)) = (fetched(), shared()) else { return };
    let tokenizer = model.tokenizer.as_ref().unwrap();
    let read = |kind: &str| {
        std::fs::read_to_string(shared.join("golden/tokenizers").join(format!("smollm.{kind}"))).unwrap()
    };
    let (texts, ids, separator) = (read("inp"), read("out"), "\n__ggml_vocab_test__\n");
    let texts: Vec<&str> = texts.strip_suffix(separator).unwrap().split(separator).collect();
    assert_eq!(texts.len(), ids.lines().count());
    for (text, ids) in texts.iter().zip(ids.lines()) {
        let want: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
        for specials in [Specials::Parse, Specials::Plain] {
            assert_eq!(tokenizer.encode(text, specials).unwrap(), want, "{text:?}, {specials:?}");
        }
    }
}
