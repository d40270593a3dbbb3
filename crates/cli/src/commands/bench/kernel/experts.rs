//! `bench kernel experts`, and the expert layer that `bench kernel route` and `bench moe` time as well.

use anyhow::Result;
use clap::Args;
use exl3::{Bits, Codebook};
use program::{Activation, Glu, Kind, Op, Role, Storage, Val};
use serde::Serialize;

use super::{Common, Fill, Geometry, Measurement, Recording, Stopwatch};
use crate::commands::bench::output::{self, Column, number, percent, text};
use crate::traffic::distinct_experts;

/// The sizes of a layer of experts.
#[derive(Clone, Debug, Args)]
pub(in crate::commands::bench) struct LayerArgs {
    /// Columns of a row [default: of a model with as many experts]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    hidden: Option<u32>,

    /// Columns between up and down of an expert [default: of a model with as many experts]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    width: Option<u32>,

    /// Columns between up and down of an expert that every row uses; 0 is none
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=65_536))]
    shared: u32,

    /// Bits a weight: 1 to 8, or 1.5, 2.5, 3.5 with mul1
    #[arg(long, value_name = "K", default_value = "4")]
    pub(in crate::commands::bench) bits: Bits,

    /// Codebook: 3inst, mcg or mul1
    #[arg(long, default_value = "mul1")]
    pub(in crate::commands::bench) codebook: Codebook,
}

/// A layer of experts, of which every row uses a few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::bench) struct Layer {
    pub(in crate::commands::bench) experts: u32,
    pub(in crate::commands::bench) top_k: u32,
    pub(in crate::commands::bench) hidden: u32,
    pub(in crate::commands::bench) width: u32,
    pub(in crate::commands::bench) shared: Option<u32>,
    pub(in crate::commands::bench) storage: Storage,
}

/// How many experts there are, and how many a row uses, as `64/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::bench) struct Choice {
    pub(in crate::commands::bench) experts: u32,
    pub(in crate::commands::bench) top_k: u32,
}

impl std::str::FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let number = |text: &str| text.parse::<u32>().ok();
        let parts = text.split_once('/').map(|(experts, top_k)| (number(experts), number(top_k)));
        match parts {
            Some((Some(experts), Some(top_k))) if (1..=experts).contains(&top_k) && experts <= 4096 => {
                Ok(Choice { experts, top_k })
            }
            _ => Err("experts and how many a row uses are needed, as 64/4".into()),
        }
    }
}

/// Times a layer of experts with given choices. Lists give every combination.
#[derive(Debug, Args)]
pub(super) struct ExpertsArgs {
    /// How many experts there are and how many a row uses
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64/4")]
    experts: Vec<Choice>,

    #[command(flatten)]
    layer: LayerArgs,

    /// Rows of the step
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    rows: Vec<u32>,

    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Row {
    test: &'static str,
    experts: u32,
    top_k: u32,
    hidden: u32,
    width: u32,
    bits: f32,
    codebook: &'static str,
    rows: u32,
    #[serde(flatten)]
    measurement: Measurement,
}

const COLUMNS: [Column; 10] = [
    ("test", |record| text(record, "test")),
    ("experts", |record| number(record, "experts", 0)),
    ("used", |record| number(record, "top_k", 0)),
    ("hidden", |record| number(record, "hidden", 0)),
    ("width", |record| number(record, "width", 0)),
    ("bits", |record| number(record, "bits", 1)),
    ("rows", |record| number(record, "rows", 0)),
    ("us", |record| number(record, "us", 1)),
    ("weights/ns", |record| number(record, "weights_per_ns", 2)),
    ("roofline", |record| percent(record, "roofline_share")),
];

/// Runs `experts`.
pub(super) fn run(args: &ExpertsArgs) -> Result<()> {
    let stopwatch = Stopwatch::new(&args.common);
    let mut records = Vec::new();
    for choice in args.experts.iter().copied() {
        for rows in args.rows.iter().copied() {
            let layer = args.layer.of(choice)?;
            let measurement = layer.measure(&stopwatch, rows)?;
            let Layer { experts, top_k, hidden, width, .. } = layer;
            let (bits, codebook) = (args.layer.bits.as_f32(), args.layer.codebook.name());
            let row =
                Row { test: "experts", experts, top_k, hidden, width, bits, codebook, rows, measurement };
            records.push(output::record(&row)?);
        }
    }
    super::print(args.common.output, &records, &COLUMNS)
}

impl LayerArgs {
    /// The layer with so many experts.
    pub(in crate::commands::bench) fn of(&self, choice: Choice) -> Result<Layer> {
        let LayerArgs { hidden, width, shared, bits, codebook } = *self;
        super::allowed(codebook, bits)?;
        let Choice { experts, top_k } = choice;
        let usual = match (experts, top_k) {
            // Qwen3-30B-A3B, Step-3.5-Flash, Qwen3-Next-80B-A3B; GLM-4.7-Flash.
            (128, 8) => (2048, 768),
            (288, 8) => (4096, 1280),
            (512, 10) => (2048, 512),
            _ => (2048, 1536),
        };
        let (hidden, width) = (hidden.unwrap_or(usual.0), width.unwrap_or(usual.1));
        let shared = (shared > 0).then_some(shared);
        Ok(Layer { experts, top_k, hidden, width, shared, storage: Storage::Exl3 { bits, codebook } })
    }
}

impl Layer {
    /// Times it with choices that differ from one operation to the next, so that not always the same experts are
    /// read.
    pub(in crate::commands::bench) fn measure(
        &self,
        stopwatch: &Stopwatch<'_>,
        rows: u32,
    ) -> Result<Measurement> {
        let mut recording = Recording::default();
        let x = recording.input(self.hidden, Role::Activation, Fill::Normal);
        let gates = recording.input(self.top_k, Role::Logits, Fill::Constant(1.0 / self.top_k as f32));
        let mut weights = None;
        let mut used = 0.0;
        stopwatch.measure(Geometry::rows(rows), recording, &mut |recording| {
            // Other weights once as many experts were used as there are.
            if used >= f64::from(self.experts) {
                (weights, used) = (None, 0.0);
            }
            let (experts, shared) = *weights.get_or_insert_with(|| self.weights(recording));
            used += distinct_experts(self.experts, self.top_k, rows);
            let ids = recording.input(self.top_k, Role::Index, Fill::Choice(self.experts));
            let out = recording.value(self.hidden, Role::Activation);
            recording.op(self.op((x, ids, gates), (experts, shared), out));
        })
    }

    /// The operation.
    fn op(&self, (x, ids, gates): (Val, Val, Val), (experts, shared): (Glu, Option<Glu>), out: Val) -> Op {
        Op::Experts { x, ids, gates, experts, shared, act: Activation::Silu, out }
    }

    /// Weights of the routed experts and of the shared one.
    fn weights(&self, recording: &mut Recording) -> (Glu, Option<Glu>) {
        let mut unit = |width, parts| {
            let wide = Kind::Linear { out: width, inputs: self.hidden, bias: false };
            let narrow = Kind::Linear { out: self.hidden, inputs: width, bias: false };
            let [gate, up, down] =
                [wide, wide, narrow].map(|kind| recording.weight(kind, self.storage, parts));
            Glu { gate, up, down }
        };
        (unit(self.width, self.experts), self.shared.map(|width| unit(width, 1)))
    }
}
