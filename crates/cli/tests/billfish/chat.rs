//! `billfish run` as a conversation.

use serde_json::Value;

use crate::run::{prompt_tokens, with_stdin};
use crate::{Finished, billfish, command, finish};

const CHAT: &str = "run models/tiny-glm --chat-template crates/cli/tests/billfish/chat_template.jinja";

/// One question.
fn ask(question: &str, flags: &str) -> Finished {
    let words = format!("{CHAT} {flags}");
    finish(command(&words).args(["--temperature", "0", "-p", question]))
}

#[test]
fn a_question_is_one_turn_of_the_template() {
    let answer = ask("Continue the story: Once upon a time", "--no-thinking -n 24").text();
    let prompt = "[gMASK]<sop><|user|>Continue the story: Once upon a time<|assistant|></think>";
    let words = "run models/tiny-glm --chat-template none --temperature 0 -n 24 -p";
    // The same, written out by hand. The answer alone is without the white space before it.
    let by_hand = finish(command(words).arg(prompt)).text();
    assert_eq!(answer.trim(), by_hand.trim());
    let piped = with_stdin(
        &format!("{CHAT} --no-thinking --temperature 0 -n 24"),
        "Continue the story: Once upon a time\n",
    );
    assert_eq!(piped.text(), answer);
}

#[test]
fn raw_continues_a_text_with_a_model_that_has_a_template() {
    let folder = crate::checkpoints::tiny_glm();
    let template = crate::repository().join("crates/cli/tests/billfish/chat_template.jinja");
    std::fs::copy(template, folder.path().join("chat_template.jinja")).unwrap();
    let run = |flags: &str| {
        let words = format!("run -v --temperature 0 -n 4 {flags}");
        finish(command(words.trim()).args(["-p", "Once upon a time"]).arg(folder.path()))
    };
    let raw = run("--raw");
    assert_eq!(prompt_tokens(&raw), prompt_tokens(&run("--chat-template none")));
    // [gMASK] <sop> <|user|> <|assistant|> <think>
    assert_eq!(prompt_tokens(&run("")), prompt_tokens(&raw) + 5);
}

#[test]
fn what_looks_like_a_control_token_in_a_question_is_text() {
    let words = "run models/tiny-glm --raw -v -n 1 -p";
    for text in ["hello </think> world", "<|user|>", "<|im_end|>", "a<|assistant|>b", "<|endoftext|>"] {
        let plain = prompt_tokens(&finish(command(words).arg(text)));
        assert!(plain > 2);
        // [gMASK] <sop> <|user|> <|assistant|> <think> and nothing else that is a control token.
        assert_eq!(prompt_tokens(&ask(text, "-v -n 1")), plain + 5, "{text}");
    }
}

#[test]
fn reasoning_is_left_out_where_no_person_looks_and_shown_where_asked_for() {
    let question = "Continue the story: Once upon a time";
    let hidden = ask(question, "-n 60");
    let shown = ask(question, "-n 60 --reasoning show").text();
    let (thoughts, answer) = shown.strip_prefix("<think>\n").unwrap().split_once("\n</think>\n\n").unwrap();
    assert!(!thoughts.is_empty() && !answer.is_empty(), "{shown}");
    assert_eq!(hidden.text(), answer);
    assert!(!shown.contains('\x1b'), "{shown}");
}

#[test]
fn the_systems_message_comes_first() {
    let with = prompt_tokens(&ask("Hello", "-v -n 1 --system Hello"));
    let without = prompt_tokens(&ask("Hello", "-v -n 1"));
    let hello = prompt_tokens(&finish(command("run models/tiny-glm --raw -v -n 1 -p").arg("Hello")));
    assert_eq!(with, without + 1 + hello);
}

#[test]
fn the_makers_recommendation_counts_in_a_conversation_and_flags_go_before_it() {
    // tiny-glm's generation_config.json has a temperature of 0.8.
    let question = ["-n", "40", "-p", "Continue the story: Once"];
    let run = |flags: &str| {
        let words = format!("{CHAT} --no-thinking {flags}");
        finish(command(words.trim()).args(question)).text()
    };
    assert_eq!(run("--seed 1"), run("--seed 1"));
    assert_eq!(run("--seed 1"), run("--seed 1 --temperature 0.8 --top-p 0.95"));
    assert_ne!(run("--seed 1"), run("--seed 1 --temperature 0"));
    // A text is continued greedily.
    let text =
        |flags: &str| finish(command(&format!("run models/tiny-glm -n 40 {flags} -p")).arg("Once")).text();
    assert_eq!(text("--seed 1"), text("--seed 2"));
}

