//! Turn after turn of a conversation, and going back, with what is cached of the turns before.

use engine::{Ending, Limits, Request, Sampling, Scheduler};
use program::Format;
use program::random::SplitMix64;

use crate::{answer, cpu, names_of, scheduler, shipped};

/// Random tokens that the model knows.
fn tokens(count: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| random.below(8192)).collect()
}

fn start() -> Scheduler {
    let limits = Limits { deterministic: true, ..Limits::one_sequence(400) };
    scheduler(&shipped(), Format::F16, cpu(), limits)
}

/// Twenty tokens, none of these texts in them.
fn request(prompt: &[u32], banned: &[String]) -> Request {
    let sampling = Sampling { temperature: 0.8, seed: 3, ..Sampling::GREEDY };
    let ending = Ending { banned: banned.to_vec(), max_tokens: 20, ..Ending::default() };
    Request::new(prompt.to_vec(), sampling, ending)
}

#[test]
fn a_conversation_that_keeps_its_cache_is_answered_as_if_each_turn_were_new() {
    let mut warm = start();
    let said = tokens(150, 7);
    let mut cached = Vec::new();
    let mut prompt = said[..70].to_vec();
    for turn in 0..4 {
        let (tokens, report) = answer(&mut warm, &request(&prompt, &[]));
        cached.push(report.cached_tokens);
        assert_eq!(tokens, answer(&mut start(), &request(&prompt, &[])).0, "turn {turn}");
        prompt = match turn {
            // The answer and another question, the first half of that, another text.
            0 => [&prompt[..], &tokens, &said[100..]].concat(),
            1 => prompt[..66].to_vec(),
            _ => said[20..130].to_vec(),
        };
    }
    // Full pages.
    assert_eq!(cached, [0, 64, 64, 0]);
}

#[test]
fn an_answer_that_went_back_from_banned_strings_is_the_one_of_a_sequence_that_never_went_there() {
    let mut scheduler = start();
    let prompt = tokens(60, 8);
    let (free, _) = answer(&mut scheduler, &request(&prompt, &[]));
    // The fifth and sixth token, which lie on both sides of a page's end.
    let banned = [names_of(&free[4..6])];
    let (kept, report) = answer(&mut scheduler, &request(&prompt, &banned));
    assert!(report.taken_back >= 2 && kept[..4] == free[..4] && kept[4] != free[4], "{free:?} {kept:?}");
    assert!(!names_of(&kept).contains(&banned[0]), "{kept:?}");
    // What comes after the place is what a sequence with the same tokens before draws.
    let before = [&prompt[..], &kept[..5]].concat();
    let (again, _) = answer(&mut start(), &request(&before, &banned));
    assert_eq!(again[..15], kept[5..]);
}
