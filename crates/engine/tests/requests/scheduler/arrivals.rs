//! Requests that come, go and crowd each other out at random.

use engine::{Class, Finish, Limits, Request, RequestId, SampleId, Sampling, Settings};
use program::draw::log_probability;
use proptest::prelude::*;

use super::{House, LIMITS, request, right, samples, words};
use crate::fake::{self, Memories};

/// What happens next.
#[derive(Clone, Debug)]
enum Action {
    /// Somebody asks.
    Submit(Box<Request>),
    /// The device runs so many steps.
    Steps(usize),
    /// Somebody does not want the answer any more: the one with this number, modulo those that there are.
    Cancel(usize),
}

/// Prompts most of which begin alike and go on differently, in the middle of a page or at its end.
fn prompt() -> impl Strategy<Value = Vec<u32>> {
    let shared = prop_oneof![Just(0usize), Just(63), Just(64), Just(65), Just(128), 1..200usize];
    let own = prop_oneof![Just(1usize), Just(64), 1..100usize];
    (0..2u32, shared, 0..3u32, own).prop_map(|(text, shared, other, own)| {
        let mut prompt = words(shared, text);
        prompt.extend(words(own, other + 5));
        prompt
    })
}

fn requests() -> impl Strategy<Value = Request> {
    let class = prop_oneof![4 => Just(Class::Normal), 1 => Just(Class::Urgent), 1 => Just(Class::Background)];
    let temperature = prop_oneof![Just(0.0f32), Just(1.0)];
    let longest = prop_oneof![Just(0usize), Just(1), 1..150usize];
    let tops = prop_oneof![6 => Just((None, None)), 1 => Just((Some(2), None)), 1 => Just((None, Some(0)))];
    (prompt(), longest, temperature, (1..4u32, any::<u16>()), class, tops).prop_map(
        |(prompt, longest, temperature, (count, seed), class, (top, prompt_top))| Request {
            sampling: Sampling { temperature, seed: u64::from(seed), ..Sampling::GREEDY },
            class,
            log_probabilities: top,
            prompt_log_probabilities: prompt_top,
            ..samples(count, request(&prompt, longest))
        },
    )
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        4 => requests().prop_map(|request| Action::Submit(Box::new(request))),
        4 => (1..40usize).prop_map(Action::Steps),
        1 => any::<usize>().prop_map(Action::Cancel),
    ];
    prop::collection::vec(action, 1..25)
}

fn houses() -> impl Strategy<Value = (Limits, Settings, Memories)> {
    let pages = prop_oneof![Just(5u32), 5..9u32, Just(30)];
    let memories = prop_oneof![3 => Just(Memories::Pages), 1 => Just(Memories::PagesAndState)];
    (1..6u32, pages, 6..150u32, 0..20u32, (any::<bool>(), memories)).prop_map(
        |(sequences, pages, chunk, more, (prefix_cache, memories))| {
            let limits = Limits { sequences, pages, chunk, outputs: sequences + more, ..LIMITS };
            (limits, Settings { prefix_cache, ..Settings::default() }, memories)
        },
    )
}

/// A request that was accepted.
struct Asked {
    id: RequestId,
    request: Request,
    /// Steps done when it came.
    came: u64,
    /// The number of its first sample.
    number: u64,
    cancelled: bool,
}

impl Asked {
    /// Its place in the queue, as the documentation of [`Class`] says.
    fn place(&self, sample: u32) -> (u64, u64) {
        let classes = match self.request.class {
            Class::Urgent => 0,
            Class::Normal => 1,
            Class::Background => 2,
        };
        let number = self.number + u64::from(sample);
        (number + classes * Class::HEAD_START, number)
    }

    /// Rows that each of its samples needs at most.
    fn rows(&self) -> u64 {
        (self.request.prompt.len() + self.request.ending.max_tokens) as u64
    }
}

fn check(house: &House, asked: &[Asked], memories: Memories) {
    for one in asked {
        for sample in 0..one.request.samples.get() {
            let told = house.told(one.id, sample);
            let right = right(&one.request, sample, memories);
            assert_eq!(told.text, fake::text(&told.tokens));
            check_log_probabilities(one, sample, house, memories);
            if told.finish() == Finish::Cancelled {
                assert!(one.cancelled && right.starts_with(&told.tokens));
                continue;
            }
            assert_eq!(told.tokens, right, "sample {sample} of {:?}", one.request);
            let whole = one.request.ending.max_tokens == right.len();
            assert_eq!(told.finish(), if whole { Finish::Length } else { Finish::Context });
            // Nobody starves: at most one step for each row of all that go first.
            let place = one.place(sample);
            let first = |other: &&Asked| other.place(0) <= place;
            let rows = asked.iter().filter(first).map(|other| {
                let before = (0..other.request.samples.get()).filter(|sample| other.place(*sample) <= place);
                before.count() as u64 * other.rows()
            });
            assert!(told.ended_in <= one.came + rows.sum::<u64>(), "sample {sample} of {:?}", one.request);
        }
    }
}

fn check_log_probabilities(one: &Asked, sample: u32, house: &House, memories: Memories) {
    let told = house.told(one.id, sample);
    let mut tokens = one.request.prompt.clone();
    let prompt = tokens.len();
    tokens.extend(&told.tokens);
    let given = match (one.request.log_probabilities, one.request.prompt_log_probabilities) {
        (Some(_), _) => {
            assert_eq!((told.answer.len(), told.prompt.len()), (told.tokens.len(), 0));
            (prompt..).zip(&told.answer)
        }
        (None, Some(_)) if sample == 0 => {
            let some = told.finish() == Finish::Cancelled && told.prompt.len() < prompt;
            assert!(told.answer.is_empty() && (some || told.prompt.len() == prompt - 1));
            (1..).zip(&told.prompt)
        }
        _ => {
            assert!(told.answer.is_empty() && told.prompt.is_empty());
            return;
        }
    };
    for (place, (score, _)) in given {
        let want = log_probability(&fake::logits_after(&tokens[..place], memories), tokens[place]);
        assert!((score - want).abs() < 1e-5, "{score} {want}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn answers_are_those_of_the_tokens_alone_whoever_else_asks_and_come_in_bounded_time(
        (limits, settings, memories) in houses(),
        actions in actions(),
    ) {
        let mut house = House::new(limits, settings, memories);
        let mut asked: Vec<Asked> = Vec::new();
        let mut number = 0;
        for action in actions {
            match action {
                Action::Submit(request) => {
                    let came = house.scheduler.counts().steps;
                    let id = house.submit(&request).unwrap();
                    let count = u64::from(request.samples.get());
                    asked.push(Asked { id, request: *request, came, number, cancelled: false });
                    number += count;
                }
                Action::Steps(count) => {
                    for _ in 0..count {
                        house.step().unwrap();
                    }
                }
                Action::Cancel(pick) if !asked.is_empty() => {
                    let pick = pick % asked.len();
                    asked[pick].cancelled = true;
                    house.cancel(asked[pick].id);
                    let under_way = |sample| house.told[&SampleId { request: asked[pick].id, sample }].end.is_none();
                    prop_assert!(!(0..asked[pick].request.samples.get()).any(under_way));
                }
                Action::Cancel(_) => {}
            }
        }
        house.finish();
        check(&house, &asked, memories);
    }
}
