//! A recording on a device, ready to be timed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use program::random::{self, SplitMix64};
use program::{
    CacheSize, Device, ModelSpec, Op, Options, PAGE_TOKENS, PageId, Program, ProgramId, Sequence, Size, Step,
    Token, Val, WeightId,
};

use super::recording::{Fill, Recording};
use crate::{memory, progress};

/// The rows of every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Sequences.
    pub(super) sequences: u32,
    /// Rows of each.
    pub(super) rows: u32,
    /// Tokens of each that are cached before.
    pub(super) depth: u32,
}

impl Geometry {
    /// Rows of one sequence of which nothing is cached.
    pub(super) fn rows(rows: u32) -> Geometry {
        Geometry { sequences: 1, rows, depth: 0 }
    }

    /// Rows in all.
    pub(super) fn tokens(&self) -> u32 {
        self.sequences * self.rows
    }

    /// Cached rows that a step attends to in all, its own included.
    pub(super) fn attended(&self) -> u64 {
        u64::from(self.sequences) * u64::from(self.depth + self.rows)
    }

    /// Pages that one sequence needs.
    fn pages(&self) -> u32 {
        (self.depth + self.rows).div_ceil(PAGE_TOKENS)
    }

    fn caches(&self) -> CacheSize {
        CacheSize { pages: 1 + self.sequences * self.pages(), slots: self.sequences }
    }
}

/// The device with a recording, its inputs and its step.
pub(super) struct Bed {
    device: Box<dyn Device>,
    id: ProgramId,
    program: Program,
    inputs: Vec<(Val, Vec<f32>)>,
    geometry: Geometry,
    /// What the device planned to take.
    pub(super) planned: program::Memory,
}

/// Rows of a step that fills caches.
const FILLED_AT_ONCE: u32 = 512;

impl Bed {
    /// Uploads random weights, fills the caches up to the depth, and prepares the program.
    pub(super) fn new(mut device: Box<dyn Device>, recording: Recording, geometry: Geometry) -> Result<Bed> {
        let (model, fills) = recording.finish();
        let program = &model.programs[0];
        let tokens = geometry.tokens();
        let options = Options::new(Size { tokens, outputs: 1, sequences: geometry.sequences });
        let planned = device.plan(&model, &options, geometry.caches())?;
        let bytes = planned.weights + planned.cache + planned.scratch;
        memory::require(bytes, "a smaller --rotate takes less")?;
        upload(&mut *device, &model)?;
        device.reserve(&model.caches, geometry.caches())?;
        fill_caches(&mut *device, program, &model, geometry)?;
        let id = device.prepare(program, &options)?;
        let mut random = SplitMix64::new(2);
        let inputs = fills.into_iter().map(|(val, fill)| (val, numbers(val, fill, tokens, &mut random)));
        Ok(Bed { device, id, program: program.clone(), inputs: inputs.collect(), geometry, planned })
    }

    /// The device's name.
    pub(super) fn device(&self) -> &str {
        self.device.name()
    }

    /// Runs the program once and gives the time of the step, without the writing of its inputs.
    pub(super) fn pass(&mut self) -> Result<Duration> {
        for (val, rows) in &self.inputs {
            self.device.write(self.id, *val, rows)?;
        }
        let lists = Lists::new(self.geometry, self.geometry.depth, self.geometry.rows);
        let start = Instant::now();
        let ticket = self.device.submit(self.id, &lists.step())?;
        self.device.wait(ticket)?;
        Ok(start.elapsed())
    }

    /// Checks that the last operation's result is made of numbers.
    ///
    /// # Errors
    /// If one of them is not finite.
    pub(super) fn check(&mut self) -> Result<()> {
        for val in self.program.results.clone() {
            let mut rows = vec![0.0; (self.geometry.tokens() * val.cols) as usize];
            self.device.read(self.id, val, &mut rows)?;
            ensure!(
                rows.iter().all(|number| number.is_finite()),
                "the operation gave a number that is not finite: the device computes wrongly (`billfish verify` \
                 tells which operation)"
            );
        }
        Ok(())
    }
}

/// The lists of a step.
struct Lists {
    tokens: Vec<Token>,
    positions: Vec<u32>,
    sequences: Vec<Sequence>,
    pages: Vec<PageId>,
}

