//! `bench kernel`: one operation alone, over sizes, on any device.

mod attention;
mod bed;
mod elementwise;
mod experts;
mod linear;
mod recording;
mod route;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;

use exl3::{Bits, Codebook};

use self::bed::{Bed, Geometry};
use self::elementwise::Elementwise;
pub(super) use self::experts::{Choice, Layer, LayerArgs};
use self::recording::{Fill, Recording};
use super::output::{self, Column, Format, Record};
use super::statistics::{deviation, median};
use crate::commands::Verdict;
use crate::model_args::DeviceArgs;
use crate::report::Usage;
use crate::traffic::{StepShape, Traffic};
use crate::{machine, memory};

/// Times one operation alone, through the same calls as a whole model.
///
/// A program holds the operation many times, each over weights and caches of its own that together are at
/// least eight times as large as the last-level cache, so that they come from memory as they do in a model. The
/// time of one operation is that of the step divided by their number.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KernelArgs {
    #[command(subcommand)]
    kernel: Kernel,
}

const EXAMPLES: &str = "\
weights_per_ns counts products of a weight and a row; gbps counts bytes of weights and caches, or, where an operation
has none, of its values.

Examples:
  billfish bench kernel linear --in 4096 --out 14336 --bits 4 --codebook mul1 --rows 1 -t 1 -o json
  billfish bench kernel linear --in 2048 --out 1536 --bits 2,3,4 --rows 1,4,16,64
  billfish bench kernel route --experts 64/4,128/8 --rows 1,64
  billfish bench kernel attend-mla --depth 512,4096 --batch 1,8";

#[derive(Debug, Subcommand)]
enum Kernel {
    /// Rows times a matrix of trellis codes
    Linear(linear::LinearArgs),
    /// A layer of experts, of which every row uses a few
    Experts(experts::ExpertsArgs),
    /// What choosing experts costs beside using them
    Route(route::RouteArgs),
    /// Grouped-query attention over cached keys and values
    Attend(attention::AttendArgs),
    /// Latent attention
    AttendMla(attention::AttendMlaArgs),
    /// Root-mean-square norm
    RmsNorm(elementwise::ElementwiseArgs),
    /// A sum and its norm
    AddRmsNorm(elementwise::ElementwiseArgs),
    /// A sum
    Add(elementwise::ElementwiseArgs),
    /// silu(gate) * up
    ActMul(elementwise::ElementwiseArgs),
    /// Rotary position embedding
    Rope(elementwise::ElementwiseArgs),
    /// Rows written to a cache
    CacheWrite(elementwise::ElementwiseArgs),
    /// Rows of a table
    Embed(elementwise::ElementwiseArgs),
}

/// What all kernels have in common.
#[derive(Clone, Debug, Args)]
pub(super) struct Common {
    #[command(flatten)]
    device: DeviceArgs,

    /// How often the step is timed after one that is not; the median counts
    #[arg(long, short, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,

    /// Rotate over so many MB of weights and caches; 0 leaves them in the processor's caches [default: 8 times the
    /// last-level cache]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    rotate: Option<u64>,

    /// How results are printed; json is one object where one size was asked for, and a list of several
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Format::Md)]
    pub(super) output: Format,
}

/// Never more operations in a step: those on values alone would never fill the memory asked for.
const MOST_COPIES: usize = 512;

/// What was measured of one operation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measurement {
    /// Microseconds of one operation, the median over the samples.
    pub(super) us: f64,
    /// Their standard deviation.
    stddev_us: f64,
    /// All of them.
    samples_us: Vec<f64>,
    /// Products of a weight and a row in a nanosecond.
    weights_per_ns: f64,
    /// Bytes of weights and caches, or of values, in a nanosecond.
    gbps: f64,
    /// The same as a share of what this machine reads from memory with as many threads.
    roofline_share: Option<f64>,
    /// Bytes in a nanosecond that this machine reads from memory with as many threads.
    read_gbps: Option<f64>,
    /// Bytes of weights and caches that one operation uses.
    bytes: f64,
    /// How often a step holds the operation.
    copies: usize,
    /// Bytes of all weights and caches that a step goes through.
    rotated_bytes: f64,
    #[serde(flatten)]
    memory: MemoryUse,
    device: String,
    threads: usize,
    machine: String,
    commit: &'static str,
}

/// What the process took. What was measured is null where the system does not tell.
#[derive(Clone, Debug, Serialize)]
struct MemoryUse {
    /// Before anything was made.
    memory_before_bytes: Option<u64>,
    /// The most while it was timed.
    peak_memory_bytes: Option<u64>,
    /// After everything was gone again.
    memory_after_bytes: Option<u64>,
    /// What the device planned for weights, caches and scratch, beside what there was before.
    planned_memory_bytes: u64,
    /// Of that for the values and the work space of a step.
    scratch_bytes: u64,
}

