//! `bench MODEL`: how fast prompts are read and answers written.

mod stage;
mod trial;

use anyhow::{Result, ensure};
use clap::Args;
use engine::Limits;
use engine::engine::CHUNK;
use model::Model;
use serde::Serialize;

use self::stage::Stage;
use self::trial::{Kind, Trial};
use super::bars::BarsArgs;
use super::output::{self, Column, Format, megabytes, number, percent, text};
use super::statistics::{deviation, mean};
use crate::commands::Verdict;
use crate::model_args::{self, CacheArgs, DeviceArgs, ModelArgs};
use crate::profile::ProfileArgs;
use crate::report::{Usage, note};
use crate::{machine, memory};

/// Which model, and which tests.
#[derive(Debug, Args)]
pub(super) struct WholeArgs {
    #[command(flatten)]
    model: ModelArgs,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    cache: CacheArgs,

    /// Tokens of the prompts that are read; 0 is no such test
    #[arg(long, short = 'p', value_name = "LIST", value_delimiter = ',', default_value = "512")]
    n_prompt: Vec<u32>,

    /// Tokens of the answers that are written; 0 is no such test
    #[arg(long, short = 'n', value_name = "LIST", value_delimiter = ',', default_value = "128")]
    n_gen: Vec<u32>,

    /// Tokens that are remembered before
    #[arg(long, short = 'd', value_name = "LIST", value_delimiter = ',', default_value = "0")]
    n_depth: Vec<u32>,

    /// Sequences that answers are written for at once
    #[arg(long, short = 'b', value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: Vec<u32>,

    /// How often each test is timed, after once that is not
    #[arg(long, short, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,

    /// Rows of a prompt that go through the device at once
    #[arg(long, value_name = "N", default_value_t = CHUNK, value_parser = clap::value_parser!(u32).range(1..))]
    chunk: u32,

    /// Time from the first run on
    #[arg(long)]
    no_warmup: bool,

    #[command(flatten)]
    profile: ProfileArgs,

    #[command(flatten)]
    bars: BarsArgs,

    /// How results are printed
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Format::Md)]
    output: Format,
}

/// One test of one model on one machine.
#[derive(Serialize)]
struct Measurement {
    test: String,
    model: String,
    architecture: String,
    /// Bits a weight and codebook of a model made up; of a checkpoint `inspect` tells them tensor by tensor.
    bits: Option<f32>,
    codebook: Option<&'static str>,
    layers: u32,
    /// Experts of a layer that have numbers of their own, if not all: then less memory is read than is counted.
    distinct_experts: Option<u32>,
    parameters: u64,
    weight_bytes: u64,
    n_prompt: u32,
    n_gen: u32,
    n_depth: u32,
    batch: u32,
    chunk: u32,
    kv_cache: String,
    device: String,
    threads: usize,
    machine: String,
    commit: &'static str,
    version: &'static str,
    /// Tokens a second of all sequences together, the mean over the samples.
    avg_ts: f64,
    /// Their standard deviation.
    stddev_ts: f64,
    samples_ts: Vec<f64>,
    /// Bytes of weights and cache that a token has to read; rows of a step share the weights.
    bytes_per_token: f64,
    /// Bytes a second that this machine reads from memory with as many threads.
    read_bandwidth: Option<f64>,
    /// Bytes a token times tokens a second, as a share of that.
    roofline_share: Option<f64>,
    /// Products of a weight and a row in a nanosecond.
    weights_per_ns: f64,
    planned_memory_bytes: u64,
    peak_memory_bytes: Option<u64>,
}

const COLUMNS: [Column; 9] = [
    ("model", |record| text(record, "model")),
    ("device", |record| text(record, "device")),
    ("test", |record| text(record, "test")),
    ("tokens/s", |record| format!("{} ± {}", number(record, "avg_ts", 2), number(record, "stddev_ts", 2))),
    ("MB a token", |record| megabytes(record, "bytes_per_token")),
    ("roofline", |record| percent(record, "roofline_share")),
    ("weights/ns", |record| number(record, "weights_per_ns", 2)),
    ("planned MB", |record| megabytes(record, "planned_memory_bytes")),
    ("peak MB", |record| megabytes(record, "peak_memory_bytes")),
];

