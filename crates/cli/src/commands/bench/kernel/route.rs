//! `bench kernel route`: what choosing experts costs beside using them.

use anyhow::Result;
use clap::Args;
use program::{Dtype, Gates, Kind, Op, Role, Routing, Score, Storage};
use serde::Serialize;

use super::experts::{Choice, Layer, LayerArgs};
use super::{Common, Fill, Geometry, Recording, Stopwatch};
use crate::commands::bench::output::{self, Column, number, percent, text};
use crate::machine;

/// Times the parts of choosing experts: the router's logits, the choice of the best, the division of their gates by
/// their sum, and the sorting of rows by expert; and the experts themselves for comparison. Lists give every combination.
///
/// The division is the difference between a choice with it and one without. Sorting happens within the experts'
/// operation: it is timed as that operation with experts of one column, the starting of its phases included.
#[derive(Debug, Args)]
pub(super) struct RouteArgs {
    /// How many experts there are and how many a row uses
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64/4")]
    experts: Vec<Choice>,

    #[command(flatten)]
    layer: LayerArgs,

    /// Rows of the step
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,64", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    rows: Vec<u32>,

    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Row {
    test: &'static str,
    experts: u32,
    top_k: u32,
    rows: u32,
    logits_us: f64,
    top_k_us: f64,
    normalise_us: f64,
    grouping_us: f64,
    /// The four together.
    route_us: f64,
    /// The experts, their sorting included.
    experts_us: f64,
    /// Choosing as a share of the whole layer: logits, choice and experts.
    share: f64,
    device: String,
    threads: usize,
    machine: String,
    commit: &'static str,
}

const COLUMNS: [Column; 10] = [
    ("test", |record| text(record, "test")),
    ("experts", |record| number(record, "experts", 0)),
    ("used", |record| number(record, "top_k", 0)),
    ("rows", |record| number(record, "rows", 0)),
    ("logits us", |record| number(record, "logits_us", 2)),
    ("top-k us", |record| number(record, "top_k_us", 2)),
    ("normalise us", |record| number(record, "normalise_us", 2)),
    ("grouping us", |record| number(record, "grouping_us", 2)),
    ("experts us", |record| number(record, "experts_us", 1)),
    ("share", |record| percent(record, "share")),
];

/// Runs `route`.
pub(super) fn run(args: &RouteArgs) -> Result<()> {
    let stopwatch = Stopwatch::new(&args.common);
    let mut records = Vec::new();
    for choice in args.experts.iter().copied() {
        let layer = args.layer.of(choice)?;
        for rows in args.rows.iter().copied() {
            records.push(output::record(&row(&stopwatch, &layer, rows)?)?);
        }
    }
    super::print(args.common.output, &records, &COLUMNS)
}

fn row(stopwatch: &Stopwatch<'_>, layer: &Layer, rows: u32) -> Result<Row> {
    let Layer { experts, top_k, .. } = *layer;
    let logits_us = logits(stopwatch, layer, rows)?;
    let raw = choice(stopwatch, layer, rows, Gates::Raw)?;
    let normalised = choice(stopwatch, layer, rows, Gates::Normalised { epsilon: 1e-20 })?;
    let narrow = Layer { hidden: 1, width: 1, shared: None, storage: Storage::Dense(Dtype::F32), ..*layer };
    let grouping_us = narrow.measure(stopwatch, rows)?.us;
    let whole = layer.measure(stopwatch, rows)?;
    let normalise_us = (normalised - raw).max(0.0);
    let chosen_us = logits_us + raw + normalise_us;
    let route_us = chosen_us + grouping_us;
    Ok(Row {
        test: "route",
        experts,
        top_k,
        rows,
        logits_us,
        top_k_us: raw,
        normalise_us,
        grouping_us,
        route_us,
        experts_us: whole.us,
        share: route_us / (chosen_us + whole.us),
        device: whole.device,
        threads: whole.threads,
        machine: whole.machine,
        commit: machine::COMMIT,
    })
}

/// The router's logits, from weights stored as converters leave them.
fn logits(stopwatch: &Stopwatch<'_>, layer: &Layer, rows: u32) -> Result<f64> {
    let Layer { experts, hidden, .. } = *layer;
    let mut recording = Recording::default();
    let x = recording.input(hidden, Role::Activation, Fill::Normal);
    let measured = stopwatch.measure(Geometry::rows(rows), recording, &mut |recording| {
        let kind = Kind::Linear { out: experts, inputs: hidden, bias: false };
        let weight = recording.weight(kind, Storage::Dense(Dtype::F16), 1);
        let out = recording.value(experts, Role::Logits);
        recording.op(Op::Linear { x: x.into(), to: vec![(weight, out)] });
    })?;
    Ok(measured.us)
}

/// The choice by sigmoid scores plus a bias, as in GLM's and DeepSeek's routers.
fn choice(stopwatch: &Stopwatch<'_>, layer: &Layer, rows: u32, gates: Gates) -> Result<f64> {
    let Layer { experts, top_k, .. } = *layer;
    let how = Routing { experts, top_k, groups: None, score: Score::Sigmoid, gates, scale: 1.0 };
    let mut recording = Recording::default();
    let logits = recording.input(experts, Role::Logits, Fill::Normal);
    let measured = stopwatch.measure(Geometry::rows(rows), recording, &mut |recording| {
        let bias = recording.weight(Kind::Vector { len: experts }, Storage::Dense(Dtype::F32), 1);
        let ids = recording.value(top_k, Role::Index);
        let gates = recording.value(top_k, Role::Logits);
        recording.op(Op::Route { logits, bias: Some(bias), how, ids, gates });
    })?;
    Ok(measured.us)
}
