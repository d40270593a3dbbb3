//! What is refused, and how an answer can end before its end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use engine::{Ending, Engine, Error, Finish, Limits, Request, Scheduler, Settings};

use super::{House, LIMITS, request, right, samples, words};
use crate::fake::{self, Fake, Memories};

#[test]
fn a_prompt_longer_than_the_context_is_refused_with_both_counts_before_any_work() {
    let mut house = House::paged(LIMITS);
    let refused = house.submit(&request(&words(301, 1), 5)).unwrap_err();
    assert!(matches!(refused, Error::PromptTooLong { prompt: 301, context: 300 }), "{refused}");
    assert!(house.scheduler.is_idle());
    assert_eq!(house.run(&request(&words(300, 1), 5)).finish(), Finish::Context);
}

#[test]
fn an_empty_prompt_and_an_unknown_token_are_refused_for_their_request_alone() {
    let mut house = House::paged(LIMITS);
    let other = house.submit(&request(&[1, 2], 5)).unwrap();
    assert!(matches!(house.submit(&request(&[], 5)).unwrap_err(), Error::EmptyPrompt));
    let refused = house.submit(&request(&[60, 61], 5)).unwrap_err();
    assert!(matches!(refused, Error::UnknownToken { token: 61, vocabulary: 61 }), "{refused}");
    house.finish();
    assert_eq!(house.told(other, 0).finish(), Finish::Length);
}

#[test]
fn more_answers_than_may_wait_are_refused_and_the_others_come() {
    let settings = Settings { queue: 3, ..Settings::default() };
    let mut house = House::new(LIMITS, settings, Memories::Pages);
    // Four can begin at once and three can wait.
    for seed in 0..5 {
        house.submit(&request(&words(10, seed), 5)).unwrap();
    }
    let refused = house.submit(&samples(3, request(&words(10, 9), 5))).unwrap_err();
    assert!(matches!(refused, Error::QueueFull { waiting: 5, limit: 3 }), "{refused}");
    house.submit(&samples(2, request(&words(10, 9), 5))).unwrap();
    assert!(house.submit(&request(&[1], 5)).is_err());
    house.step().unwrap();
    assert!(house.submit(&request(&[1], 5)).is_err());
    house.finish();
    assert_eq!(house.run(&request(&[1], 5)).finish(), Finish::Length);
}

#[test]
fn limits_without_room_for_one_of_each_are_refused() {
    for (limits, what) in [
        (Limits { pages: 4, ..LIMITS }, "4 pages, and one sequence can need 5"),
        (Limits { chunk: 3, ..LIMITS }, "3 rows a step, and the sequences can need 4"),
        (Limits { outputs: 3, ..LIMITS }, "3 outputs a step, and the sequences can need 4"),
        (Limits { sequences: 0, ..LIMITS }, "0 sequences at once, and there must be 1"),
    ] {
        let engine = Engine::new(Box::new(Fake::default()), &fake::model(), limits).unwrap();
        let refused = Scheduler::new(engine, Settings::default()).err().unwrap();
        assert!(refused.to_string().contains(what), "{refused}");
    }
}

#[test]
fn a_request_cancelled_while_its_prompt_is_fed_ends_after_the_chunk_under_way() {
    let mut house = House::paged(LIMITS);
    let id = house.submit(&request(&words(290, 1), 5)).unwrap();
    house.step().unwrap();
    house.cancel(id);
    assert_eq!(house.told(id, 0).finish(), Finish::Cancelled);
    assert_eq!((house.scheduler.counts().rows, house.step().unwrap()), (100, false));
    // It was promised pages that it never filled: nobody waits for them.
    let other = request(&words(290, 1), 5);
    assert_eq!(house.run(&other).tokens, right(&other, 0, Memories::Pages));
}

#[test]
fn a_deadline_ends_answers_that_run_and_answers_that_wait() {
    let mut house = House::paged(Limits { sequences: 1, outputs: 1, ..LIMITS });
    let deadline = Some(Instant::now() + Duration::from_millis(30));
    let timed = |prompt: &[u32]| Request { deadline, ..request(prompt, 250) };
    let (runs, waits) = (house.submit(&timed(&[1])).unwrap(), house.submit(&timed(&[2])).unwrap());
    let late = house.submit(&Request { deadline: None, ..timed(&[3]) }).unwrap();
    house.step().unwrap();
    std::thread::sleep(Duration::from_millis(31));
    house.finish();
    assert_eq!(
        [runs, waits, late].map(|id| house.told(id, 0).finish()),
        [Finish::Deadline, Finish::Deadline, Finish::Length]
    );
    assert_eq!((house.told(runs, 0).tokens.len(), house.told(waits, 0).tokens.len()), (1, 0));
}

#[test]
fn a_stop_string_ends_one_answer_and_the_others_go_on() {
    let mut house = House::paged(LIMITS);
    let plain = request(&words(70, 1), 40);
    let whole = fake::text(&right(&plain, 0, Memories::Pages));
    let ending = Ending { strings: vec![whole[20..23].to_owned()], ..plain.ending.clone() };
    let stopped = house.submit(&Request { ending, ..plain.clone() }).unwrap();
    let other = house.submit(&plain).unwrap();
    house.finish();
    let told = house.told(stopped, 0);
    assert_eq!(
        (&told.text[..], told.finish()),
        (&whole[..whole.find(&whole[20..23]).unwrap()], Finish::Stop)
    );
    assert_eq!(house.told(other, 0).text, whole);
}