/// Runs the tests.
pub(super) fn run(args: &WholeArgs) -> Result<Verdict> {
    let trials = Trial::all(&args.n_prompt, &args.n_gen, &args.n_depth, &args.batch);
    if trials.is_empty() {
        return Err(Usage("neither -p nor -n leaves a test to run".into()).into());
    }
    let bars = args.bars.parse(&trials.iter().map(Trial::to_string).collect::<Vec<_>>())?;
    let profile = args.profile.start();
    let model = args.model.open(args.cache.kv_cache_dtype)?;
    let limits = stage::limits(&trials, args.chunk);
    let context = model.facts.context;
    ensure!(
        limits.context <= context,
        "the model was made for {context} tokens of context, a test needs {}",
        limits.context
    );
    let device = profile.watch(&model, args.device.open()?)?;
    let planned = memory::plan(&model, &*device, &limits)?.total;
    memory::require(planned, "a shorter -p, -n or -d, a smaller --batch or fewer --layers take less")?;
    let engine = model_args::start(&model, device, limits)?;
    let mut stage = Stage::new(engine, &model)?;
    let mut measurements = Vec::new();
    for trial in &trials {
        let samples_ts = args.samples(&mut stage, trial)?;
        let measurement = args.measurement(&model, &stage, (trial, &limits), samples_ts);
        measurements.push(Measurement { planned_memory_bytes: planned, ..measurement });
    }
    // Only now, since what it reads would count as memory of the model.
    drop(stage);
    let read_bandwidth = args.device.read_bandwidth();
    let mut records = Vec::new();
    for measurement in measurements {
        let roofline_share =
            read_bandwidth.map(|read| measurement.bytes_per_token * measurement.avg_ts / read);
        records.push(output::record(&Measurement { read_bandwidth, roofline_share, ..measurement })?);
    }
    output::print(args.output, &records, &COLUMNS)?;
    profile.finish()?;
    bars.verdict(&records)
}

impl WholeArgs {
    /// Tokens a second of each repetition.
    fn samples(&self, stage: &mut Stage, trial: &Trial) -> Result<Vec<f64>> {
        note(&format!("{trial}: {} times", self.repetitions));
        stage.set_depth(trial)?;
        if !self.no_warmup {
            let kind = match trial.kind {
                Kind::Answer(_) => Kind::Answer(1),
                prompt @ Kind::Prompt(_) => prompt,
            };
            stage.run(&Trial { kind, ..*trial })?;
        }
        let sample = |_| Ok(f64::from(trial.tokens()) / stage.run(trial)?.as_secs_f64());
        (0..self.repetitions).map(sample).collect()
    }

    fn measurement(
        &self,
        model: &Model,
        stage: &Stage,
        (trial, limits): (&Trial, &Limits),
        samples_ts: Vec<f64>,
    ) -> Measurement {
        let traffic = stage::traffic(&model.spec, trial, limits.chunk);
        let (tokens, avg_ts) = (f64::from(trial.tokens()), mean(&samples_ts));
        let (n_prompt, n_gen) = match trial.kind {
            Kind::Prompt(length) => (length, 0),
            Kind::Answer(length) => (0, length),
        };
        let made_up = self.model.made_up();
        Measurement {
            test: trial.to_string(),
            model: self.model.name(),
            architecture: model.facts.architecture.clone(),
            bits: made_up.map(|(bits, _)| bits.as_f32()),
            codebook: made_up.map(|(_, codebook)| codebook.name()),
            layers: model.facts.layers,
            distinct_experts: self.model.distinct_experts(),
            parameters: model.spec.parameters(),
            weight_bytes: model.weight_bytes(),
            n_prompt,
            n_gen,
            n_depth: trial.depth,
            batch: trial.batch,
            chunk: limits.chunk,
            kv_cache: self.cache.kv_cache_dtype.to_string(),
            device: stage.device().to_owned(),
            threads: self.device.threads(),
            machine: machine::name(),
            commit: machine::COMMIT,
            version: env!("CARGO_PKG_VERSION"),
            avg_ts,
            stddev_ts: deviation(&samples_ts),
            samples_ts,
            bytes_per_token: traffic.bytes() / tokens,
            read_bandwidth: None,
            roofline_share: None,
            weights_per_ns: traffic.products / tokens * avg_ts / 1e9,
            planned_memory_bytes: 0,
            peak_memory_bytes: memory::peak(),
        }
    }
}
