//! How probable tokens were.

use engine::{Limits, Request, Sampling};
use program::draw::log_probability;

use super::{House, LIMITS, request, right, words};
use crate::fake::{self, Memories};

/// The most probable tokens after some, and how probable a token is.
fn want(tokens: &[u32], token: u32, count: usize) -> (f32, Vec<(u32, f32)>) {
    let logits = fake::logits_after(tokens, Memories::Pages);
    let mut all: Vec<(u32, f32)> =
        (0..).map(|id| (id, log_probability(&logits, id))).take(logits.len()).collect();
    let score = all[token as usize].1;
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(count);
    (score, all)
}

fn assert_near(got: &(f32, Vec<(u32, f32)>), want: &(f32, Vec<(u32, f32)>)) {
    let near = |got: f32, want: f32| (got - want).abs() < 1e-5;
    let same = |((id, got), (want_id, want)): (&(u32, f32), &(u32, f32))| id == want_id && near(*got, *want);
    assert!(near(got.0, want.0) && got.1.len() == want.1.len(), "{got:?} {want:?}");
    assert!(got.1.iter().zip(&want.1).all(same), "{got:?} {want:?}");
}

#[test]
fn a_token_comes_with_its_log_probability_and_those_of_the_best_and_is_the_same_token() {
    let mut house = House::paged(LIMITS);
    let sampling = Sampling { temperature: 0.7, seed: 3, top_p: 0.9, ..Sampling::GREEDY };
    let asked = Request { sampling, log_probabilities: Some(3), ..request(&words(70, 1), 20) };
    let told = house.run(&asked);
    assert_eq!((&told.tokens, told.answer.len()), (&right(&asked, 0, Memories::Pages), 20));
    let mut tokens = asked.prompt.clone();
    for (token, got) in told.tokens.iter().zip(&told.answer) {
        assert_near(got, &want(&tokens, *token, 3));
        tokens.push(*token);
    }
}

#[test]
fn a_prompt_is_scored_once_however_it_is_cut_and_whatever_is_cached() {
    let prompt = words(150, 1);
    for (outputs, top, longest) in [(4, 0, 0), (4, 2, 3), (60, 0, 1), (200, 2, 0)] {
        let mut house = House::paged(Limits { outputs, ..LIMITS });
        house.run(&request(&prompt, 1));
        let asked = Request { prompt_log_probabilities: Some(top), ..request(&prompt, longest) };
        let id = house.submit(&asked).unwrap();
        let beside = house.submit(&request(&words(5, 2), 30)).unwrap();
        house.finish();
        let told = house.told(id, 0);
        assert_eq!((told.prompt.len(), told.report().cached_tokens), (149, 0));
        assert_eq!((&told.tokens, told.tokens.len()), (&right(&asked, 0, Memories::Pages), longest));
        for (place, got) in (1..).zip(&told.prompt) {
            assert_near(got, &want(&prompt[..place], prompt[place], top as usize));
        }
        assert_eq!(house.told(beside, 0).tokens.len(), 30);
    }
}

#[test]
fn a_prompt_whose_scoring_was_interrupted_goes_on_where_it_was() {
    let mut house = House::paged(Limits { pages: 6, sequences: 2, outputs: 3, ..LIMITS });
    // The first grows over page after page, and the second yields while it is scored, two rows a step.
    let first = house.submit(&request(&words(60, 1), 200)).unwrap();
    let prompt = words(250, 2);
    house.step().unwrap();
    let second = house.submit(&Request { prompt_log_probabilities: Some(0), ..request(&prompt, 2) }).unwrap();
    house.finish();
    let told = house.told(second, 0);
    assert!(told.report().preemptions > 0 && house.told(first, 0).report().preemptions == 0);
    assert_eq!(told.prompt.len(), 249);
    for (place, got) in (1..).zip(&told.prompt) {
        assert_near(got, &want(&prompt[..place], prompt[place], 0));
    }
}
