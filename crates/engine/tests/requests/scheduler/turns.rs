//! Whose turn it is.

use engine::{Class, Finish, Limits, Request, Settings};

use super::{House, LIMITS, request, right, words};
use crate::fake::Memories;

#[test]
fn a_step_has_a_row_of_each_answer_and_then_prompts_in_their_order() {
    let mut house = House::paged(LIMITS);
    house.submit(&request(&words(5, 1), 50)).unwrap();
    house.step().unwrap();
    let (second, third) = (request(&words(120, 2), 50), request(&words(60, 3), 50));
    let (second, third) = (house.submit(&second).unwrap(), house.submit(&third).unwrap());
    let drawn = |house: &House| [second, third].map(|id| house.told(id, 0).tokens.len());
    let mut rows = Vec::new();
    for want in [[0, 0], [1, 1], [2, 2]] {
        let before = house.scheduler.counts().rows;
        house.step().unwrap();
        rows.push(house.scheduler.counts().rows - before);
        assert_eq!(drawn(&house), want);
    }
    // 1 and 99 of the second; 1, its last 21 and 60 of the third; one each.
    assert_eq!(rows, [100, 82, 3]);
}

#[test]
fn out_of_pages_the_newest_yields_and_all_get_the_answers_that_they_get_alone() {
    // Four answers that come to need 5 pages each, in 8 pages.
    for memories in [Memories::Pages, Memories::PagesAndState] {
        let limits = Limits { pages: 8, ..LIMITS };
        let mut house = House::new(limits, Settings::default(), memories);
        let all: Vec<Request> = (0..4).map(|seed| request(&words(50, seed + 1), 240)).collect();
        let ids: Vec<_> = all.iter().map(|request| house.submit(request).unwrap()).collect();
        house.finish();
        for (id, request) in ids.iter().zip(&all) {
            assert_eq!(house.told(*id, 0).tokens, right(request, 0, memories));
        }
        let preemptions: Vec<_> = ids.iter().map(|id| house.told(*id, 0).report().preemptions).collect();
        assert!(preemptions[0] == 0 && preemptions[3] > 0, "{preemptions:?}");
        // In order, as they came.
        assert!(ids.is_sorted_by_key(|id| house.told(*id, 0).ended_in));
    }
}

#[test]
fn an_answer_ends_while_newer_ones_keep_coming() {
    let mut house = House::paged(Limits { pages: 6, ..LIMITS });
    let patient = request(&words(200, 1), 100);
    let id = house.submit(&patient).unwrap();
    let mut seed = 0;
    while house.told(id, 0).end.is_none() {
        seed += 1;
        house.submit(&request(&words(60 + seed % 7, seed as u32), 30)).unwrap();
        house.step().unwrap();
    }
    assert_eq!(house.told(id, 0).tokens, right(&patient, 0, Memories::Pages));
    assert_eq!((house.told(id, 0).report().preemptions, house.told(id, 0).ended_in), (0, 101));
}

#[test]
fn an_urgent_request_makes_others_yield_and_a_background_one_waits_for_at_most_its_places() {
    let settings = Settings { queue: 10_000, ..Settings::default() };
    let mut house = House::new(Limits { sequences: 1, outputs: 1, ..LIMITS }, settings, Memories::Pages);
    let of = |class, seed| Request { class, ..request(&words(10, seed), 3) };
    let background = house.submit(&of(Class::Background, 1)).unwrap();
    house.step().unwrap();
    let normal = house.submit(&of(Class::Normal, 2)).unwrap();
    house.step().unwrap();
    let urgent = house.submit(&of(Class::Urgent, 3)).unwrap();
    let mut later = 0;
    while house.told(background, 0).end.is_none() {
        house.submit(&of(Class::Normal, 4 + later)).unwrap();
        house.step().unwrap();
        later += 1;
    }
    let ended = [urgent, normal, background].map(|id| house.told(id, 0).ended_in);
    assert!(ended.is_sorted() && house.told(background, 0).report().preemptions == 1, "{ended:?}");
    // Of those that came later the first `HEAD_START - 1` go before it, three steps each.
    assert_eq!(house.told(background, 0).ended_in, 3 * Class::HEAD_START);
    house.finish();
    assert!(house.told.values().all(|told| told.finish() == Finish::Length));
}

#[test]
fn what_it_took_is_told() {
    let mut house = House::paged(LIMITS);
    let report = house.run(&request(&words(150, 1), 20)).report();
    assert_eq!((report.prompt_tokens, report.tokens, report.cached_tokens), (150, 20, 0));
    let counts = house.scheduler.counts();
    assert_eq!((counts.steps, counts.rows, counts.drawn), (2 + 19, 150 + 19, 20));
    assert_eq!((counts.preemptions, counts.failed), (0, 0));
}
