//! `bench kernel attend` and `bench kernel attend-mla`.

use anyhow::Result;
use clap::Args;
use program::{CacheId, Dtype, Format, Gqa, Kind, Mla, Op, Part, Role, Storage, Val};
use serde::Serialize;

use super::{Common, Fill, Geometry, Measurement, Recording, Stopwatch};
use crate::commands::bench::output::{self, Column, number, percent, text};
use crate::model_args::CacheArgs;

/// The steps that attention is timed in. Lists give every combination.
#[derive(Debug, Args)]
struct Steps {
    /// Rows of each sequence
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    rows: Vec<u32>,

    /// Tokens of each sequence that are cached before
    #[arg(long, short, value_name = "LIST", value_delimiter = ',', default_value = "512", value_parser = clap::value_parser!(u32).range(..=1_048_576))]
    depth: Vec<u32>,

    /// Sequences
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: Vec<u32>,
}

/// Times attention of query heads over cached keys and values.
#[derive(Debug, Args)]
pub(super) struct AttendArgs {
    /// Query heads
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    heads: u32,

    /// Key and value heads; divides the query heads
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    kv_heads: u32,

    /// Columns of a head
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    dims: u32,

    #[command(flatten)]
    cache: CacheArgs,

    #[command(flatten)]
    steps: Steps,

    #[command(flatten)]
    common: Common,
}

/// Times latent attention: keys and values of all heads are made of one cached latent. The defaults are
/// GLM-4.7-Flash's.
#[derive(Debug, Args)]
pub(super) struct AttendMlaArgs {
    /// Query heads
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1024))]
    heads: u32,

    /// Dims of a head that meet a key made from the latent
    #[arg(long, value_name = "N", default_value_t = 192, value_parser = clap::value_parser!(u32).range(1..=4096))]
    nope: u32,

    /// Dims of a head that meet the rotary key
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    rotary: u32,

    /// Columns of a value head
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    value: u32,

    /// Columns of the latent
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    rank: u32,

    #[command(flatten)]
    cache: CacheArgs,

    #[command(flatten)]
    steps: Steps,

    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Row {
    test: &'static str,
    heads: u32,
    rows: u32,
    depth: u32,
    batch: u32,
    kv_cache: String,
    #[serde(flatten)]
    measurement: Measurement,
}

const COLUMNS: [Column; 9] = [
    ("test", |record| text(record, "test")),
    ("heads", |record| number(record, "heads", 0)),
    ("cache", |record| text(record, "kv_cache")),
    ("batch", |record| number(record, "batch", 0)),
    ("rows", |record| number(record, "rows", 0)),
    ("depth", |record| number(record, "depth", 0)),
    ("us", |record| number(record, "us", 1)),
    ("GB/s", |record| number(record, "gbps", 2)),
    ("roofline", |record| percent(record, "roofline_share")),
];

/// A cache that attention goes over, and what it writes down for one copy of it.
struct Attention<'a> {
    test: &'static str,
    heads: u32,
    /// Columns of the queries.
    query: u32,
    /// The parts of a cached row.
    parts: [Part; 2],
    /// Writes the operation down, from its queries and its cache.
    record: &'a dyn Fn(&mut Recording, Val, CacheId),
}

/// Runs `attend`.
pub(super) fn attend(args: &AttendArgs) -> Result<()> {
    let AttendArgs { heads, kv_heads, dims, .. } = *args;
    super::require(kv_heads <= heads && heads.is_multiple_of(kv_heads), || {
        format!("{kv_heads} key heads do not divide {heads} query heads")
    })?;
    let scale = (dims as f32).sqrt().recip();
    let shape = Gqa { heads, kv_heads, key_dims: dims, value_dims: dims, scale };
    let part = Part { cols: kv_heads * dims, format: args.cache.kv_cache_dtype };
    let record = |recording: &mut Recording, q, cache| {
        let out = recording.value(heads * dims, Role::Activation);
        recording.op(Op::Attend { q, cache, shape, out });
    };
    let attention =
        Attention { test: "attend", heads, query: heads * dims, parts: [part, part], record: &record };
    attention.run(&args.steps, &args.common)
}

/// Runs `attend-mla`.
pub(super) fn attend_mla(args: &AttendMlaArgs) -> Result<()> {
    let AttendMlaArgs { heads, nope, rotary, value, rank, .. } = *args;
    let scale = ((nope + rotary) as f32).sqrt().recip();
    let shape = Mla { heads, nope, rotary, value, rank, scale };
    let parts =
        [Part { cols: rank, format: args.cache.kv_cache_dtype }, Part { cols: rotary, format: Format::F16 }];
    let record = |recording: &mut Recording, q, cache| {
        let kind = Kind::Plain { out: heads * (nope + value), inputs: rank };
        let up = recording.weight(kind, Storage::Dense(Dtype::F16), 1);
        let out = recording.value(heads * value, Role::Activation);
        recording.op(Op::AttendMla { q, cache, up, shape, out });
    };
    let query = heads * (nope + rotary);
    let attention = Attention { test: "attend_mla", heads, query, parts, record: &record };
    attention.run(&args.steps, &args.common)
}

impl Attention<'_> {
    fn run(&self, steps: &Steps, common: &Common) -> Result<()> {
        let format = self.parts[0].format;
        let group = exl3::kv::GROUP as u32;
        super::require(format == Format::F16 || self.parts[0].cols.is_multiple_of(group), || {
            format!(
                "rows of {} numbers are no multiple of {group} and cannot be quantised",
                self.parts[0].cols
            )
        })?;
        let stopwatch = Stopwatch::new(common);
        let mut records = Vec::new();
        for batch in steps.batch.iter().copied() {
            for rows in steps.rows.iter().copied() {
                for depth in steps.depth.iter().copied() {
                    let mut recording = Recording::default();
                    let q = recording.input(self.query, Role::Activation, Fill::Normal);
                    let geometry = Geometry { sequences: batch, rows, depth };
                    let measurement = stopwatch.measure(geometry, recording, &mut |recording| {
                        let cache = recording.cache(self.parts.to_vec());
                        (self.record)(recording, q, cache);
                    })?;
                    let Attention { test, heads, .. } = *self;
                    let kv_cache = format.to_string();
                    let row = Row { test, heads, rows, depth, batch, kv_cache, measurement };
                    records.push(output::record(&row)?);
                }
            }
        }
        super::print(common.output, &records, &COLUMNS)
    }
}
