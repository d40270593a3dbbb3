//! What requests that begin alike share.

use engine::{Limits, Request, Settings};

use super::{House, LIMITS, request, right, samples, words};
use crate::fake::Memories;

const WIDE: Limits =
    Limits { context: 300, sequences: 8, pages: 40, chunk: 400, outputs: 8, deterministic: false };

#[test]
fn a_prompt_that_came_before_is_fed_from_its_last_page_on() {
    let mut house = House::paged(LIMITS);
    for (length, cached) in [(63, 0), (64, 0), (65, 64), (200, 64), (200, 192), (192, 128), (193, 192)] {
        let again = request(&words(length, 1), 3);
        let before = house.scheduler.counts().rows;
        let told = house.run(&again);
        assert_eq!((told.report().cached_tokens, &told.tokens), (cached, &right(&again, 0, Memories::Pages)));
        // The last of the three tokens is not fed.
        assert_eq!(house.scheduler.counts().rows - before, (length - cached + 2) as u64, "{length}");
    }
    let counts = house.scheduler.counts();
    assert_eq!((counts.prefix_tokens, counts.prefix_hits), (63 + 64 + 65 + 200 + 200 + 192 + 193, 640));
}

#[test]
fn an_answer_is_found_when_the_next_prompt_goes_on_from_it() {
    let mut house = House::paged(LIMITS);
    let first = request(&words(100, 1), 60);
    let mut next = first.prompt.clone();
    next.extend(&house.run(&first).tokens);
    next.extend(words(10, 4));
    let next = request(&next, 5);
    let told = house.run(&next);
    assert_eq!((told.report().cached_tokens, &told.tokens), (128, &right(&next, 0, Memories::Pages)));
}

#[test]
fn nothing_is_shared_between_salts_nor_with_the_prefix_cache_off_nor_with_a_state() {
    let plain = request(&words(200, 1), 3);
    let cached = |house: &mut House, request: &Request| house.run(request).report().cached_tokens;
    let mut house = House::paged(LIMITS);
    let salted = Request { salt: b"somebody else".into(), ..plain.clone() };
    let of = |house: &mut House| [&plain, &salted, &plain, &salted].map(|request| cached(house, request));
    assert_eq!(of(&mut house), [0, 0, 192, 192]);
    let off = Settings { prefix_cache: false, ..Settings::default() };
    assert_eq!(of(&mut House::new(LIMITS, off, Memories::Pages)), [0; 4]);
    assert_eq!(of(&mut House::new(LIMITS, Settings::default(), Memories::PagesAndState)), [0; 4]);
}

#[test]
fn several_answers_to_a_prompt_share_its_full_pages_without_a_copy() {
    for prefix_cache in [true, false] {
        let mut house = House::new(WIDE, Settings { prefix_cache, ..Settings::default() }, Memories::Pages);
        let many = samples(6, request(&words(200, 1), 10));
        let many =
            Request { sampling: engine::Sampling { temperature: 1.0, ..many.sampling.clone() }, ..many };
        let id = house.submit(&many).unwrap();
        // The first one computes the prompt, then the others feed the 8 tokens after its 3 full pages.
        house.step().unwrap();
        assert_eq!((house.scheduler.counts().rows, house.scheduler.load().running), (200, 1));
        house.step().unwrap();
        let load = house.scheduler.load();
        assert_eq!((house.scheduler.counts().rows, load.running), (200 + 1 + 5 * 8, 6));
        assert_eq!(load.pages - load.available_pages, 3 + 6);
        house.finish();
        let answers: Vec<_> = (0..6).map(|sample| &house.told(id, sample).tokens).collect();
        for (sample, answer) in (0..).zip(&answers) {
            assert_eq!(**answer, right(&many, sample, Memories::Pages));
        }
        assert_ne!(answers[0], answers[1]);
    }
}

#[test]
fn requests_that_begin_alike_and_come_together_compute_the_beginning_once() {
    let mut house = House::paged(WIDE);
    let all: Vec<Request> = (0..4)
        .map(|seed| {
            let mut prompt = words(256, 1);
            prompt.extend(words(20, seed + 2));
            request(&prompt, 4)
        })
        .collect();
    let ids: Vec<_> = all.iter().map(|request| house.submit(request).unwrap()).collect();
    house.finish();
    assert_eq!(house.scheduler.counts().rows, 256 + 4 * (20 + 3));
    for (id, request) in ids.iter().zip(&all) {
        assert_eq!(house.told(*id, 0).tokens, right(request, 0, Memories::Pages));
    }
}

#[test]
fn whoever_waits_for_pages_of_a_request_that_is_cancelled_computes_them() {
    let mut house = House::paged(LIMITS);
    let first = house.submit(&request(&words(290, 1), 4)).unwrap();
    let second = request(&words(290, 1), 5);
    let waits = house.submit(&second).unwrap();
    house.step().unwrap();
    assert_eq!((house.scheduler.load().running, house.scheduler.load().waiting), (1, 1));
    house.cancel(first);
    house.finish();
    let told = house.told(waits, 0);
    // The first had filled one page in its chunk of 100 rows.
    assert_eq!((told.report().cached_tokens, &told.tokens), (64, &right(&second, 0, Memories::Pages)));
}

#[test]
fn pages_that_nobody_owns_are_given_up_the_longest_unused_first_and_from_the_end_of_a_text() {
    let mut house = House::paged(Limits { pages: 8, ..LIMITS });
    let mut cached = |seed, length| house.run(&request(&words(length, seed), 1)).report().cached_tokens;
    // Four pages and three, of which the last is not full and so is not kept.
    assert_eq!((cached(1, 256), cached(2, 190)), (0, 0));
    // Four more: two were free, and the others are the last two of the text used longest ago.
    assert_eq!(cached(3, 256), 0);
    // One more for the end of this one, which is the second of that text.
    assert_eq!(cached(2, 190), 128);
    assert_eq!(cached(1, 256), 64);
}
