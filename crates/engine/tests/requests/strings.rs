//! Strings that end an answer or must not be in it, and what a request asks of its tokens, on a device that
//! prefers a text.

use engine::sampling::{Dry, Penalties, Xtc};
use engine::{Ending, Error, Finish, Limits, Request, Result, Sampling, Scheduler};

use crate::alone::{self, Answer, ask_in, scheduler, scheduler_on};
use crate::fake::{self, Fake};

/// The answer to the prompt "0" of a model that prefers to go on with `script`.
fn answer(script: &str, sampling: &Sampling, ending: &Ending) -> Result<Answer> {
    let mut device = Fake::default();
    device.script = fake::tokens(&format!("0{script}"));
    ask(&mut scheduler_on(device, Limits::one_sequence(100)), &[0], sampling, ending)
}

fn ask(scheduler: &mut Scheduler, prompt: &[u32], sampling: &Sampling, ending: &Ending) -> Result<Answer> {
    alone::ask(scheduler, &Request::new(prompt.to_vec(), sampling.clone(), ending.clone()))
}

fn ending(max_tokens: usize) -> Ending {
    Ending { max_tokens, ..Ending::default() }
}

fn greedy(script: &str, ending: &Ending) -> Answer {
    answer(script, &Sampling::GREEDY, ending).unwrap()
}

#[test]
fn a_stop_string_ends_the_answer_and_nothing_that_may_begin_one_leaves_early() {
    let with_stop = |stop: &str| Ending { strings: vec![stop.into()], ..ending(12) };
    let outcome = greedy("ABCDEFGHIJKL", &with_stop("DEFG"));
    assert_eq!(
        (outcome.pieces, outcome.report.finish),
        (vec!["A".into(), "B".into(), "C".into()], Finish::Stop)
    );
    let outcome = greedy("ABCDEFGHIJKL", &with_stop("DEX"));
    assert_eq!((outcome.text().as_str(), outcome.report.finish), ("ABCDEFGHIJKL", Finish::Length));
    assert_eq!(outcome.pieces[3], "DEF");
    // The answer ends with what would begin one.
    assert_eq!(greedy("ABCDEFGHIJKL", &with_stop("KLM")).text(), "ABCDEFGHIJKL");
}

#[test]
fn a_banned_string_is_taken_back_and_something_else_is_said() {
    let banned = Ending { banned: vec!["CDE".into()], ..ending(8) };
    let outcome = greedy("ABCDEFGH", &banned);
    assert_eq!((outcome.report.taken_back, outcome.tokens.len(), outcome.report.tokens), (3, 8, 8));
    let text = outcome.text();
    assert!(text.starts_with("AB") && !text.contains("CDE") && &text[2..3] != "C", "{text}");
    assert_eq!(text, fake::text(&outcome.tokens));
    assert!(outcome.pieces.iter().all(|piece| !piece.contains('C')), "{:?}", outcome.pieces);
    // The rest of the text that the model prefers follows at its places.
    assert_eq!(&text[3..], "DEFGH");
    assert_eq!(greedy("ABCDEFGH", &banned).text(), text);
}

#[test]
fn banned_strings_that_follow_from_each_other_are_all_taken_back() {
    let all: Vec<String> = ('B'..='Z').map(|second| format!("A{second}")).collect();
    let outcome = greedy("ABAB", &Ending { banned: all.clone(), ..ending(40) });
    assert!(all.iter().all(|banned| !outcome.text().contains(banned)), "{}", outcome.text());
    assert!(outcome.report.taken_back >= 4);
}

#[test]
fn a_banned_string_counts_in_the_answer_alone() {
    let banned = Ending { banned: vec!["0A".into()], ..ending(3) };
    assert_eq!(greedy("ABC", &banned).text(), "ABC");
}

#[test]
fn an_answer_is_no_shorter_than_its_least_length() {
    let [a, b] = [fake::tokens("A")[0], fake::tokens("B")[0]];
    let stop = Ending { tokens: vec![a, b], strings: vec!["D".into()], ..ending(20) };
    assert_eq!(greedy("AB", &stop).tokens.len(), 0);
    let outcome = greedy("ABCDEFABD", &Ending { min_tokens: 6, ..stop.clone() });
    // Not A and B but others stand at the first places, and the D there ends nothing.
    assert_eq!((outcome.tokens.len(), outcome.report.finish), (6, Finish::Stop));
    assert_eq!(&outcome.text()[2..], "CDEF");
    let outcome = greedy("CDCDCDCD", &Ending { min_tokens: 4, ..stop });
    assert_eq!((outcome.text().as_str(), outcome.tokens.len()), ("CDCDC", 6));
}

#[test]
fn emoji_and_characters_of_several_tokens_come_whole_and_a_lone_bad_byte_is_replaced() {
    // A fish of four tokens, a half one with a comma after it, a bad byte, and a character of two tokens.
    let bytes = |token| match fake::token_bytes(token) {
        b"A" => &b"\xf0"[..],
        b"B" | b"D" => b"\x9f",
        b"C" => b"\x90",
        b"F" => b"\xff",
        b"G" => b"!\xe6\xbc",
        b"H" => b"\xa2\xe5\xad\x97.",
        other => other,
    };
    let mut device = Fake::default();
    device.script = fake::tokens("0ABCDABxFGHA");
    let mut scheduler = scheduler_on(device, Limits::one_sequence(100));
    let outcome =
        ask_in(&mut scheduler, &Request::new(vec![0], Sampling::GREEDY, ending(11)), &bytes).unwrap();
    let want = ["\u{1f41f}", "\u{fffd}x", "\u{fffd}", "!", "\u{6f22}\u{5b57}.", "\u{fffd}"];
    assert_eq!(outcome.pieces, want);
    assert_eq!(outcome.tokens.len(), 11);
    // A stop string of such characters is found over tokens too.
    let stop = Ending { strings: vec!["\u{6f22}".into()], ..ending(11) };
    let outcome = ask_in(&mut scheduler, &Request::new(vec![0], Sampling::GREEDY, stop), &bytes).unwrap();
    assert_eq!(
        (outcome.text().as_str(), outcome.report.finish),
        ("\u{1f41f}\u{fffd}x\u{fffd}!", Finish::Stop)
    );
}

