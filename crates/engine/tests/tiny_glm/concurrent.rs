//! Eight requests at once on one cpu device, against each of them alone.

use std::collections::BTreeMap;

use engine::{Ending, Event, Finish, Limits, Request, RequestId, Sampling, Scheduler};
use program::Format;
use program::random::SplitMix64;

use crate::{answer, cpu, shipped};

/// No text is wanted.
fn no_bytes(_: u32) -> &'static [u8] {
    &[]
}

fn scheduler(limits: Limits) -> Scheduler {
    crate::scheduler(&shipped(), Format::F16, cpu(), limits)
}

/// Eight prompts of different lengths, half of them greedy. Five begin alike and come to need another page; three have
/// long answers.
fn requests() -> Vec<Request> {
    let mut random = SplitMix64::new(7);
    let mut tokens = |count: usize| (0..count).map(|_| random.below(8192)).collect::<Vec<u32>>();
    let shared = tokens(130);
    let lengths = [60, 61, 59, 190, 3, 62, 40, 31];
    (0..)
        .zip(lengths)
        .map(|(number, length)| {
            let longest = if number < 5 { 10 + 3 * number as usize } else { 180 };
            let mut prompt = if number < 5 { shared.clone() } else { Vec::new() };
            prompt.extend(tokens(length));
            let temperature = if number % 2 == 0 { 0.0 } else { 1.0 };
            let sampling = Sampling { temperature, seed: number, ..Sampling::GREEDY };
            Request::new(prompt, sampling, Ending { max_tokens: longest, ..Ending::default() })
        })
        .collect()
}

/// What an engine gives that has nothing else to do, with nothing cached.
fn alone(request: &Request) -> Vec<u32> {
    let limits = Limits { deterministic: true, ..Limits::one_sequence(512) };
    answer(&mut scheduler(limits), request).0
}

/// Runs all requests at once, the second half of them a little later.
fn together(scheduler: &mut Scheduler, requests: &[Request]) -> Vec<Vec<u32>> {
    let mut answers: BTreeMap<RequestId, Vec<u32>> = BTreeMap::new();
    let mut late = requests[requests.len() / 2..].iter();
    for request in &requests[..requests.len() / 2] {
        answers.insert(scheduler.submit(request.clone(), &no_bytes).unwrap(), Vec::new());
    }
    loop {
        let ran = scheduler
            .step(&no_bytes, &mut |id, event| match event {
                Event::Token { token, .. } => answers.get_mut(&id.request).unwrap().push(token),
                Event::Finished { report, .. } => assert_eq!(report.finish, Finish::Length),
                other => panic!("{other:?}"),
            })
            .unwrap();
        scheduler.audit().unwrap();
        match late.next() {
            Some(request) => {
                answers.insert(scheduler.submit(request.clone(), &no_bytes).unwrap(), Vec::new());
            }
            None if !ran => return answers.into_values().collect(),
            None => {}
        }
    }
}

#[test]
fn eight_requests_at_once_give_the_tokens_of_each_alone_cold_warm_and_out_of_pages() {
    let requests = requests();
    let alone: Vec<Vec<u32>> = requests.iter().map(alone).collect();
    let wide = Limits { context: 512, sequences: 8, pages: 64, chunk: 150, outputs: 8, deterministic: true };
    let mut all = scheduler(wide);
    assert!(together(&mut all, &requests) == alone, "cold");
    // Two full pages are the same for five of them.
    assert!(all.counts().prefix_hits >= 4 * 128 && all.counts().preemptions == 0, "{:?}", all.counts());
    let cold = all.counts().prefix_hits;
    assert!(together(&mut all, &requests) == alone, "warm");
    assert!(all.counts().prefix_hits > 2 * cold, "{:?}", all.counts());
    let mut tight = scheduler(Limits { pages: 8, ..wide });
    assert!(together(&mut tight, &requests) == alone, "with 8 pages");
    assert!(tight.counts().preemptions > 0, "{:?}", tight.counts());
}
