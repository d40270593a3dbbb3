//! The suite notices: devices with one thing wrong each are caught, by the name of what is wrong.

mod mutant;

use mutant::{ChangeOp, ChangeTensor, Fault, Mutant};
use program::conformance::{self, Case};
use program::reference::Reference;
use program::{Gates, HostTensor, Op, Pairing, Score};

/// Whether one of the cases fails on a device with this fault.
fn caught(cases: &[Case], fault: Fault) -> bool {
    cases.iter().any(|case| fails(case, fault))
}

fn fails(case: &Case, fault: Fault) -> bool {
    case.check(&mut || Box::new(Mutant::new(fault))).is_err()
}

/// The cases of one operation.
fn cases_of(op: &str) -> Vec<Case> {
    let mut cases = conformance::cases();
    cases.retain(|case| case.name().split([' ', ':']).next() == Some(op));
    assert!(!cases.is_empty(), "no case is called {op}");
    cases
}

#[test]
fn a_device_that_rounds_cached_rows_as_their_format_says_passes() {
    let failures =
        conformance::failures(&conformance::cache_formats(), &mut || Box::new(Mutant::new(Fault::Rounding)));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_device_that_ignores_the_format_of_caches_is_caught() {
    let failures = conformance::failures(&conformance::cache_formats(), &mut || Box::new(Reference::new()));
    assert!(failures.iter().any(|failure| failure.starts_with("attend ")));
    assert!(failures.iter().any(|failure| failure.starts_with("attend_mla ")));
}

#[test]
fn a_wrong_operation_is_caught_by_the_cases_that_bear_its_name() {
    let faults: [(&str, ChangeOp); 17] = [
        ("rms_norm", |op| {
            if let Op::RmsNorm { eps, .. } = op {
                *eps = 1e-6;
            }
        }),
        ("rms_norm", |op| {
            if let Op::RmsNorm { x, .. } = op {
                x.start -= 1;
            }
        }),
        ("add_rms_norm", |op| {
            if let Op::AddRmsNorm { eps, .. } = op {
                *eps = 1e-6;
            }
        }),
        ("add_rms_norm", |op| {
            if let Op::AddRmsNorm { x, delta, .. } = op {
                *delta = *x;
            }
        }),
        ("rope", |op| {
            if let Op::Rope { rope, .. } = op {
                rope.pairing = match rope.pairing {
                    Pairing::Interleaved => Pairing::HalfSplit,
                    Pairing::HalfSplit => Pairing::Interleaved,
                };
            }
        }),
        ("rope", |op| {
            if let Op::Rope { rope, .. } = op {
                rope.gain = 1.0;
            }
        }),
        ("linear", |op| {
            if let Op::Linear { x, .. } = op {
                x.start = x.start.saturating_sub(1);
            }
        }),
        ("attend", |op| {
            if let Op::Attend { shape, .. } = op {
                shape.scale *= 1.05;
            }
        }),
        ("attend_mla", |op| {
            if let Op::AttendMla { shape, .. } = op {
                shape.scale *= 1.05;
            }
        }),
        ("route", |op| {
            if let Op::Route { how, .. } = op
                && how.score == Score::Sigmoid
            {
                how.score = Score::Softmax;
            }
        }),
        ("route", |op| {
            if let Op::Route { how, .. } = op {
                how.groups = None;
            }
        }),
        ("route", |op| {
            if let Op::Route { how, .. } = op
                && let Some(groups) = &mut how.groups
            {
                groups.chosen = groups.count;
            }
        }),
        ("route", |op| {
            if let Op::Route { bias, .. } = op {
                *bias = None;
            }
        }),
        ("route", |op| {
            if let Op::Route { how, .. } = op {
                how.gates = Gates::Raw;
            }
        }),
        ("experts", |op| {
            if let Op::Experts { experts, .. } = op {
                std::mem::swap(&mut experts.gate, &mut experts.up);
            }
        }),
        ("experts", |op| {
            if let Op::Experts { shared, .. } = op {
                *shared = None;
            }
        }),
        ("act_mul", |op| {
            if let Op::ActMul { gate, up, .. } = op {
                std::mem::swap(gate, up);
            }
        }),
    ];
    for (index, (name, change)) in faults.into_iter().enumerate() {
        let cases = cases_of(name);
        assert!(caught(&cases, Fault::Op(change)), "fault {index} of {name} was not noticed");
    }
}

#[test]
fn a_device_that_draws_unknown_ids_is_caught() {
    let fault = Fault::Op(|op| {
        if let Op::Answer { logits, known } = op {
            *known = logits.cols;
        }
    });
    let mut cases = cases_of("answer");
    cases.retain(|case| case.name().contains("never drawn"));
    assert!(caught(&cases, fault));
}

#[test]
fn a_wrong_reading_of_weights_is_caught() {
    let faults: [(&str, &str, ChangeTensor); 5] = [
        ("linear", "EXL3", |tensor| {
            if let HostTensor::Exl3 { suh, .. } = tensor {
                suh.swap(0, 1);
            }
        }),
        ("linear", "EXL3", |tensor| {
            if let HostTensor::Exl3 { svh, .. } = tensor {
                svh[3] = -svh[3];
            }
        }),
        ("linear", "bias", |tensor| {
            if let HostTensor::Dense { bias: Some(bias), .. } = tensor {
                bias.fill(0.0);
            }
        }),
        ("linear", "bias", |tensor| {
            if let HostTensor::Exl3 { bias: Some(bias), .. } = tensor {
                bias.reverse();
            }
        }),
        ("embed", "EXL3", |tensor| {
            if let HostTensor::Exl3Table { signs, .. } = tensor {
                signs[5] = -signs[5];
            }
        }),
    ];
    for (index, (op, storage, change)) in faults.into_iter().enumerate() {
        // One width of EXL3 will do, and one case that has nothing to do with what is wrong must pass.
        let (with, without): (Vec<Case>, Vec<Case>) = cases_of(op)
            .into_iter()
            .filter(|case| !case.name().contains("bits") || case.name().contains(" 4 bits mul1"))
            .partition(|case| case.name().contains(storage));
        assert!(caught(&with, Fault::Weight(change)), "fault {index} of {op} was not noticed");
        assert!(!caught(&without, Fault::Weight(change)), "fault {index} of {op} was seen where it is not");
    }
}
