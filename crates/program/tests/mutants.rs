//! The suite notices: devices with one thing wrong each are caught, by the name of what is wrong.

use std::collections::HashMap;

use program::conformance::{self, Case};
use program::reference::Reference;
use program::{
    CacheSize, CacheSpec, Device, Format, Gates, HostTensor, Memory, ModelSpec, Op, Options, Outcome,
    Pairing, Program, ProgramId, Result, Score, Step, Ticket, Val, WeightId,
};

/// The reference with its programs, weights, steps or cached rows changed on their way in.
struct Mutant {
    inner: Reference,
    fault: Fault,
    caches: Vec<CacheSpec>,
    /// For each program the inputs that go into caches, with the format of their part.
    cached: HashMap<(ProgramId, Val), Format>,
}

type ChangeOp = fn(&mut Op);
type ChangeTensor = fn(&mut HostTensor);

#[derive(Clone, Copy)]
enum Fault {
    /// Each operation is changed when a program is prepared.
    Op(ChangeOp),
    /// Each tensor is changed when it arrives.
    Weight(ChangeTensor),
    /// Rows on their way into a cache are rounded as its format says: a right device.
    None,
}

impl Mutant {
    fn new(fault: Fault) -> Mutant {
        Mutant { inner: Reference::new(), fault, caches: Vec::new(), cached: HashMap::new() }
    }
}

impl Device for Mutant {
    fn name(&self) -> &str {
        "mutant"
    }

    fn plan(&self, model: &ModelSpec, options: &Options, caches: CacheSize) -> Result<Memory> {
        self.inner.plan(model, options, caches)
    }

    fn upload(&mut self, id: WeightId, part: u32, mut tensor: HostTensor) -> Result<()> {
        if let Fault::Weight(change) = self.fault {
            change(&mut tensor);
        }
        self.inner.upload(id, part, tensor)
    }

    fn reserve(&mut self, caches: &[CacheSpec], size: CacheSize) -> Result<()> {
        self.caches = caches.to_vec();
        self.inner.reserve(caches, size)
    }

    fn prepare(&mut self, program: &Program, options: &Options) -> Result<ProgramId> {
        let mut program = program.clone();
        if let Fault::Op(change) = self.fault {
            program.ops.iter_mut().for_each(change);
        }
        let id = self.inner.prepare(&program, options)?;
        for op in &program.ops {
            if let Op::CacheWrite { x, cache, part } = op {
                let format = self.caches[cache.0 as usize].parts[*part as usize].format;
                self.cached.insert((id, x.val), format);
            }
        }
        Ok(id)
    }

    fn submit(&mut self, program: ProgramId, step: &Step<'_>) -> Result<Ticket> {
        self.inner.submit(program, step)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outcome<'_>> {
        self.inner.wait(ticket)
    }

    fn read(&mut self, program: ProgramId, value: Val, out: &mut [f32]) -> Result<()> {
        self.inner.read(program, value, out)
    }

    fn write(&mut self, program: ProgramId, value: Val, rows: &[f32]) -> Result<()> {
        match self.cached.get(&(program, value)) {
            Some(format) => self.inner.write(program, value, &format.stored(rows)),
            None => self.inner.write(program, value, rows),
        }
    }
}

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
        conformance::failures(&conformance::cache_formats(), &mut || Box::new(Mutant::new(Fault::None)));
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
    let faults: [(&str, ChangeOp); 15] = [
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
