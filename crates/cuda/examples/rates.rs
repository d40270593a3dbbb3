//! Measures linear maps of trellis codes on the first GPU: `cargo run --release -p cuda --example rates`.
//!
//! Each line is one shape, width, codebook and number of rows. A program multiplies with as many matrices one after the
//! other as make eight times the L2 cache of an H200, so that every matrix comes from memory; a step of it is one
//! graph, and the time of a matrix is the median step divided by their number.
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::env;
use std::time::Instant;

use cuda::{Cuda, CudaOptions};
use exl3::{Bits, Codebook};
use program::random::{self, SplitMix64};
use program::{
    CacheSize, Device, HostTensor, Kind, Op, Options, PageId, Program, Role, Rows, Sequence, Size, Step,
    Storage, Token, Val, WeightId,
};

/// Bytes of codes that one step reads: eight times 60 MB.
const BYTES: usize = 480 << 20;

/// Steps that are timed, after as many that are not.
const STEPS: usize = 15;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let four = Bits::whole(4).ok_or("4 bits")?;
    let shapes = [
        (4096, 14336),
        (14336, 4096),
        (8192, 28672),
        (2048, 15360),
        (1536, 10240),
        (5120, 2048),
        (4096, 4096),
        (768, 5120),
        (2048, 1408),
    ];
    println!("   in    out bits codebook rows       us   1e12 weights/s   TB/s of codes");
    for (inputs, out) in shapes {
        for rows in [1, 4, 16] {
            rate((inputs, out), four, Codebook::Mul1, rows)?;
        }
    }
    for codebook in Codebook::ALL {
        for bits in Bits::ALL.into_iter().filter(|bits| codebook.allows(*bits)) {
            rate((4096, 14336), bits, codebook, 1)?;
        }
    }
    Ok(())
}

fn rate(
    (inputs, out): (u32, u32),
    bits: Bits,
    codebook: Codebook,
    rows: u32,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut device = Cuda::new(CudaOptions::from_variables(0, &|name| env::var_os(name)))?;
    let kind = Kind::Linear { out, inputs, bias: false };
    let storage = Storage::Exl3 { bits, codebook };
    let codes = (inputs * out) as usize / 256 * bits.tile_bytes();
    let matrices = BYTES.div_ceil(codes).min(256) as u32;
    // The bytes of a matrix do not matter for its time, and making them at random takes long.
    let tensor = random::tensor(Kind::Linear { out: 128, inputs: 128, bias: false }, storage, 1);
    let HostTensor::Exl3 { trellis: seed, .. } = tensor else { return Err("codes".into()) };
    let trellis: bytes::Bytes = seed.iter().copied().cycle().take(codes).collect::<Vec<u8>>().into();
    let halves = |count: u32| vec![half::f16::from_f32(0.7 / (inputs as f32).sqrt()); count as usize];
    let val = |id, cols| Val { id, rows: Rows::Tokens, cols, role: Role::Activation };
    let x = val(0, inputs);
    let mut ops = Vec::new();
    for index in 0..matrices {
        let tensor = HostTensor::Exl3 {
            kind,
            bits,
            codebook,
            trellis: trellis.clone(),
            suh: halves(inputs.next_multiple_of(128)),
            svh: halves(out.next_multiple_of(128)),
            bias: None,
        };
        device.upload(WeightId(index), 0, tensor)?;
        ops.push(Op::Linear { x: x.into(), to: vec![(WeightId(index), val(1 + index, out))] });
    }
    let size = Size { tokens: rows, outputs: 1, sequences: 1 };
    device.reserve(&[], CacheSize { pages: 2, slots: 1 })?;
    let mut program = Program::of(&ops);
    program.results.clear();
    let program = device.prepare(&program, &Options::new(size))?;
    let numbers = SplitMix64::new(2).normals((rows * inputs) as usize, 1.0);
    let tokens = vec![Token::Id(0); rows as usize];
    let positions: Vec<u32> = (0..rows).collect();
    let step = Step {
        tokens: &tokens,
        positions: &positions,
        sequences: &[Sequence { rows: 0..rows, cached: 0, pages: 0..1, slot: 0 }],
        pages: &[PageId(1)],
        outputs: &[],
    };
    let mut times = Vec::new();
    for _ in 0..2 * STEPS {
        device.write(program, x, &numbers)?;
        let begin = Instant::now();
        let ticket = device.submit(program, &step)?;
        device.wait(ticket)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    let timed = &mut times[STEPS..];
    timed.sort_by(f64::total_cmp);
    let each = timed[STEPS / 2] / f64::from(matrices);
    let weights = f64::from(inputs) * f64::from(out);
    println!(
        "{inputs:5} {out:6} {:>4} {:>8} {rows:4} {:8.1} {:16.2} {:15.2}",
        bits.to_string(),
        codebook.to_string(),
        each * 1e6,
        weights / each / 1e12,
        codes as f64 / each / 1e12
    );
    Ok(())
}
