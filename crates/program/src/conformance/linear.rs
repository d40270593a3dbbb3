//! Linear maps in every storage.

use exl3::{Bits, Codebook};

use super::batch::Batch;
use super::prepared::{SIZE, Setup, val};
use super::trial::Subject;
use super::{Case, Check, ROWS};
use crate::random::{self, SplitMix64};
use crate::{Dtype, Kind, Op, Program, Role, Storage, Val, WeightId};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        // One number alone has no bias: a sum near zero would have no digits left to compare.
        for (inputs, out, biases) in [
            (1, 1, &[false][..]),
            (33, 65, &[false, true]),
            (65, 33, &[false, true]),
            (160, 320, &[false, true]),
            (256, 128, &[false, true]),
        ] {
            for bias in biases.iter().copied() {
                let kind = Kind::Linear { out, inputs, bias };
                let with = if bias { ", bias" } else { "" };
                let name = format!("linear {dtype:?} {inputs} to {out}{with}");
                cases.push(Case::new(name, move |subject| one(subject, kind, Storage::Dense(dtype))));
            }
        }
    }
    for (bits, codebook) in exl3_storages() {
        // Whole blocks; padded inputs and outputs; a padded side each.
        for (inputs, out, bias) in [(256, 128, false), (160, 320, true), (96, 192, false), (128, 576, true)] {
            let kind = Kind::Linear { out, inputs, bias };
            let with = if bias { ", bias" } else { "" };
            let name = format!("linear EXL3 {bits} bits {codebook} {inputs} to {out}{with}");
            cases.push(Case::new(name, move |subject| one(subject, kind, Storage::Exl3 { bits, codebook })));
        }
    }
    for codebook in Codebook::ALL {
        let kind = Kind::Linear { out: 128, inputs: 256, bias: false };
        let name = format!("linear EXL3 4 bits {codebook} 256 to 128, hundreds of rows");
        cases.push(Case::new(name, move |subject| {
            let bits = Bits::whole(4).ok_or("4 bits are a legal width")?;
            rows_of(subject, (Role::Activation, kind, Storage::Exl3 { bits, codebook }), &[256, 257])
        }));
        // Several pieces of inputs, the last one not full; more columns than a task of one row has.
        let kind = Kind::Linear { out: 1100, inputs: 600, bias: true };
        let name = format!("linear EXL3 4 bits {codebook} 600 to 1100 with bias, few rows");
        cases.push(Case::new(name, move |subject| {
            let bits = Bits::whole(4).ok_or("4 bits are a legal width")?;
            rows_of(subject, (Role::Activation, kind, Storage::Exl3 { bits, codebook }), &FEW_ROWS)
        }));
    }
    cases.push(Case::new("linear with a plain embedding table as head", |subject| {
        one(subject, Kind::Table { vocab: 97, hidden: 48 }, Storage::Dense(Dtype::F16))
    }));
    cases
        .push(Case::new("linear with several weights, EXL3 and f16, bias, on columns of one input", several));
    // Where norms come after the parts of a layer, these read the stream as it is.
    let kind = Kind::Linear { out: 320, inputs: 256, bias: false };
    cases.push(Case::new("linear f16 on the residual stream", move |subject| {
        of_role(subject, Role::Stream, kind, Storage::Dense(Dtype::F16))
    }));
    cases.push(Case::new("linear EXL3 4 bits mul1 on the residual stream", move |subject| {
        let bits = Bits::whole(4).ok_or("4 bits are a legal width")?;
        of_role(subject, Role::Stream, kind, Storage::Exl3 { bits, codebook: Codebook::Mul1 })
    }));
    for (inputs, out) in GLM_4_7_FLASH {
        // The codebook in use today for all of them, the older ones for one padded and one plain shape.
        for codebook in Codebook::ALL {
            if codebook == Codebook::Mul1 || matches!((inputs, out), (2048, 576) | (1536, 2048)) {
                let name = format!("linear EXL3 4 bits {codebook} {inputs} to {out} of GLM-4.7-Flash");
                cases.push(Case::new(name, move |subject| large(subject, (inputs, out), codebook)));
            }
        }
    }
    cases
}

/// Linear maps of GLM-4.7-Flash, inputs and outputs: `q_b`, `q_a`, `kv_a`, `o`, expert gate or up, expert down.
const GLM_4_7_FLASH: [(u32, u32); 6] =
    [(768, 5120), (2048, 768), (2048, 576), (5120, 2048), (2048, 1536), (1536, 2048)];

