//! `bench kernel linear`.

use anyhow::Result;
use clap::Args;
use exl3::{Bits, Codebook};
use program::{Dtype, Kind, Op, Role, Storage};
use serde::Serialize;

use super::{Common, Fill, Geometry, Measurement, Recording, Stopwatch};
use crate::commands::bench::output::{self, Column, number, percent, text};

/// Times rows times a matrix of trellis codes, or of plain numbers. Lists give every combination.
#[derive(Debug, Args)]
pub(super) struct LinearArgs {
    /// Input features
    #[arg(long = "in", value_name = "LIST", value_delimiter = ',', default_value = "4096", value_parser = clap::value_parser!(u32).range(1..))]
    inputs: Vec<u32>,

    /// Output features
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4096", value_parser = clap::value_parser!(u32).range(1..))]
    out: Vec<u32>,

    /// Bits a weight: 1 to 8, or 1.5, 2.5, 3.5 with mul1; or f16, bf16, f32 for plain numbers
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4")]
    bits: Vec<Width>,

    /// Codebooks: 3inst, mcg, mul1
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "mul1")]
    codebook: Vec<Codebook>,

    /// Rows of the step
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    rows: Vec<u32>,

    #[command(flatten)]
    common: Common,
}

/// How a matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Codes(Bits),
    Plain(Dtype),
}

impl std::str::FromStr for Width {
    type Err = exl3::Error;

    fn from_str(text: &str) -> Result<Width, exl3::Error> {
        match text {
            "f16" => Ok(Width::Plain(Dtype::F16)),
            "bf16" => Ok(Width::Plain(Dtype::Bf16)),
            "f32" => Ok(Width::Plain(Dtype::F32)),
            _ => text.parse().map(Width::Codes),
        }
    }
}

#[derive(Serialize)]
struct Row {
    test: &'static str,
    #[serde(rename = "in")]
    inputs: u32,
    out: u32,
    bits: f32,
    codebook: &'static str,
    rows: u32,
    #[serde(flatten)]
    measurement: Measurement,
}

const COLUMNS: [Column; 9] = [
    ("test", |record| text(record, "test")),
    ("in", |record| number(record, "in", 0)),
    ("out", |record| number(record, "out", 0)),
    ("bits", |record| number(record, "bits", 1)),
    ("codebook", |record| text(record, "codebook")),
    ("rows", |record| number(record, "rows", 0)),
    ("us", |record| number(record, "us", 1)),
    ("weights/ns", |record| number(record, "weights_per_ns", 2)),
    ("roofline", |record| percent(record, "roofline_share")),
];

/// Runs the command.
pub(super) fn run(args: &LinearArgs) -> Result<()> {
    let stopwatch = Stopwatch::new(&args.common);
    let mut records = Vec::new();
    for (inputs, out) in args.inputs.iter().flat_map(|inputs| args.out.iter().map(move |out| (*inputs, *out)))
    {
        for (storage, bits, codebook) in args.storages()? {
            for rows in args.rows.iter().copied() {
                let mut recording = Recording::default();
                let x = recording.input(inputs, Role::Activation, Fill::Normal);
                let measurement = stopwatch.measure(Geometry::rows(rows), recording, &mut |recording| {
                    let weight = recording.weight(Kind::Linear { out, inputs, bias: false }, storage, 1);
                    let out = recording.value(out, Role::Activation);
                    recording.op(Op::Linear { x: x.into(), to: vec![(weight, out)] });
                })?;
                let row = Row { test: "linear", inputs, out, bits, codebook, rows, measurement };
                records.push(output::record(&row)?);
            }
        }
    }
    super::print(args.common.output, &records, &COLUMNS)
}

impl LinearArgs {
    /// Every way of storing that was asked for, with its bits and its name.
    fn storages(&self) -> Result<Vec<(Storage, f32, &'static str)>> {
        let mut storages = Vec::new();
        for width in &self.bits {
            match *width {
                Width::Plain(dtype) => {
                    storages.push((Storage::Dense(dtype), 8.0 * dtype.bytes() as f32, "plain"));
                }
                Width::Codes(bits) => {
                    for codebook in self.codebook.iter().copied() {
                        super::allowed(codebook, bits)?;
                        storages.push((Storage::Exl3 { bits, codebook }, bits.as_f32(), codebook.name()));
                    }
                }
            }
        }
        Ok(storages)
    }
}