#[test]
fn a_logit_bias_rules_tokens_out_or_in() {
    let [a, x] = [fake::tokens("A")[0], fake::tokens("X")[0]];
    let with = |logit_bias| Sampling { logit_bias, ..Sampling::GREEDY };
    assert_eq!(answer("BBB", &with(vec![(x, 100.0)]), &ending(3)).unwrap().text(), "XXX");
    let text = answer("ABA", &with(vec![(a, f32::NEG_INFINITY)]), &ending(3)).unwrap().text();
    assert!(!text.contains('A') && &text[1..2] == "B", "{text}");
}

#[test]
fn every_token_ruled_out_is_an_error_that_says_so() {
    let all = (0..fake::VOCAB).map(|token| (token, f32::NEG_INFINITY)).collect();
    let refused = answer("ABC", &Sampling { logit_bias: all, ..Sampling::GREEDY }, &ending(3)).err().unwrap();
    assert!(matches!(refused, Error::NothingLeft { tokens: 1 }), "{refused}");
}

#[test]
fn penalties_keep_a_model_from_saying_the_same_again() {
    let repeats = |sampling| answer("ABABABABAB", &sampling, &ending(10)).unwrap().text();
    assert_eq!(repeats(Sampling::GREEDY), "ABABABABAB");
    let presence = Penalties { presence: 30.0, ..Penalties::NONE };
    let text = repeats(Sampling { penalties: presence, ..Sampling::GREEDY });
    assert_eq!((&text[..2], text.matches(['A', 'B']).count()), ("AB", 2), "{text}");
    let dry = Dry { multiplier: 30.0, ..Dry::recommended(30.0) };
    let text = repeats(Sampling { dry: Some(dry), ..Sampling::GREEDY });
    assert!(text.starts_with("ABAB") && !text.starts_with("ABABA"), "{text}");
}

#[test]
fn a_request_draws_the_same_tokens_on_the_host_as_on_the_device() {
    let plain =
        Sampling { temperature: 1.5, top_k: 40, top_p: 0.9, min_p: 0.01, seed: 3, ..Sampling::GREEDY };
    let mut scheduler = scheduler(Limits::one_sequence(100));
    let want = ask(&mut scheduler, &[1, 2, 3], &plain, &ending(60)).unwrap().tokens;
    // Settings that ask for the logits and change nothing.
    let neutral = [
        Sampling { logit_bias: vec![(5, 0.0)], ..plain.clone() },
        Sampling { dry: Some(Dry::recommended(0.0)), ..plain.clone() },
        Sampling { top_n_sigma: 1e6, ..plain.clone() },
        Sampling { xtc: Xtc { probability: 1.0, threshold: 1.0 }, ..plain.clone() },
    ];
    for sampling in neutral {
        assert_eq!(
            ask(&mut scheduler, &[1, 2, 3], &sampling, &ending(60)).unwrap().tokens,
            want,
            "{sampling:?}"
        );
    }
}

#[test]
fn a_seed_repeats_an_answer_whatever_filters_are_asked_for() {
    let all = Sampling {
        temperature: 1.2,
        top_k: 30,
        top_p: 0.95,
        min_p: 0.02,
        seed: 11,
        logit_bias: vec![(3, 1.0)],
        penalties: Penalties { repetition: 1.1, presence: 0.2, frequency: 0.1 },
        dry: Some(Dry::recommended(0.8)),
        top_n_sigma: 2.0,
        typical: 0.95,
        xtc: Xtc { probability: 0.5, threshold: 0.1 },
    };
    let mut scheduler = scheduler(Limits::one_sequence(100));
    let mut with =
        |sampling: &Sampling| ask(&mut scheduler, &[1, 2, 3], sampling, &ending(60)).unwrap().tokens;
    let first = with(&all);
    assert_eq!(with(&all), first);
    assert_ne!(with(&Sampling { seed: 12, ..all.clone() }), first);
}

#[test]
fn an_answer_after_going_back_is_the_one_of_a_sequence_that_never_went_there() {
    // With the same token left out from the first, by bias instead of by going back.
    let sampling = Sampling { temperature: 1.0, seed: 4, ..Sampling::GREEDY };
    let mut scheduler = scheduler(Limits::one_sequence(100));
    let free = ask(&mut scheduler, &[1, 2, 3], &sampling, &ending(1)).unwrap();
    let banned = Ending { banned: vec![free.text()], ..ending(1) };
    let went_back = ask(&mut scheduler, &[1, 2, 3], &sampling, &banned).unwrap();
    let biased = Sampling { logit_bias: vec![(free.tokens[0], f32::NEG_INFINITY)], ..sampling };
    assert_eq!(went_back.tokens, ask(&mut scheduler, &[1, 2, 3], &biased, &ending(1)).unwrap().tokens);
    assert_eq!(went_back.report.taken_back, 1);
}
