//! The reference against numbers that it did not compute, and what it refuses.

use bytes::Bytes;
use exl3::{Bits, Codebook, Linear, LinearParts, hadamard};
use half::f16;
use program::conformance::{Architecture, Sample};
use program::random::{self, SplitMix64};
use program::reference::Reference;
use program::{
    Activation, CacheSize, Device, Dtype, Error, Format, Glu, HostTensor, Kind, Memory, Op, Options, PageId,
    Program, Role, Rows, Sequence, Size, Step, Storage, Token, Val, WeightId,
};

const OPTIONS: Options = Options::new(Size { tokens: 4, outputs: 0, sequences: 1 });

fn val(id: u32, cols: u32) -> Val {
    Val { id, rows: Rows::Tokens, cols, role: Role::Activation }
}

fn device(weights: &[(WeightId, u32, HostTensor)]) -> Reference {
    let mut device = Reference::new();
    for (id, part, tensor) in weights {
        device.upload(*id, *part, tensor.clone()).expect("the weight is taken");
    }
    device.reserve(&[], CacheSize { pages: 2, slots: 1 }).expect("there is room");
    device
}

/// Runs one operation on `rows` rows and reads `out`.
fn run(device: &mut Reference, op: Op, inputs: &[(Val, &[f32])], out: Val) -> Result<Vec<f32>, Error> {
    let program = device.prepare(&Program::of(&[op]), &OPTIONS)?;
    let rows = inputs[0].1.len() as u32 / inputs[0].0.cols;
    for (val, numbers) in inputs {
        device.write(program, *val, numbers)?;
    }
    let tokens = vec![Token::Id(0); rows as usize];
    let positions: Vec<u32> = (0..rows).collect();
    let sequences = [Sequence { rows: 0..rows, cached: 0, pages: 0..1, slot: 0 }];
    let step = Step {
        tokens: &tokens,
        positions: &positions,
        sequences: &sequences,
        pages: &[PageId(1)],
        outputs: &[],
    };
    let ticket = device.submit(program, &step)?;
    device.wait(ticket)?;
    let mut numbers = vec![0.0; (rows * out.cols) as usize];
    device.read(program, out, &mut numbers)?;
    Ok(numbers)
}

fn linear(x: Val, y: Val) -> Op {
    Op::Linear { x: x.into(), to: vec![(WeightId(0), y)] }
}

/// The generator of the format's test vectors: the upper halves of a linear congruence.
fn lcg(count: usize, seed: u32) -> impl Iterator<Item = u16> {
    let next = |x: &u32| Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(Some(seed), next).skip(1).take(count).map(|x| (x >> 16) as u16)
}

fn centred(count: usize, seed: u32, divisor: f32) -> Vec<f16> {
    lcg(count, seed).map(|x| f16::from_f32((f32::from(x) - 32768.0) / divisor)).collect()
}

#[test]
fn layers_have_the_weights_that_the_format_publishes() {
    // Weights [0, 0] and [255, 127] of a layer of 256 inputs and 128 outputs, from the test vectors of the
    // format's description, which two other implementations computed.
    let vectors = [
        ("3", Codebook::ThreeInst, -0.022_380_9, 0.032_430_27),
        ("3", Codebook::Mcg, 0.016_938_45, 0.013_963_53),
        ("3", Codebook::Mul1, 0.023_499_11, 0.014_786_75),
        ("1.5", Codebook::Mul1, 0.027_209_94, 0.036_069_08),
        ("2.5", Codebook::Mul1, -0.009_014_526, -0.001_201_952),
        ("3.5", Codebook::Mul1, -0.012_443_21, -0.003_537_947),
    ];
    for (bits, codebook, first, last) in vectors {
        let bits: Bits = bits.parse().expect("a legal width");
        let words = lcg(16 * 8 * bits.tile_words(), 77);
        let tensor = HostTensor::Exl3 {
            kind: Kind::Linear { out: 128, inputs: 256, bias: false },
            bits,
            codebook,
            trellis: words.flat_map(u16::to_le_bytes).collect(),
            suh: centred(256, 5, 524_288.0),
            svh: centred(128, 6, 32_768.0),
            bias: None,
        };
        let (x, y) = (val(0, 256), val(1, 128));
        // Two rows with a single one pick two rows of the weight.
        let mut ones = vec![0.0; 512];
        ones[0] = 1.0;
        ones[511] = 1.0;
        let mut device = device(&[(WeightId(0), 0, tensor)]);
        let rows = run(&mut device, linear(x, y), &[(x, &ones)], y).expect("it runs");
        for (got, want) in [(rows[0], first), (rows[255], last)] {
            // The vectors have seven digits.
            assert!((got - want).abs() < 1e-8, "{bits} bits with {codebook}: {got}, needed {want}");
        }
    }
}

