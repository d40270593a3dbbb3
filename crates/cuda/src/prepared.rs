//! A program made ready: its memory, which never moves, and one graph for each size of steps.

use std::collections::HashMap;
use std::sync::Arc;

use program::memory::ScratchPlan;
use program::{Op, Options, Program, Result, Size, Val};

use crate::caches::Caches;
use crate::constants::Constants;
use crate::driver::{Address, Buffer, Context, Graph, Pinned};
use crate::fuse::Fusions;
use crate::launch::Launch;
use crate::lower::{Places, lower};
use crate::step::Layout;
use crate::weights::Weights;

/// A program and what its steps run in.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) program: Program,
    pub(crate) options: Options,
    /// How many token ids a step may name.
    pub(crate) vocab: u32,
    /// The rows written to each input since the last step.
    pub(crate) written: Vec<usize>,
    /// The last step.
    pub(crate) last: Size,
    fusions: Fusions,
    plan: ScratchPlan,
    pub(crate) values: Buffer,
    constants: Constants,
    /// What depends on the caches; made anew when they are reserved again.
    room: Option<Room>,
}

/// The memory of a program's steps beside its values.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) layout: Layout,
    /// What the host fills while the step before runs.
    pub(crate) staging: [Pinned; 2],
    pub(crate) step: Buffer,
    work: Buffer,
    pub(crate) graphs: HashMap<(u32, u32), Graph>,
}

/// What all programs of a device share.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    pub(crate) context: &'a Arc<Context>,
    pub(crate) weights: &'a Weights,
    pub(crate) caches: &'a Caches,
    pub(crate) tickets: Address,
    pub(crate) chosen: Address,
    pub(crate) given: Address,
}

impl Prepared {
    /// A checked program with its values and constants.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn new(
        shared: Shared<'_>,
        program: &Program,
        options: &Options,
        vocab: u32,
    ) -> Result<Prepared> {
        let fusions = Fusions::new(program, shared.weights, options.keep_all);
        let plan = ScratchPlan::of(fusions.lives(), options.size);
        Ok(Prepared {
            options: *options,
            vocab,
            written: vec![0; program.inputs.len()],
            last: Size { tokens: 0, outputs: 0, sequences: 0 },
            values: Buffer::zeros(shared.context, plan.len() * 4)?,
            constants: Constants::new(shared.context, program, shared.weights)?,
            fusions,
            plan,
            program: program.clone(),
            room: None,
        })
    }

    /// Where a value begins, in numbers.
    pub(crate) fn start(&self, val: Val) -> Option<usize> {
        self.plan.start(val)
    }

    /// The logits that the program answers from, if it does.
    pub(crate) fn logits(&self) -> Option<Val> {
        self.program.ops.iter().find_map(|op| match op {
            Op::Answer { logits, .. } => Some(*logits),
            _ => None,
        })
    }

    /// Forgets what depends on the caches or on what all programs share.
    pub(crate) fn forget(&mut self) {
        self.room = None;
    }

    /// The memory of steps; made if it is not there.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn room(&mut self, shared: Shared<'_>) -> Result<&mut Room> {
        if self.room.is_none() {
            let layout = Layout::new(self.options.size, shared.caches.size.pages);
            let step = Buffer::zeros(shared.context, layout.words() * 4)?;
            let work = self.work(shared, layout);
            let pinned = || Pinned::zeros(shared.context, layout.words() * 4);
            self.room = Some(Room {
                layout,
                staging: [pinned()?, pinned()?],
                step,
                work: Buffer::new(shared.context, work)?,
                graphs: HashMap::new(),
            });
        }
        Ok(self.room.as_mut().expect("it was made above"))
    }

    /// The launches of steps of up to `size` tokens and outputs.
    ///
    /// # Panics
    /// If there is no memory of steps yet.
    pub(crate) fn launches(&self, shared: Shared<'_>, size: Size) -> Vec<Launch> {
        let room = self.room.as_ref().expect("the memory of steps was made");
        let places = self.places(shared, room.layout, [room.step.address(), room.work.address()]);
        lower(&self.program.ops, size, places).launches
    }

    /// The launches of all sizes, at no particular place: which kernels are needed, and how much work space.
    pub(crate) fn all_launches(&self, shared: Shared<'_>) -> Vec<Launch> {
        let layout = Layout::new(self.options.size, shared.caches.size.pages);
        let places = self.places(shared, layout, [Address::NULL; 2]);
        let of = |size| lower(&self.program.ops, size, places).launches;
        sizes(self.options.size).into_iter().flat_map(of).collect()
    }

    fn work(&self, shared: Shared<'_>, layout: Layout) -> usize {
        let places = self.places(shared, layout, [Address::NULL; 2]);
        let of = |size| lower(&self.program.ops, size, places).work;
        sizes(self.options.size).into_iter().map(of).max().unwrap_or(0)
    }

    fn places<'a>(&'a self, shared: Shared<'a>, layout: Layout, [step, work]: [Address; 2]) -> Places<'a> {
        Places {
            facts: &shared.context.facts,
            weights: shared.weights,
            caches: shared.caches,
            constants: &self.constants,
            fusions: &self.fusions,
            plan: &self.plan,
            values: self.values.address(),
            work,
            tickets: shared.tickets,
            step: layout.addresses(step),
            chosen: shared.chosen,
            given: shared.given,
        }
    }
}

/// The size that steps of `found` rows run in: the next power of two, at most `most`.
pub(crate) fn rounded(found: u32, most: u32) -> u32 {
    if found == 0 { 0 } else { found.next_power_of_two().min(most) }
}

/// All sizes that steps up to `most` run in, each with the most outputs.
fn sizes(most: Size) -> Vec<Size> {
    let with =
        |count: u32| (0..32).map(|power| 1 << power).take_while(move |size| *size < count).chain([count]);
    let sizes = |tokens: u32| with(most.outputs).map(move |outputs| Size { tokens, outputs, ..most });
    with(most.tokens).flat_map(sizes).collect()
}
