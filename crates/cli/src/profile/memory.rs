//! Memory by stage, by layer and by operation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::label::Layer;
use super::ledger::{Ledger, Stage, WeightEntry};
use super::table::{row, table};
use crate::memory::{self, size};

/// How many of the largest weights are listed.
const LARGEST: usize = 10;

/// Where memory went. Sizes are in bytes; what was measured is null where the system does not tell.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    stages: Vec<ByStage>,
    by_layer: Vec<ByLayer>,
    by_operation: Vec<ByOperation>,
    largest: Vec<Largest>,
    peak: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ByStage {
    stage: String,
    planned: Option<u64>,
    measured: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ByLayer {
    layer: Layer,
    weights_planned: u64,
    weights_measured: Option<i64>,
    cache_planned: u64,
}

#[derive(Debug, Serialize)]
struct ByOperation {
    op: &'static str,
    part: String,
    planned: u64,
    measured: Option<i64>,
}

#[derive(Debug, Serialize)]
struct Largest {
    name: String,
    parts: usize,
    planned: u64,
    measured: Option<i64>,
}

impl Report {
    /// Adds everything up.
    pub(super) fn of(ledger: &Ledger) -> Report {
        let known = ledger.stages.iter().all(|stage| stage.measured.is_some());
        let measured = |sum: i64| known.then_some(sum);
        let mut layers: BTreeMap<Layer, (u64, i64, u64)> = BTreeMap::new();
        let mut operations: BTreeMap<(&'static str, &str), (u64, i64)> = BTreeMap::new();
        for weight in &ledger.weights {
            let layer = layers.entry(weight.label.layer).or_default();
            let operation = operations.entry((weight.label.op, &weight.label.part)).or_default();
            layer.0 += weight.planned;
            layer.1 += weight.measured;
            operation.0 += weight.planned;
            operation.1 += weight.measured;
        }
        for cache in &ledger.caches {
            layers.entry(cache.layer).or_default().2 += cache.planned;
        }
        let by_layer = layers.into_iter().map(|(layer, (weights_planned, weights, cache_planned))| ByLayer {
            layer,
            weights_planned,
            weights_measured: measured(weights),
            cache_planned,
        });
        let mut by_operation: Vec<ByOperation> = operations
            .into_iter()
            .map(|((op, part), (planned, sum))| ByOperation {
                op,
                part: part.to_owned(),
                planned,
                measured: measured(sum),
            })
            .collect();
        by_operation.sort_by_key(|sum| std::cmp::Reverse(sum.planned));
        let mut weights: Vec<&WeightEntry> = ledger.weights.iter().collect();
        weights.sort_by_key(|weight| std::cmp::Reverse(weight.planned));
        let largest = weights.into_iter().take(LARGEST).map(|weight| Largest {
            name: weight.name.clone(),
            parts: weight.parts,
            planned: weight.planned,
            measured: measured(weight.measured),
        });
        let stage = |stage: &Stage| ByStage {
            stage: stage.name.clone(),
            planned: stage.planned,
            measured: stage.measured,
        };
        Report {
            stages: ledger.stages.iter().map(stage).collect(),
            by_layer: by_layer.collect(),
            by_operation,
            largest: largest.collect(),
            peak: memory::peak(),
        }
    }

    /// The text for people.
    pub(super) fn table(&self) -> String {
        let planned = |bytes: Option<u64>| bytes.map_or_else(String::new, size);
        let signed = |bytes: Option<i64>| match bytes {
            None => String::new(),
            Some(bytes) if bytes < 0 => format!("-{}", size(bytes.unsigned_abs())),
            Some(bytes) => size(bytes.unsigned_abs()),
        };
        let mut stages = vec![row(["resident after", "planned", "measured"])];
        stages.extend(
            self.stages
                .iter()
                .map(|stage| row([&stage.stage, &planned(stage.planned), &planned(stage.measured)])),
        );
        stages.push(row(["at the most", "", &planned(self.peak)]));
        let mut layers = vec![row(["layer", "weights planned", "measured", "cache planned"])];
        layers.extend(self.by_layer.iter().map(|sum| {
            let (layer, cache) = (sum.layer.to_string(), size(sum.cache_planned));
            row([&layer, &size(sum.weights_planned), &signed(sum.weights_measured), &cache])
        }));
        let mut operations = vec![row(["operation", "part", "planned", "measured"])];
        operations.extend(
            self.by_operation
                .iter()
                .map(|sum| row([sum.op, &sum.part, &size(sum.planned), &signed(sum.measured)])),
        );
        let mut largest = vec![row(["largest weights", "parts", "planned", "measured"])];
        largest.extend(self.largest.iter().map(|weight| {
            row([&weight.name, &weight.parts.to_string(), &size(weight.planned), &signed(weight.measured)])
        }));
        [table(&stages, 1), table(&layers, 1), table(&operations, 2), table(&largest, 1)].join("\n")
    }
}