#[test]
fn padded_layers_of_every_width_give_what_the_codec_gives() {
    let (inputs, out) = (160, 320);
    let (x, y) = (val(0, inputs), val(1, out));
    let numbers = SplitMix64::new(1).normals(2 * inputs as usize, 1.0);
    for codebook in Codebook::ALL {
        for bits in Bits::ALL.into_iter().filter(|bits| codebook.allows(*bits)) {
            let kind = Kind::Linear { out, inputs, bias: true };
            let tensor = random::tensor(kind, Storage::Exl3 { bits, codebook }, 2);
            let HostTensor::Exl3 { trellis, suh, svh, bias: Some(bias), .. } = &tensor else {
                panic!("another storage");
            };
            let shape = [suh.len() / 16, svh.len() / 16, bits.tile_words()];
            let codec = Linear::new(LinearParts { trellis, shape, suh, svh, bias: None, codebook });
            let codec = codec.expect("a legal layer");
            let mut padded = vec![0.0; 2 * suh.len()];
            for (padded, row) in padded.chunks_mut(suh.len()).zip(numbers.chunks(inputs as usize)) {
                padded[..inputs as usize].copy_from_slice(row);
            }
            let want = codec.apply(&padded, 2);
            let got =
                run(&mut device(&[(WeightId(0), 0, tensor.clone())]), linear(x, y), &[(x, &numbers)], y);
            for (row, got) in got.expect("it runs").chunks(out as usize).enumerate() {
                for (column, (got, bias)) in got.iter().zip(bias).enumerate() {
                    let want = want[row * hadamard::padded(out as usize) + column] + bias;
                    // Sums of 256 products of about 0.1 each, in another order.
                    assert!((got - want).abs() < 5e-6, "{bits} bits {codebook}: {got}, needed {want}");
                }
            }
        }
    }
}

#[test]
fn plain_numbers_of_every_format_are_read() {
    let kind = Kind::Linear { out: 1, inputs: 2, bias: false };
    let (x, y) = (val(0, 2), val(1, 1));
    // 1.5 and -0.25 as f32, f16 and bf16.
    let stored: [(Dtype, &[u8]); 3] = [
        (Dtype::F32, &[0, 0, 0xC0, 0x3F, 0, 0, 0x80, 0xBE]),
        (Dtype::F16, &[0, 0x3E, 0, 0xB4]),
        (Dtype::Bf16, &[0xC0, 0x3F, 0x80, 0xBE]),
    ];
    for (dtype, bytes) in stored {
        let tensor = HostTensor::Dense { kind, dtype, data: Bytes::copy_from_slice(bytes), bias: None };
        let rows = run(&mut device(&[(WeightId(0), 0, tensor)]), linear(x, y), &[(x, &[2.0, 4.0])], y);
        assert_eq!(rows.expect("it runs"), [2.0]);
    }
}