/// Runs the command.
pub(crate) fn run(args: &KernelArgs) -> Result<Verdict> {
    match &args.kernel {
        Kernel::Linear(args) => linear::run(args)?,
        Kernel::Experts(args) => experts::run(args)?,
        Kernel::Route(args) => route::run(args)?,
        Kernel::Attend(args) => attention::attend(args)?,
        Kernel::AttendMla(args) => attention::attend_mla(args)?,
        Kernel::RmsNorm(args) => elementwise::run(Elementwise::RmsNorm, args)?,
        Kernel::AddRmsNorm(args) => elementwise::run(Elementwise::AddRmsNorm, args)?,
        Kernel::Add(args) => elementwise::run(Elementwise::Add, args)?,
        Kernel::ActMul(args) => elementwise::run(Elementwise::ActMul, args)?,
        Kernel::Rope(args) => elementwise::run(Elementwise::Rope, args)?,
        Kernel::CacheWrite(args) => elementwise::run(Elementwise::CacheWrite, args)?,
        Kernel::Embed(args) => elementwise::run(Elementwise::Embed, args)?,
    }
    Ok(Verdict::Good)
}

/// What times operations of one kind after another.
pub(super) struct Stopwatch<'a> {
    common: &'a Common,
    machine: String,
    read_bandwidth: Option<f64>,
}

impl Stopwatch<'_> {
    pub(super) fn new(common: &Common) -> Stopwatch<'_> {
        let read_bandwidth = common.device.read_bandwidth();
        Stopwatch { common, machine: machine::name(), read_bandwidth }
    }

    /// Times what `record` writes down, so often in a step that memory has to be gone through.
    fn measure(
        &self,
        geometry: Geometry,
        mut recording: Recording,
        record: &mut dyn FnMut(&mut Recording),
    ) -> Result<Measurement> {
        record(&mut recording);
        let rotate =
            self.common.rotate.map_or_else(machine::uncached_bytes, |megabytes| megabytes * 1_000_000);
        // Every copy uses as much as the first.
        let first = used(&recording, geometry).bytes().max(1.0);
        let copies = ((rotate as f64 / first).ceil() as usize).clamp(1, MOST_COPIES);
        (1..copies).for_each(|_| record(&mut recording));
        let Traffic { weights, cache, products } = used(&recording, geometry);
        let values = recording.value_bytes(geometry.tokens()) as f64;
        let counted = if weights + cache > values { weights + cache } else { values };

        memory::reset_peak();
        let memory_before_bytes = memory::resident();
        let mut bed = Bed::new(self.common.device.open()?, recording, geometry)?;
        bed.pass()?;
        bed.check()?;
        let times: Vec<Duration> = (0..self.common.repetitions).map(|_| bed.pass()).collect::<Result<_>>()?;
        let (device, planned) = (bed.device().to_owned(), bed.planned);
        let peak_memory_bytes = memory::peak();
        drop(bed);
        let memory = MemoryUse {
            memory_before_bytes,
            peak_memory_bytes,
            memory_after_bytes: memory::resident(),
            planned_memory_bytes: planned.weights + planned.cache + planned.scratch,
            scratch_bytes: planned.scratch,
        };
        let samples_us: Vec<f64> =
            times.iter().map(|time| time.as_secs_f64() * 1e6 / copies as f64).collect();
        let us = median(&samples_us);
        let per_ns = |amount: f64| amount / copies as f64 / (us * 1e3);
        let read_gbps = self.read_bandwidth.map(|bandwidth| bandwidth / 1e9);
        Ok(Measurement {
            us,
            stddev_us: deviation(&samples_us),
            samples_us,
            weights_per_ns: per_ns(products),
            gbps: per_ns(counted),
            roofline_share: read_gbps.map(|read| per_ns(counted) / read),
            read_gbps,
            bytes: counted / copies as f64,
            copies,
            rotated_bytes: weights + cache,
            memory,
            device,
            threads: self.common.device.threads(),
            machine: self.machine.clone(),
            commit: machine::COMMIT,
        })
    }
}

/// What all operations of a recording use in one step.
fn used(recording: &Recording, geometry: Geometry) -> Traffic {
    let step = StepShape { tokens: geometry.tokens(), outputs: 0, attended: geometry.attended() };
    Traffic::of_step(&recording.clone().finish().0, &step)
}

/// Prints what was measured: as JSON one object if it is one measurement.
fn print(format: Format, records: &[Record], columns: &[Column]) -> Result<()> {
    match (format, records) {
        (Format::Json, [record]) => output::print_one(record),
        _ => output::print(format, records, columns),
    }
}

/// Checks that a codebook has codes of so many bits.
///
/// # Errors
/// Wrong usage, if it has not.
fn allowed(codebook: Codebook, bits: Bits) -> Result<()> {
    require(codebook.allows(bits), || exl3::Error::CodebookBits { codebook, bits }.to_string())
}

/// Checks that sizes fit together.
///
/// # Errors
/// Wrong usage, if they do not.
fn require(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Usage(what()).into()) }
}
