//! Where memory goes, as it comes: what is resident after each stage of the work, and what was planned.

use std::collections::HashMap;

use program::{CacheSize, Device, ModelSpec, Op, Options, Program, Result, Size, WeightId};

use super::label::{self, Label, Layer};
use crate::memory;

/// A step of one row: weights and caches are planned alike for every size.
const SMALLEST: Options = Options::new(Size { tokens: 1, outputs: 1, sequences: 1 });

/// No caches.
const NO_CACHES: CacheSize = CacheSize { pages: 0, slots: 0 };

/// What is known of memory so far. Sizes are in bytes.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) stages: Vec<Stage>,
    pub(super) weights: Vec<WeightEntry>,
    pub(super) caches: Vec<CacheEntry>,
    model: ModelSpec,
    /// What was resident before the weight that comes next.
    resident: Option<u64>,
    /// What the stages so far were planned to add.
    planned: u64,
    has_stepped: bool,
}

/// The end of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) name: String,
    /// What was resident when the model was opened, and what was planned from there on; none before.
    pub(super) planned: Option<u64>,
    /// What was resident; none where the system does not tell.
    pub(super) measured: Option<u64>,
}

/// One weight with all its parts.
#[derive(Clone, Debug)]
pub(super) struct WeightEntry {
    pub(super) name: String,
    pub(super) parts: usize,
    /// The operation that uses it first.
    pub(super) label: Label,
    pub(super) planned: u64,
    /// By how much more was resident after its upload.
    pub(super) measured: i64,
}

/// One cache.
#[derive(Clone, Debug)]
pub(super) struct CacheEntry {
    pub(super) layer: Layer,
    pub(super) planned: u64,
}

impl Ledger {
    /// Begins with what the process takes now.
    pub(super) fn start() -> Ledger {
        let model = ModelSpec { weights: Vec::new(), caches: Vec::new(), programs: Vec::new() };
        let mut ledger = Ledger {
            stages: Vec::new(),
            weights: Vec::new(),
            caches: Vec::new(),
            model,
            resident: None,
            planned: 0,
            has_stepped: false,
        };
        ledger.stage("start");
        ledger
    }

    /// Learns the model, and what the device plans for each weight.
    pub(super) fn know(&mut self, model: &ModelSpec, device: &dyn Device) -> Result<()> {
        self.stage("model opened");
        self.model = model.clone();
        let labels = labels(model);
        for (weight, id) in model.weights.iter().zip(0..) {
            let alone = ModelSpec { weights: vec![weight.clone()], caches: Vec::new(), programs: Vec::new() };
            let name = weight.parts.first().map_or_else(String::new, |part| part.name.clone());
            let unused = || Label { op: "unused", part: String::new(), layer: Layer::Embedding };
            self.weights.push(WeightEntry {
                name,
                parts: weight.parts.len(),
                label: labels.get(&WeightId(id)).cloned().unwrap_or_else(unused),
                planned: device.plan(&alone, &SMALLEST, NO_CACHES)?.weights,
                measured: 0,
            });
        }
        self.planned = self.stages.last().and_then(|stage| stage.measured).unwrap_or(0);
        self.planned += self.weights.iter().map(|weight| weight.planned).sum::<u64>();
        self.resident = memory::resident();
        Ok(())
    }

    /// Takes note of a part of a weight.
    pub(super) fn uploaded(&mut self, id: WeightId) {
        let now = memory::resident();
        if let (Some(before), Some(now), Some(weight)) =
            (self.resident, now, self.weights.get_mut(id.0 as usize))
        {
            weight.measured += now as i64 - before as i64;
        }
        self.resident = now;
    }

    /// Takes note of the caches.
    pub(super) fn reserved(&mut self, device: &dyn Device, size: CacheSize) -> Result<()> {
        let plan = |caches: &[program::CacheSpec]| {
            let alone = ModelSpec { weights: Vec::new(), caches: caches.to_vec(), programs: Vec::new() };
            device.plan(&alone, &SMALLEST, size).map(|memory| memory.cache)
        };
        let layers = cache_layers(&self.model);
        self.caches.clear();
        for (index, cache) in self.model.caches.iter().enumerate() {
            let layer = layers.get(&index).copied().unwrap_or(Layer::Embedding);
            self.caches.push(CacheEntry { layer, planned: plan(std::slice::from_ref(cache))? });
        }
        self.planned += plan(&self.model.caches)?;
        self.stage("caches reserved");
        Ok(())
    }

    /// Takes note of a program.
    pub(super) fn prepared(
        &mut self,
        device: &dyn Device,
        program: &Program,
        options: &Options,
    ) -> Result<()> {
        let ModelSpec { weights, caches, .. } = self.model.clone();
        let alone = ModelSpec { weights, caches, programs: vec![program.clone()] };
        self.planned += device.plan(&alone, options, NO_CACHES)?.scratch;
        // A command may prepare a thousand pieces of a program: together they are one stage.
        if self.stages.last().is_some_and(|stage| stage.name == PREPARED) {
            self.stages.pop();
        }
        self.stage(PREPARED);
        Ok(())
    }

    /// Takes note of the first step.
    pub(super) fn stepped(&mut self) {
        if !self.has_stepped {
            self.has_stepped = true;
            self.stage("first step");
        }
    }

    /// Takes note of the last moment at which everything is there, unless it is past.
    pub(super) fn end(&mut self) {
        if self.stages.last().is_none_or(|stage| stage.name != END) {
            self.stage(END);
        }
    }

    /// Ends a stage.
    pub(super) fn stage(&mut self, name: &str) {
        let planned = (self.planned > 0).then_some(self.planned);
        self.stages.push(Stage { name: name.into(), planned, measured: memory::resident() });
    }
}

const PREPARED: &str = "program prepared";
const END: &str = "end";

/// The first operation that uses each weight.
fn labels(model: &ModelSpec) -> HashMap<WeightId, Label> {
    let mut labels = HashMap::new();
    for program in &model.programs {
        for (op, label) in program.ops.iter().zip(label::of_program(model, program)) {
            for weight in op.weights() {
                labels.entry(weight).or_insert_with(|| label.clone());
            }
        }
    }
    labels
}

/// The layer that writes each cache.
fn cache_layers(model: &ModelSpec) -> HashMap<usize, Layer> {
    let mut layers = HashMap::new();
    for program in &model.programs {
        for (op, label) in program.ops.iter().zip(label::of_program(model, program)) {
            if let Op::CacheWrite { cache, .. } = op {
                layers.insert(cache.0 as usize, label.layer);
            }
        }
    }
    layers
}