impl Lists {
    /// `rows` rows of each sequence after `cached` ones.
    fn new(geometry: Geometry, cached: u32, rows: u32) -> Lists {
        let count = geometry.sequences;
        let pages = geometry.pages();
        let sequence = |index| Sequence {
            rows: index * rows..(index + 1) * rows,
            cached,
            pages: index * pages..(index + 1) * pages,
            slot: index,
        };
        Lists {
            tokens: (0..count * rows).map(Token::Id).collect(),
            positions: (0..count).flat_map(|_| cached..cached + rows).collect(),
            sequences: (0..count).map(sequence).collect(),
            // In descending order, so that a page table is needed.
            pages: (1..=count * pages).rev().map(PageId).collect(),
        }
    }

    fn step(&self) -> Step<'_> {
        let Lists { tokens, positions, sequences, pages } = self;
        Step { tokens, positions, sequences, pages, outputs: &[] }
    }
}

/// Uploads random weights.
fn upload(device: &mut dyn Device, model: &ModelSpec) -> Result<()> {
    let parts = || {
        let weights = model.weights.iter().zip(0..);
        weights.flat_map(|(weight, id)| weight.parts.iter().zip(0..).map(move |part| (weight.kind, id, part)))
    };
    let bar =
        progress::bytes("making weights", parts().map(|(kind, _, (part, _))| part.storage.bytes(kind)).sum());
    for (kind, id, (part, index)) in parts() {
        let seed = u64::from(id) << 32 | u64::from(index);
        device.upload(WeightId(id), index, random::tensor(kind, part.storage, seed))?;
        bar.inc(part.storage.bytes(kind));
    }
    bar.finish_and_clear();
    Ok(())
}

/// Fills the first `depth` rows of every cache of every sequence with normal numbers.
fn fill_caches(
    device: &mut dyn Device,
    program: &Program,
    model: &ModelSpec,
    geometry: Geometry,
) -> Result<()> {
    if geometry.depth == 0 || model.caches.is_empty() {
        return Ok(());
    }
    // Values of a program of its own, after all others.
    let mut next =
        program.ops.iter().flat_map(|op| [op.reads(), op.writes()].concat()).map(|val| val.id).max();
    let mut ops = Vec::new();
    for (cache, id) in model.caches.iter().zip(0..) {
        for (part, index) in cache.parts.iter().zip(0..) {
            let val = Val {
                id: next.map_or(0, |last| last + 1),
                rows: program::Rows::Tokens,
                cols: part.cols,
                role: program::Role::Activation,
            };
            next = Some(val.id);
            ops.push(Op::CacheWrite { x: val.into(), cache: program::CacheId(id), part: index });
        }
    }
    let program = Program::of(&ops);
    let most = FILLED_AT_ONCE.min(geometry.depth) * geometry.sequences;
    let size = Size { tokens: most, outputs: 1, sequences: geometry.sequences };
    let id = device.prepare(&program, &Options::new(size))?;
    let mut random = SplitMix64::new(3);
    for cached in (0..geometry.depth).step_by(FILLED_AT_ONCE as usize) {
        let rows = FILLED_AT_ONCE.min(geometry.depth - cached);
        for val in &program.inputs {
            let count = (rows * geometry.sequences * val.cols) as usize;
            device.write(id, *val, &random.normals(count, 1.0))?;
        }
        let ticket = device.submit(id, &Lists::new(geometry, cached, rows).step())?;
        device.wait(ticket)?;
    }
    Ok(())
}

/// The rows of an input.
fn numbers(val: Val, fill: Fill, rows: u32, random: &mut SplitMix64) -> Vec<f32> {
    let count = (rows * val.cols) as usize;
    match fill {
        Fill::Normal => random.normals(count, 1.0),
        Fill::Constant(number) => vec![number; count],
        Fill::Choice(below) => {
            let mut all: Vec<u32> = (0..below).collect();
            let mut numbers = Vec::with_capacity(count);
            for _ in 0..rows {
                random.shuffle(&mut all);
                numbers.extend(all[..val.cols as usize].iter().map(|number| *number as f32));
            }
            numbers
        }
    }
}