/// Every width with every codebook that has it.
pub(super) fn exl3_storages() -> Vec<(Bits, Codebook)> {
    let of = |codebook: Codebook| {
        Bits::ALL.into_iter().filter(move |bits| codebook.allows(*bits)).map(move |bits| (bits, codebook))
    };
    Codebook::ALL.into_iter().flat_map(of).collect()
}

/// Numbers of rows on both sides of where products with codes change: one row, and groups of up to eight.
const FEW_ROWS: [u32; 6] = [1, 2, 5, 6, 7, 13];

fn one(subject: &mut Subject<'_>, kind: Kind, storage: Storage) -> Check {
    of_role(subject, Role::Activation, kind, storage)
}

fn of_role(subject: &mut Subject<'_>, role: Role, kind: Kind, storage: Storage) -> Check {
    rows_of(subject, (role, kind, storage), &ROWS)
}

fn rows_of(
    subject: &mut Subject<'_>,
    (role, kind, storage): (Role, Kind, Storage),
    all_rows: &[u32],
) -> Check {
    let (out, inputs) = kind.shape();
    let (x, y) = (Val { role, ..val(0, inputs) }, val(1, out));
    let setup = Setup {
        weights: vec![(WeightId(0), 0, random::tensor(kind, storage, 11))],
        tokens: all_rows.iter().copied().fold(SIZE.tokens, u32::max),
        ..Setup::of(&[Op::Linear { x: x.into(), to: vec![(WeightId(0), y)] }])
    };
    let mut trial = subject.trial(&setup)?;
    let mut random = SplitMix64::new(12);
    for rows in all_rows.iter().copied() {
        let inputs = random.normals((rows * inputs) as usize, 2.0);
        trial.compare(&Batch::rows(rows), &[(x, inputs)])?;
    }
    Ok(())
}

/// Weights of different storages and sizes, as q, k and v may have.
fn several(subject: &mut Subject<'_>) -> Check {
    let inputs = 160;
    let x = val(0, 7 + inputs + 2);
    let exl3 = |half_bits, codebook| match Bits::from_half_bits(half_bits) {
        Some(bits) => Ok(Storage::Exl3 { bits, codebook }),
        None => Err(format!("{half_bits} half bits")),
    };
    let storages = [
        (192, exl3(7, Codebook::Mul1)?, true),
        (64, exl3(8, Codebook::Mcg)?, false),
        (96, Storage::Dense(Dtype::F16), true),
        (128, exl3(6, Codebook::ThreeInst)?, false),
    ];
    let mut setup = Setup::default();
    let mut to = Vec::new();
    for (index, (out, storage, bias)) in (0..).zip(storages) {
        let kind = Kind::Linear { out, inputs, bias };
        setup.weights.push((WeightId(index), 0, random::tensor(kind, storage, 13 + u64::from(index))));
        to.push((WeightId(index), val(index + 1, out)));
    }
    setup.programs = vec![Program::of(&[Op::Linear { x: x.cols(7, inputs), to }])];
    let mut trial = subject.trial(&setup)?;
    let mut random = SplitMix64::new(14);
    for rows in ROWS {
        trial.compare(&Batch::rows(rows), &[(x, random.normals((rows * x.cols) as usize, 2.0))])?;
    }
    Ok(())
}

fn large(subject: &mut Subject<'_>, (inputs, out): (u32, u32), codebook: Codebook) -> Check {
    let kind = Kind::Linear { out, inputs, bias: false };
    let bits = Bits::whole(4).ok_or("4 bits are a legal width")?;
    let (x, y) = (val(0, inputs), val(1, out));
    let setup = Setup {
        weights: vec![(WeightId(0), 0, random::tensor(kind, Storage::Exl3 { bits, codebook }, 15))],
        ..Setup::of(&[Op::Linear { x: x.into(), to: vec![(WeightId(0), y)] }])
    };
    let mut trial = subject.trial(&setup)?;
    for rows in [1, 3, 17] {
        let inputs = SplitMix64::new(16).normals((rows * inputs) as usize, 2.0);
        trial.compare(&Batch::rows(rows), &[(x, inputs)])?;
    }
    Ok(())
}
