//! A comparison of two devices finds the operation that differs, and only that one.

mod mutant;

use mutant::{Fault, Mutant};
use program::compare::Comparison;
use program::conformance::{self, Architecture, KNOWN, Sample, VOCAB};
use program::random::SplitMix64;
use program::reference::Reference;
use program::{
    CacheSize, Device, Draw, Format, HostTensor, Kind, Op, Output, PageId, Score, Sequence, Size, Step,
    Token, Want,
};

const SIZE: Size = Size { tokens: 80, outputs: 80, sequences: 1 };

/// A sample with experts, on the reference and on a device with a fault.
struct Bench {
    sample: Sample,
    reference: Reference,
    other: Box<dyn Device>,
}

impl Bench {
    fn with(fault: Fault) -> Bench {
        Bench::new(Box::new(Mutant::new(fault)))
    }

    fn new(other: Box<dyn Device>) -> Bench {
        let sample = Sample::new(Architecture::Experts(Score::Sigmoid), Format::F16)
            .expect("the samples fit together");
        let mut bench = Bench { sample, reference: Reference::new(), other };
        let devices: [&mut dyn Device; 2] = [&mut bench.reference, &mut *bench.other];
        for device in devices {
            bench.sample.upload(device).expect("weights are taken");
            let size = CacheSize { pages: 3, slots: 1 };
            device.reserve(&bench.sample.spec.caches, size).expect("caches are reserved");
        }
        bench
    }

    fn comparison(&mut self) -> Comparison<'_> {
        Comparison::new(&self.sample.spec, SIZE, &mut self.reference, &mut *self.other).expect("prepared")
    }

    /// The index of the operation that uses this weight.
    fn op_with(&self, weight: &str) -> usize {
        let uses =
            |op: &Op| op.weights().iter().any(|id| self.sample.spec.weight(*id).parts[0].name == weight);
        self.sample.spec.programs[0].ops.iter().position(uses).expect("the sample has this weight")
    }
}

/// One step of one sequence of which `cached` tokens are cached, with the logits of all rows.
struct Prompt {
    tokens: Vec<Token>,
    positions: Vec<u32>,
    sequences: [Sequence; 1],
    outputs: Vec<Output>,
}

impl Prompt {
    fn new(rows: u32, cached: u32) -> Prompt {
        let mut random = SplitMix64::new(u64::from(cached) + 1);
        Prompt {
            tokens: (0..rows).map(|_| Token::Id(random.below(KNOWN))).collect(),
            positions: (cached..cached + rows).collect(),
            sequences: [Sequence { rows: 0..rows, cached, pages: 0..2, slot: 0 }],
            outputs: (0..rows).map(|row| Output { row, want: Want::Logits }).collect(),
        }
    }

    fn step(&self) -> Step<'_> {
        Step {
            tokens: &self.tokens,
            positions: &self.positions,
            sequences: &self.sequences,
            pages: &[PageId(2), PageId(1)],
            outputs: &self.outputs,
        }
    }
}

#[test]
fn a_device_that_does_the_same_differs_nowhere() {
    let mut bench = Bench::new(Box::new(Reference::new()));
    let ops = bench.sample.spec.programs[0].ops.len();
    let mut comparison = bench.comparison();
    // A prompt over two pages, then one token.
    for prompt in [Prompt::new(70, 0), Prompt::new(1, 70)] {
        let mut step = prompt.step();
        let draw =
            [Output { row: 0, want: Want::Choose(Draw::GREEDY) }, Output { row: 0, want: Want::Score(5) }];
        let outputs = [&prompt.outputs[..], &draw].concat();
        step.outputs = &outputs;
        let report = comparison.op_by_op(&step).expect("both run");
        assert_eq!(report.differences.len(), ops);
        assert_eq!(report.first_difference(0.0), None);
        assert_eq!(report.largest_error(), 0.0);
        let forced = comparison.forced_routing(&step).expect("both run");
        assert_eq!(forced.reference.len(), prompt.outputs.len() * VOCAB as usize);
        assert_eq!(forced.other, forced.reference);
        let free = comparison.free_routing(&step).expect("both run");
        assert_eq!(free.logits, forced);
        assert_eq!(free.choices, []);
    }
}

#[test]
fn rounding_the_cache_shows_where_it_is_read_and_stays_within_the_tolerance() {
    let mut bench = Bench::with(Fault::Rounding);
    let report = bench.comparison().op_by_op(&Prompt::new(70, 0).step()).expect("both run");
    let changed: Vec<&str> =
        report.differences.iter().filter(|difference| difference.error > 0.0).map(|it| it.op).collect();
    assert_eq!(changed, ["attend_mla"; 3]);
    assert_eq!(report.first_difference(conformance::TOLERANCE), None);
}