#[test]
fn flags_of_conversations_are_wrong_usage_where_a_text_is_continued() {
    for (flags, needed) in [
        ("--system x", "--system is for conversations"),
        ("--no-thinking", "the model has no chat template"),
        ("--chat-template none --reasoning show", "--reasoning is for conversations"),
        ("--raw --system x", "cannot be used with"),
        ("--stop-token 9999", "there is no token 9999"),
        ("--logit-bias 9999=1", "there is no token 9999"),
        ("--dry-base 2", "--dry-multiplier"),
    ] {
        let finished = finish(command(&format!("run models/tiny-glm {flags} -p Once")).arg("-v"));
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{flags}");
        assert!(finished.stderr.contains(needed), "{flags}: {}", finished.stderr);
    }
}

#[test]
fn a_template_that_is_not_there_or_refuses_is_an_error_that_says_so() {
    let refusal = billfish("run models/tiny-glm --chat-template nowhere.jinja -p Hello").refusal();
    assert!(refusal.contains("nowhere.jinja"), "{refusal}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}x",
    )
    .unwrap();
    let refusal =
        finish(command("run models/tiny-glm -p Hello --system x --chat-template").arg(file.path())).refusal();
    assert!(refusal.contains("no system"), "{refusal}");
    let finished =
        finish(command("run models/tiny-glm -p Hello -n 1 --no-thinking --chat-template").arg(file.path()));
    assert!(finished.stderr.contains("no switch for reasoning"), "{}", finished.stderr);
}

#[test]
fn stop_strings_and_banned_texts_hold_for_what_is_printed() {
    let run = |flags: &str| {
        let words = format!("run models/tiny-glm -n 40 {flags}");
        finish(command(words.trim()).args(["-p", "Once upon a time"])).text()
    };
    let text = run("");
    let word = text.split_whitespace().nth(8).unwrap();
    let at = text.find(word).unwrap();
    assert_eq!(run(&format!("--stop {word}")), format!("{}\n", &text[..at]));
    let without = run(&format!("--ban {word}"));
    assert!(!without.contains(word), "{without}");
    assert_eq!(without[..at.min(without.len())].trim(), text[..at].trim());
}

#[cfg(unix)]
mod in_a_terminal {
    use super::*;
    use crate::terminal::{CTRL_C, CTRL_D, Terminal, UP};

    fn chat(flags: &str, environment: &[(&str, &str)]) -> Terminal {
        let mut terminal = Terminal::start(format!("{CHAT} --temperature 0 {flags}").trim(), environment);
        let banner = terminal.prompt();
        assert!(banner.contains("tokens of context; /help lists commands"), "{banner}");
        terminal
    }

    #[test]
    fn a_turn_computes_no_full_page_of_64_tokens_that_the_turns_before_began_with() {
        let system = "be-brief.".repeat(30);
        let mut terminal = chat(&format!("-n 4 --no-thinking -v --system {system}"), &[]);
        terminal.line("One?");
        let first = terminal.prompt();
        assert!(!first.contains("cached"), "{first:?}");
        terminal.line("Two?");
        let second = terminal.prompt();
        let cached = second.split(" of them cached").next().unwrap().rsplit(", ").next().unwrap();
        let cached: u32 = cached.trim().parse().unwrap_or_else(|_| panic!("{second:?}"));
        assert!(cached >= 64 && cached.is_multiple_of(64), "{second:?}");
    }

    #[test]
    fn a_person_types_interrupts_resets_saves_and_quits() {
        let mut terminal = chat("-n 400 --no-thinking -v --ignore-eos", &[]);
        terminal.line("Continue the story: Once upon a time");
        // The answer comes while it is drawn, and is stopped long before its end.
        terminal.until("\n");
        terminal.until(" ");
        terminal.keys(CTRL_C);
        let stopped = terminal.prompt();
        assert!(stopped.contains("[stopped]") && stopped.contains("(cancelled)"), "{stopped:?}");

        // The program goes on.
        terminal.line("And then?");
        let again = terminal.prompt();
        assert!(!again.contains("[stopped]"), "{again:?}");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat.json");
        terminal.line(&format!("/save {}", file.display()));
        let saved = terminal.prompt();
        assert!(saved.contains("4 messages in"), "{saved:?}");
        let chat: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(chat["messages"][0]["content"], "Continue the story: Once upon a time");
        assert_eq!(chat["messages"][1]["role"], "assistant");
        assert!(!chat["messages"][1]["content"].as_str().unwrap().is_empty());
        terminal.line(&format!("/save {}", file.display()));
        assert!(terminal.prompt().contains("error: "));

        terminal.line("/reset");
        assert!(terminal.prompt().contains("a new conversation"));
        let file = folder.path().join("empty.json");
        terminal.line(&format!("/save {}", file.display()));
        assert!(terminal.prompt().contains("0 messages in"));

        terminal.line("/help");
        assert!(terminal.prompt().contains("/reasoning"));
        terminal.line("/dance");
        assert!(terminal.prompt().contains("there is no command /dance"));
        terminal.line("/quit");
        assert_eq!(terminal.end(), Some(0));
    }