#[test]
fn a_plan_counts_everything_as_f32_and_tables_of_codes_as_they_are() {
    let spec = Sample::new(Architecture::Dense, Format::F16).expect("the samples fit together").spec;
    let options = Options { keep_all: true, ..Options::new(Size { tokens: 10, outputs: 2, sequences: 1 }) };
    let memory = Reference::new().plan(&spec, &options, CacheSize { pages: 3, slots: 1 }).expect("it fits");
    let values: u64 = spec.programs[0]
        .ops
        .iter()
        .flat_map(Op::writes)
        .map(|val| (u64::from(options.size.rows(val.rows)) * u64::from(val.cols)).next_multiple_of(16))
        .sum();
    // Two layers of keys and values of 64 columns in three pages of 64.
    let cache = 2 * 3 * 64 * (64 + 64) * 4;
    assert_eq!(memory, Memory { weights: 4 * spec.parameters(), cache, scratch: 4 * values });
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T, Error>, part: &str) {
    let error = result.expect_err(part).to_string();
    assert!(error.starts_with("reference: ") && error.contains(part), "{error}");
}

#[test]
fn weights_that_contradict_themselves_are_refused() {
    let kind = Kind::Linear { out: 2, inputs: 2, bias: true };
    let dense = |data: usize, bias: Option<Vec<f32>>| HostTensor::Dense {
        kind,
        dtype: Dtype::F16,
        data: vec![0; data].into(),
        bias,
    };
    let mut device = Reference::new();
    assert_refused(device.upload(WeightId(3), 1, dense(7, Some(vec![0.0; 2]))), "part 1 of weight 3");
    assert_refused(device.upload(WeightId(0), 0, dense(8, None)), "bias");
    assert_refused(device.upload(WeightId(0), 0, dense(8, Some(vec![0.0; 3]))), "bias");
    let plain = HostTensor::Exl3 {
        kind: Kind::Plain { out: 128, inputs: 128 },
        bits: Bits::ALL[0],
        codebook: Codebook::Mul1,
        trellis: vec![0; 64 * 32].into(),
        suh: vec![f16::ONE; 128],
        svh: vec![f16::ONE; 128],
        bias: None,
    };
    assert_refused(device.upload(WeightId(0), 0, plain), "Plain");
}

#[test]
fn experts_of_which_a_part_is_missing_and_choices_of_experts_that_are_not_there_are_refused() {
    let glu = Glu { gate: WeightId(0), up: WeightId(1), down: WeightId(2) };
    let kind = Kind::Linear { out: 8, inputs: 8, bias: false };
    let part = |id, part| (id, part, random::tensor(kind, Storage::Dense(Dtype::F32), 3));
    let all = [(glu.gate, 0), (glu.up, 0), (glu.down, 0), (glu.gate, 1), (glu.up, 1), (glu.down, 1)];
    let weights: Vec<_> = all.iter().map(|(id, index)| part(*id, *index)).collect();
    let (x, ids, gates, out) = (val(0, 8), val(1, 1), val(2, 1), val(3, 8));
    let op = Op::Experts { x, ids, gates, experts: glu, shared: None, act: Activation::Silu, out };
    let inputs = |id: f32| [(x, vec![1.0; 8]), (ids, vec![id]), (gates, vec![1.0])];
    let run_with = |count: usize, id: f32| {
        let inputs = inputs(id);
        let inputs = inputs.each_ref().map(|(val, numbers)| (*val, &numbers[..]));
        run(&mut device(&weights[..count]), op.clone(), &inputs, out)
    };
    assert!(run_with(6, 1.0).is_ok());
    assert_refused(run_with(5, 1.0), "not all parts");
    assert_refused(run_with(6, 2.0), "expert 2 of 2");
    assert_refused(run_with(6, 0.5), "expert 0.5 of 2");
    assert_refused(run_with(6, f32::NAN), "expert NaN of 2");
}

#[test]
fn an_input_that_was_not_written_for_the_step_is_missed() {
    let [a, b, out] = [0, 1, 2].map(|id| val(id, 4));
    let mut device = device(&[]);
    assert_refused(
        run(&mut device, Op::Add { a, b, out }, &[(a, &[1.0; 8])], out),
        "0 rows of input 1 were written, not 2",
    );
}