#[test]
fn a_wrong_operation_is_named_and_those_after_it_are_not() {
    let mut bench = Bench::with(Fault::Op(|op| {
        if let Op::AttendMla { cache, shape, .. } = op
            && cache.0 == 1
        {
            shape.scale *= 1.5;
        }
    }));
    let index = bench.op_with("1.kv_b");
    let prompt = Prompt::new(20, 0);
    let mut comparison = bench.comparison();
    let report = comparison.op_by_op(&prompt.step()).expect("both run");
    let wrong: Vec<usize> =
        report.differences.iter().filter(|difference| difference.error > 0.0).map(|it| it.index).collect();
    assert_eq!(wrong, [index]);
    let difference = report.first_difference(conformance::TOLERANCE).expect("there is one");
    assert_eq!((difference.index, difference.op), (index, "attend_mla"));
    assert_eq!(difference.weights, ["1.kv_b"]);
    let worst = difference.worst.as_ref().expect("attention makes a value");
    assert!(worst.error >= difference.error, "the worst row is worse than all together");
    let text = difference.to_string();
    for part in ["attend_mla", "1.kv_b [192, 64]", &format!("row {} of 20", worst.row), "needed"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(report.to_string().lines().count(), report.differences.len() + 1);
}

#[test]
fn a_wrong_cached_row_is_not_blamed_on_the_steps_that_follow() {
    // The other device writes what the reference computed into its cache, whatever it would have computed.
    let mut bench = Bench::with(Fault::Weight(|tensor| {
        if let HostTensor::Dense { kind: Kind::Vector { len: 64 }, dtype, data, .. } = tensor {
            *data = vec![0; 64 * dtype.bytes()].into();
        }
    }));
    let index = bench.op_with("0.kv_norm");
    let mut comparison = bench.comparison();
    for prompt in [Prompt::new(20, 0), Prompt::new(1, 20)] {
        let report = comparison.op_by_op(&prompt.step()).expect("both run");
        let wrong: Vec<&[String]> = report
            .differences
            .iter()
            .filter(|difference| difference.error > 0.0)
            .map(|difference| &difference.weights[..])
            .collect();
        assert_eq!(wrong, [["0.kv_norm"], ["1.kv_norm"], ["2.kv_norm"]]);
        assert_eq!(
            report.first_difference(conformance::TOLERANCE).map(|difference| difference.index),
            Some(index)
        );
    }
}

#[test]
fn a_value_that_is_not_a_number_is_a_difference_at_any_tolerance() {
    let mut bench = Bench::with(Fault::Weight(|tensor| {
        if let HostTensor::Dense { kind: Kind::Vector { len: 64 }, dtype, data, .. } = tensor {
            *data = vec![0xFF; 64 * dtype.bytes()].into();
        }
    }));
    let index = bench.op_with("0.kv_norm");
    let report = bench.comparison().op_by_op(&Prompt::new(3, 0).step()).expect("both run");
    assert_eq!(report.first_difference(f64::INFINITY).map(|difference| difference.index), Some(index));
    assert!(report.largest_error().is_nan());
}

#[test]
fn another_choice_of_experts_is_listed_with_its_gap_and_forcing_it_makes_the_logits_equal() {
    // The router forgets its bias, and does nothing else wrong.
    let mut bench = Bench::with(Fault::Op(|op| {
        if let Op::Route { bias, .. } = op {
            *bias = None;
        }
    }));
    let index = bench.op_with("1.router_bias");
    let prompt = Prompt::new(40, 0);
    let mut comparison = bench.comparison();
    let report = comparison.op_by_op(&prompt.step()).expect("both run");
    let difference = report.first_difference(conformance::TOLERANCE).expect("some choice differs");
    assert_eq!((difference.index, difference.op), (index, "route"));
    let largest = difference.choices.iter().map(|choice| choice.gap).fold(0.0, f32::max);
    assert_eq!(difference.error, f64::from(largest));
    assert!(difference.to_string().contains("chose experts"));

    let forced = comparison.forced_routing(&prompt.step()).expect("both run");
    assert_eq!(forced.other, forced.reference);

    let free = comparison.free_routing(&prompt.step()).expect("both run");
    assert_ne!(free.logits.other, free.logits.reference);
    let of_the_first: Vec<_> = free.choices.iter().filter(|choice| choice.op == index).cloned().collect();
    assert_eq!(of_the_first, difference.choices, "up to the first router both compute the same");
    for choice in &of_the_first {
        // A bias of 1 +- 0.25 has decided: experts that score + bias would not have exchanged.
        assert!(choice.gap > 0.0, "{choice:?}");
        assert_ne!(choice.reference, choice.other);
    }
}

#[test]
fn a_step_that_reads_the_token_drawn_before_is_refused() {
    let mut bench = Bench::new(Box::new(Reference::new()));
    let mut prompt = Prompt::new(2, 0);
    prompt.tokens[1] = Token::Previous(0);
    let error =
        bench.comparison().op_by_op(&prompt.step()).expect_err("a program in pieces has no step before");
    assert!(error.to_string().contains("row 1"), "{error}");
}