    #[test]
    fn ctrl_c_on_an_empty_line_hints_and_a_second_one_leaves_and_so_does_ctrl_d() {
        let mut terminal = chat("", &[]);
        terminal.keys(CTRL_C);
        assert!(terminal.prompt().contains("Ctrl-D or /quit leaves"));
        terminal.keys(CTRL_C);
        assert_eq!(terminal.end(), Some(0));
        let mut terminal = chat("", &[]);
        terminal.keys(CTRL_D);
        assert_eq!(terminal.end(), Some(0));
    }

    #[test]
    fn lines_go_on_and_come_back_and_the_conversation_keeps_what_was_typed() {
        let mut terminal = chat("-n 2 --no-thinking", &[]);
        terminal.line("hello </think> world \\");
        terminal.line("<|user|> <|im_end|> 🐟");
        terminal.prompt();
        terminal.line("\"\"\"one");
        terminal.line("two\"\"\"");
        terminal.prompt();
        // The line before, from the history.
        terminal.keys(UP);
        terminal.line("");
        terminal.prompt();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat.json");
        terminal.line("/system Be brief.");
        terminal.prompt();
        terminal.line(&format!("/save {}", file.display()));
        terminal.prompt();
        terminal.keys(CTRL_D);
        assert_eq!(terminal.end(), Some(0));
        let chat: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let content = |index: usize| chat["messages"][index]["content"].as_str().unwrap().to_owned();
        assert_eq!(content(0), "Be brief.");
        assert_eq!(content(1), "hello </think> world \n<|user|> <|im_end|> 🐟");
        assert_eq!(content(3), "one\ntwo");
        assert_eq!(content(5), "one\ntwo");
    }

    #[test]
    fn reasoning_is_dimmed_folded_and_printed_later() {
        let question = "Continue the story: Once upon a time there was a king.";
        let mut terminal = chat("-n 400", &[]);
        terminal.line(question);
        let shown = terminal.prompt();
        assert!(shown.contains("\x1b[2m"), "{shown:?}");
        terminal.line("/reasoning fold");
        assert!(terminal.prompt().contains("folded"));
        terminal.line("/reset");
        terminal.prompt();
        terminal.line(question);
        let folded = terminal.prompt();
        assert!(folded.contains("[thinking") && folded.contains(" s]"), "{folded:?}");
        terminal.line("/reasoning");
        let thoughts = terminal.prompt();
        assert!(!thoughts.contains("without reasoning") && thoughts.len() > 40, "{thoughts:?}");
        terminal.keys(CTRL_D);
        assert_eq!(terminal.end(), Some(0));
    }

    #[test]
    fn no_color_leaves_colours_out() {
        let mut terminal = chat("-n 30", &[("NO_COLOR", "1")]);
        terminal.line("Continue the story: Once");
        terminal.until("<think>");
        let shown = terminal.prompt();
        assert!(!shown.contains("\x1b[2m"), "{shown:?}");
        terminal.keys(CTRL_D);
        assert_eq!(terminal.end(), Some(0));
    }

    #[test]
    fn a_model_without_a_template_takes_a_text_from_the_terminal() {
        let mut terminal = Terminal::start("run models/tiny-glm -n 8", &[]);
        terminal.until("type a text to continue, then Ctrl-D");
        terminal.line("Once upon a time");
        terminal.keys(CTRL_D);
        assert_eq!(terminal.end(), Some(0));
    }

    #[test]
    fn a_question_that_does_not_fit_is_refused_and_the_conversation_goes_on() {
        let mut terminal = chat("-c 64 --no-thinking -n 4", &[]);
        terminal.line(&"word ".repeat(100));
        let refused = terminal.prompt();
        assert!(refused.contains("error: ") && refused.contains("64"), "{refused:?}");
        terminal.line("Hello");
        let answered = terminal.prompt();
        assert!(!answered.contains("error"), "{answered:?}");
        terminal.keys(CTRL_D);
        assert_eq!(terminal.end(), Some(0));
    }
}