#[test]
fn a_banned_string_is_taken_back_within_a_page_of_its_own() {
    let mut device = Fake::default();
    device.script = [vec![fake::VOCAB; 20], fake::tokens("abcdefghij")].concat();
    let mut house = House::with(device, LIMITS, Settings::default(), Memories::Pages);
    let plain = request(&words(20, 1), 10);
    let ending = Ending { banned: vec!["bcd".into()], ..plain.ending.clone() };
    let before = house.scheduler.counts().rows;
    let told = house.run(&Request { ending, ..plain.clone() });
    assert_eq!((&told.text[..1], &told.text[2..], told.report().taken_back), ("a", "cdefghij", 3));
    assert_ne!(&told.text[1..2], "b");
    // The prompt, `abc`, `a` again, and what came after it but for the last.
    assert_eq!(house.scheduler.counts().rows - before, 20 + 3 + 1 + 8);
    assert_eq!(house.run(&plain).text, "abcdefghij");
}

#[test]
fn a_banned_string_is_taken_back_over_a_page_boundary_and_the_shared_page_stays_right() {
    for memories in [Memories::Pages, Memories::PagesAndState] {
        // The device wants to say `abcdef` from place 62 on; the page is full after `ab`.
        let script = [vec![fake::VOCAB; 62], fake::tokens("abcdefghij")].concat();
        let mut device = Fake::default();
        device.script = script;
        let mut house = House::with(device, LIMITS, Settings::default(), memories);
        let plain = request(&words(62, 1), 10);
        let ending = Ending { banned: vec!["abcdef".into()], ..plain.ending.clone() };
        let banned = house.submit(&Request { ending, ..plain.clone() }).unwrap();
        house.finish();
        let told = house.told(banned, 0);
        assert!(!told.text.contains("abcdef") && told.text.len() == 10, "{}", told.text);
        assert_eq!(told.text, fake::text(&told.tokens));
        assert_eq!(told.report().taken_back, 6);
        // The page with `ab` is kept and is what it says.
        assert_eq!(house.run(&plain).text, "abcdefghij");
        let mut longer = plain.prompt.clone();
        longer.extend(fake::tokens("abc"));
        let told = house.run(&request(&longer, 7));
        assert_eq!(told.text, "defghij");
        assert_eq!(told.report().cached_tokens, if memories == Memories::Pages { 64 } else { 0 });
    }
}

#[test]
fn logits_that_are_not_finite_fail_their_request_alone_and_what_it_cached_is_not_used() {
    let mut house = House::paged(LIMITS);
    let without_7 = |seed| words(150, seed).into_iter().map(|token| if token == 7 { 8 } else { token });
    let mut prompt: Vec<u32> = without_7(1).collect();
    prompt[40] = 7;
    let others: Vec<u32> = without_7(2).collect();
    let bad = request(&prompt, 20);
    house.faults.token.store(7, Ordering::Relaxed);
    let failed = house.submit(&samples(2, bad.clone())).unwrap();
    let scored = house.submit(&Request { prompt_log_probabilities: Some(0), ..bad.clone() }).unwrap();
    let other = Request { log_probabilities: Some(1), ..request(&others, 3) };
    let other_id = house.submit(&other).unwrap();
    house.finish();
    let told = house.told(failed, 0);
    assert!(matches!(told.error(), Error::NotFinite { tokens: 150 }), "{:?}", told.end);
    assert!(house.told(failed, 1).end.as_ref().unwrap().is_err());
    assert!(matches!(house.told(scored, 0).error(), Error::NotFinite { tokens: 41 }));
    assert_eq!(house.told(other_id, 0).tokens, right(&other, 0, Memories::Pages));
    assert_eq!(house.scheduler.counts().failed, 3);
    // The fault goes away, and the same prompt finds nothing of what was cached while it was there.
    house.faults.token.store(u32::MAX, Ordering::Relaxed);
    let told = house.run(&bad);
    assert_eq!((told.report().cached_tokens, &told.tokens), (0, &right(&bad, 0, Memories::Pages)));
}

#[test]
fn a_device_that_fails_fails_the_answers_of_its_step_and_loses_nothing() {
    let mut house = House::paged(Limits { sequences: 2, outputs: 2, ..LIMITS });
    let all: Vec<_> = (0..3).map(|seed| house.submit(&request(&words(70, seed), 9)).unwrap()).collect();
    house.step().unwrap();
    house.faults.device.store(true, Ordering::Relaxed);
    assert!(matches!(house.step().unwrap_err(), Error::Device(_)));
    house.faults.device.store(false, Ordering::Relaxed);
    house.finish();
    let failed = all.iter().filter(|id| house.told(**id, 0).end.as_ref().unwrap().is_err()).count();
    assert_eq!((failed, house.told(all[2], 0).finish()), (2, Finish::Length));
}
