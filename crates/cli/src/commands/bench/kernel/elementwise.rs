//! `bench kernel` for operations on values alone, or nearly: norms, sums, rotations, embedding.

use anyhow::Result;
use clap::Args;
use program::{Activation, Dtype, Heads, Kind, Op, Pairing, Part, Role, Storage};
use serde::Serialize;

use super::{Common, Fill, Geometry, Measurement, Recording, Stopwatch, recording};
use crate::commands::bench::output::{self, Column, number, text};
use crate::model_args::CacheArgs;

/// Times an operation on values over their sizes. Lists give every combination.
#[derive(Debug, Args)]
pub(super) struct ElementwiseArgs {
    /// Columns of a row
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4096", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    cols: Vec<u32>,

    /// Rows of the step
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    rows: Vec<u32>,

    /// Columns of a head that is rotated
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=4096))]
    dims: u32,

    #[command(flatten)]
    cache: CacheArgs,

    #[command(flatten)]
    common: Common,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elementwise {
    RmsNorm,
    AddRmsNorm,
    Add,
    ActMul,
    Rope,
    CacheWrite,
    Embed,
}

#[derive(Serialize)]
struct Row {
    test: &'static str,
    cols: u32,
    rows: u32,
    #[serde(flatten)]
    measurement: Measurement,
}

const COLUMNS: [Column; 5] = [
    ("test", |record| text(record, "test")),
    ("cols", |record| number(record, "cols", 0)),
    ("rows", |record| number(record, "rows", 0)),
    ("us", |record| number(record, "us", 2)),
    ("GB/s", |record| number(record, "gbps", 2)),
];

/// Added to the mean square of a row.
const EPS: f32 = 1e-5;

/// The fewest rows of the table that `embed` reads from.
const FEWEST_IDS: u32 = 4096;

/// Runs one.
pub(super) fn run(which: Elementwise, args: &ElementwiseArgs) -> Result<()> {
    let stopwatch = Stopwatch::new(&args.common);
    let mut records = Vec::new();
    for cols in args.cols.iter().copied() {
        if which == Elementwise::Rope {
            let dims = args.dims;
            super::require(dims.is_multiple_of(2) && cols.is_multiple_of(dims), || {
                format!("{cols} columns do not divide into heads of {dims}")
            })?;
        }
        for rows in args.rows.iter().copied() {
            let measurement = measure(which, args, &stopwatch, (cols, rows))?;
            let row = Row { test: which.name(), cols, rows, measurement };
            records.push(output::record(&row)?);
        }
    }
    super::print(args.common.output, &records, &COLUMNS)
}

fn measure(
    which: Elementwise,
    args: &ElementwiseArgs,
    stopwatch: &Stopwatch<'_>,
    (cols, rows): (u32, u32),
) -> Result<Measurement> {
    let mut recording = Recording::default();
    let x = recording.input(cols, Role::Activation, Fill::Normal);
    let y = recording.input(cols, Role::Activation, Fill::Normal);
    let vector = |recording: &mut Recording| {
        recording.weight(Kind::Vector { len: cols }, Storage::Dense(Dtype::F32), 1)
    };
    let mut table = None;
    stopwatch.measure(Geometry::rows(rows), recording, &mut |recording| {
        let op = match which {
            Elementwise::RmsNorm => {
                let weight = vector(recording);
                let out = recording.value(cols, Role::Activation);
                Op::RmsNorm { x: x.into(), weight, eps: EPS, out }
            }
            Elementwise::AddRmsNorm => {
                let weight = vector(recording);
                let [sum, out] = [Role::Stream, Role::Activation].map(|role| recording.value(cols, role));
                Op::AddRmsNorm { x, delta: y, weight, eps: EPS, sum, out }
            }
            Elementwise::Add => {
                let out = recording.value(cols, Role::Activation);
                Op::Add { a: x, b: y, out }
            }
            Elementwise::ActMul => {
                let out = recording.value(cols, Role::Activation);
                Op::ActMul { gate: x, up: y, act: Activation::Silu, out }
            }
            Elementwise::Rope => {
                let dims = args.dims;
                let heads = Heads { count: cols / dims, dims, first: 0, rotary: dims };
                let out = recording.value(cols, Role::Activation);
                let rope = recording::rope(dims, Pairing::HalfSplit);
                Op::Rope { x: x.into(), heads, rope, out }
            }
            Elementwise::CacheWrite => {
                let cache = recording.cache(vec![Part { cols, format: args.cache.kv_cache_dtype }]);
                Op::CacheWrite { x: x.into(), cache, part: 0 }
            }
            Elementwise::Embed => {
                let kind = Kind::Table { vocab: rows.max(FEWEST_IDS), hidden: cols };
                let table =
                    *table.get_or_insert_with(|| recording.weight(kind, Storage::Dense(Dtype::Bf16), 1));
                let out = recording.value(cols, Role::Stream);
                Op::Embed { table, out }
            }
        };
        recording.op(op);
    })
}

impl Elementwise {
    fn name(self) -> &'static str {
        match self {
            Elementwise::RmsNorm => "rms_norm",
            Elementwise::AddRmsNorm => "add_rms_norm",
            Elementwise::Add => "add",
            Elementwise::ActMul => "act_mul",
            Elementwise::Rope => "rope",
            Elementwise::CacheWrite => "cache_write",
            Elementwise::Embed => "embed",
        }
    }
}
