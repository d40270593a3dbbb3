//! `billfish run`.

use std::io::Write;
use std::process::Stdio;

use crate::checkpoints::{llama, llama_shape};
use crate::{Finished, billfish, command, finish};

/// Runs a command with this on its stdin.
pub(crate) fn with_stdin(words: &str, text: &str) -> Finished {
    let pipe = Stdio::piped;
    let mut child = command(words).stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

/// How many tokens the prompt has, as `--verbose` says.
pub(crate) fn prompt_tokens(finished: &Finished) -> usize {
    let line = finished.stderr.lines().find_map(|line| line.strip_prefix("prompt: ")).unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_answer_alone_is_on_stdout_and_greedy_answers_are_the_same_each_time() {
    let run = || finish(command("run models/tiny-glm -n 20 -p").arg("Once upon a time")).text();
    let text = run();
    assert!(text.trim().split(' ').count() > 5 && text.ends_with('\n'), "{text}");
    assert!(!text.contains("Once upon a time"), "{text}");
    assert_eq!(run(), text);
}

#[test]
fn a_prompt_comes_from_a_flag_a_file_or_stdin() {
    let prompt = "The ship sailed";
    let text = finish(command("run models/tiny-glm -n 8 -p").arg(prompt)).text();
    let file = tempfile::NamedTempFile::new().unwrap();
    // The newline at a file's end is not meant.
    std::fs::write(file.path(), format!("{prompt}\n")).unwrap();
    assert_eq!(finish(command("run models/tiny-glm -n 8 -f").arg(file.path())).text(), text);
    assert_eq!(with_stdin("run models/tiny-glm -n 8", &format!("{prompt}\n")).text(), text);
    assert_eq!(with_stdin("run models/tiny-glm -n 8", prompt).text(), text);
    assert_ne!(with_stdin("run models/tiny-glm -n 8", &format!("{prompt}\n\n")).text(), text);
}

#[test]
fn an_answer_of_no_tokens_is_an_empty_line() {
    assert_eq!(billfish("run models/tiny-glm -p Once -n 0").text(), "\n");
}

#[test]
fn a_seed_repeats_a_drawn_answer_and_without_one_answers_differ() {
    let run = |flags| billfish(&format!("run models/tiny-glm -p Once -n 40 --temperature 1 {flags}")).text();
    assert_eq!(run("--seed 1"), run("--seed 1"));
    assert_ne!(run("--seed 1"), run("--seed 2"));
    assert_ne!(run("--min-p 0"), run("--min-p 0"));
}

#[test]
fn raw_reads_special_tokens_as_characters() {
    let run = |flags| billfish(&format!("run models/tiny-glm -p <|user|> -n 1 -v {flags}"));
    assert_eq!(prompt_tokens(&run("-t 1")), 1);
    assert!(prompt_tokens(&run("--raw")) > 2);
}

#[test]
fn verbose_tells_speed_and_memory_on_stderr() {
    let finished = billfish("run models/tiny-glm -p Once -n 3 --verbose");
    assert_eq!(finished.code, Some(0));
    for needed in ["device: ", "prompt: ", "answer: 2 tokens", "tokens/s", "memory: "] {
        assert!(finished.stderr.contains(needed), "{}", finished.stderr);
    }
    assert!(!finished.stdout.contains("tokens/s"));
}

#[test]
fn an_empty_prompt_begins_with_the_models_own_token_or_is_refused() {
    let refusal = finish(command("run models/tiny-glm -p").arg("")).refusal();
    assert!(refusal.contains("the prompt is empty"), "{refusal}");
    let llama = llama();
    let finished = finish(command("run -c 64 -n 2 -v -p").arg("").arg(llama.path()));
    assert_eq!((finished.code, prompt_tokens(&finished)), (Some(0), 1), "{}", finished.stderr);
}

#[test]
fn a_prompt_of_exactly_the_context_gives_one_token_and_one_token_more_is_refused() {
    let llama = llama();
    let run = |length: usize| finish(command("run -c 64 -v -p").arg("a".repeat(length)).arg(llama.path()));
    let full = run(64);
    assert_eq!((full.code, prompt_tokens(&full)), (Some(0), 64), "{}", full.stderr);
    assert!(full.stderr.contains("the context is full"), "{}", full.stderr);
    let refusal = run(65).refusal();
    assert!(refusal.contains("65") && refusal.contains("64"), "{refusal}");
}

#[test]
fn tokens_that_are_no_characters_become_replacement_characters_and_the_text_goes_on() {
    let (_folder, shape) = llama_shape();
    let mut command = command("run -c 256 -n 200 --temperature 1 --seed 3 -p a --shape");
    // `text` fails unless stdout is UTF-8.
    let text = finish(command.arg(shape)).text();
    assert!(text.contains('\u{fffd}') && text.chars().filter(char::is_ascii).count() > 20, "{text}");
}

#[test]
fn every_cache_format_and_the_reference_device_can_be_chosen() {
    for flags in ["-cq f16", "-cq 8", "--kv-cache-dtype 6", "-cq 4", "--device reference", "--threads 1"] {
        let text = billfish(&format!("run models/tiny-glm -p Once -n 4 {flags}")).text();
        assert!(text.len() > 2, "{flags}: {text}");
    }
}
