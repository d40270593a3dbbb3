//! Times by operation and by layer.

use std::collections::BTreeMap;
use std::time::Duration;

use program::Op;
use serde::Serialize;

use super::label::{Label, Layer};
use super::table::{row, table};
use super::times::{Times, Total};
use crate::traffic::{StepShape, Traffic};

/// All times of a command.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    device: String,
    steps: Vec<Section>,
}

/// Steps that are alike.
#[derive(Clone, Debug, Serialize)]
struct Section {
    /// `one row` or `several rows`.
    rows: &'static str,
    count: u32,
    tokens: u64,
    /// From submitting a step to its outcome, over all steps.
    wall_ms: f64,
    /// Of that within operations.
    operations_ms: f64,
    /// Of that outside of them.
    outside_ms: f64,
    by_operation: Vec<ByOperation>,
    by_layer: Vec<ByLayer>,
}

/// Operations of one kind with the same part of a layer.
#[derive(Clone, Debug, Serialize)]
struct ByOperation {
    op: &'static str,
    part: String,
    /// How often one ran, over all steps.
    calls: u64,
    ms: f64,
    /// Of the time within operations.
    share: f64,
    /// Bytes of weights and caches in a nanosecond; none if it has none.
    gbps: Option<f64>,
    /// Products of a weight and a row in a nanosecond; none if it has none.
    weights_per_ns: Option<f64>,
}

/// Operations of one layer.
#[derive(Clone, Debug, Serialize)]
struct ByLayer {
    layer: Layer,
    ms: f64,
    share: f64,
}

impl Summary {
    /// Adds everything up.
    pub(super) fn of(times: &Times) -> Summary {
        let section = |one_row| {
            let totals: Vec<&Total> = times.totals.iter().filter(|total| total.one_row == one_row).collect();
            (!totals.is_empty()).then(|| Section::of(times, &totals, one_row))
        };
        Summary {
            device: times.device.clone(),
            steps: [false, true].into_iter().filter_map(section).collect(),
        }
    }

    /// The text for people.
    pub(super) fn table(&self) -> String {
        let device = &self.device;
        self.steps
            .iter()
            .map(|section| format!("{device}: {}", section.table()))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// What the operations of one label took and used.
#[derive(Default)]
struct Sum {
    calls: u64,
    time: Duration,
    traffic: Traffic,
    /// When one first occurred.
    first: usize,
}

impl Section {
    fn of(times: &Times, totals: &[&Total], one_row: bool) -> Section {
        let mut operations: BTreeMap<(&'static str, &str), Sum> = BTreeMap::new();
        let mut layers: BTreeMap<Layer, Duration> = BTreeMap::new();
        for total in totals {
            let Some(ops) = times.programs.get(&total.program) else { continue };
            for ((op, label), time) in ops.iter().zip(&total.times) {
                let Label { op: name, part, layer } = label;
                let order = operations.len();
                let sum = operations
                    .entry((*name, part.as_str()))
                    .or_insert(Sum { first: order, ..Sum::default() });
                sum.calls += u64::from(total.steps);
                sum.time += *time;
                sum.traffic = sum.traffic.plus(traffic(times, total, op));
                *layers.entry(*layer).or_default() += *time;
            }
        }
        let all: Duration = layers.values().sum();
        let wall: Duration = totals.iter().map(|total| total.wall).sum();
        let share = |time: Duration| time.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
        let mut sums: Vec<_> = operations.into_iter().collect();
        sums.sort_by(|(_, one), (_, other)| other.time.cmp(&one.time).then(one.first.cmp(&other.first)));
        let by_operation = sums.into_iter().map(|((op, part), sum)| {
            let rate = |amount: f64| (amount > 0.0).then(|| amount / (sum.time.as_secs_f64() * 1e9));
            ByOperation {
                op,
                part: part.to_owned(),
                calls: sum.calls,
                ms: milliseconds(sum.time),
                share: share(sum.time),
                gbps: rate(sum.traffic.bytes()),
                weights_per_ns: rate(sum.traffic.products),
            }
        });
        Section {
            rows: if one_row { "one row" } else { "several rows" },
            count: totals.iter().map(|total| total.steps).sum(),
            tokens: totals.iter().map(|total| total.tokens).sum(),
            wall_ms: milliseconds(wall),
            operations_ms: milliseconds(all),
            outside_ms: milliseconds(wall.saturating_sub(all)),
            by_operation: by_operation.collect(),
            by_layer: layers
                .into_iter()
                .map(|(layer, time)| ByLayer { layer, ms: milliseconds(time), share: share(time) })
                .collect(),
        }
    }

    fn table(&self) -> String {
        let Section { rows, count, tokens, wall_ms, operations_ms, outside_ms, .. } = self;
        let steps = f64::from(*count);
        let outside = 100.0 * outside_ms / wall_ms.max(f64::MIN_POSITIVE);
        let head = format!(
            "steps of {rows}: {count}, {tokens} rows in all; a step takes {:.3} ms, {:.3} ms in operations and \
             {:.3} ms ({outside:.1} %) outside of them\n",
            wall_ms / steps,
            operations_ms / steps,
            outside_ms / steps
        );
        let rate = |rate: Option<f64>| rate.map_or_else(String::new, |rate| format!("{rate:.2}"));
        let mut lines = vec![row(["operation", "part", "calls", "ms a step", "share", "GB/s", "weights/ns"])];
        lines.extend(self.by_operation.iter().map(|sum| {
            row([
                sum.op,
                &sum.part,
                &sum.calls.to_string(),
                &format!("{:.3}", sum.ms / steps),
                &format!("{:.1} %", 100.0 * sum.share),
                &rate(sum.gbps),
                &rate(sum.weights_per_ns),
            ])
        }));
        let mut layers = vec![row(["layer", "ms a step", "share"])];
        layers.extend(self.by_layer.iter().map(|sum| {
            row([
                &sum.layer.to_string(),
                &format!("{:.3}", sum.ms / steps),
                &format!("{:.1} %", 100.0 * sum.share),
            ])
        }));
        head + &table(&lines, 2) + &table(&layers, 1)
    }
}

/// What an operation used in all steps of a total, taking them to be of one size.
fn traffic(times: &Times, total: &Total, op: &Op) -> Traffic {
    let steps = f64::from(total.steps);
    let mean = |sum: u64| (sum as f64 / steps).round();
    let shape = StepShape {
        tokens: mean(total.tokens) as u32,
        outputs: mean(total.outputs) as u32,
        attended: mean(total.attended) as u64,
    };
    Traffic::of(&times.model, op, &shape).times(steps)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
