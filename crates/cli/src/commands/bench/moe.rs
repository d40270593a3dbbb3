//! `bench moe`: a layer of experts alone, over batch sizes, with its memory.

use anyhow::Result;
use clap::Args;
use program::{Kind, Storage};
use serde::Serialize;
use serde_json::Value;

use super::bars::{self, over_budget};
use super::kernel::{Choice, Common, Layer, LayerArgs, Measurement, Stopwatch};
use super::output::{self, Column, Record, number, percent, text};
use crate::commands::Verdict;
use crate::memory;
use crate::traffic::distinct_experts;

/// Times a layer of experts alone: one user's token, one token of each of many users, a prompt. Every row chooses
/// its experts at random, others in every repetition of the operation.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(super) struct MoeArgs {
    /// How many experts there are and how many a row uses
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64/4")]
    experts: Vec<Choice>,

    #[command(flatten)]
    layer: LayerArgs,

    /// Users that decode a token each
    #[arg(long, short, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_parser = clap::value_parser!(u32).range(..=4096))]
    batch: Vec<u32>,

    /// Rows of a prompt
    #[arg(long, short, value_name = "LIST", value_delimiter = ',', default_value = "128", value_parser = clap::value_parser!(u32).range(..=65_536))]
    prompt: Vec<u32>,

    /// Exit with code 3 if the layer takes longer at any size
    #[arg(long, value_name = "MS")]
    budget_ms: Option<f64>,

    /// Exit with code 3 if the process takes more memory at its peak
    #[arg(long, value_name = "BYTES")]
    budget_bytes: Option<u64>,

    #[command(flatten)]
    common: Common,
}

const NOTES: &str = "\
A size of 0 is left out. Memory is what is resident before the weights are made, at its peak, and after they are gone
again; activations are what the device plans for the values and the work space of a step. The least bytes of a
projection are its weights times their bits, without scales and padding.

Examples:
  billfish bench moe
  billfish bench moe --experts 64/4,128/8,288/8,512/10 --batch 1,8,64 -o json
  billfish bench moe --batch 1 --prompt 0 --budget-ms 5 --budget-bytes 800000000";

/// Who the rows belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum UseCase {
    OneUser,
    ManyUsers,
    Prompt,
}

#[derive(Serialize)]
struct Row {
    test: &'static str,
    use_case: UseCase,
    experts: u32,
    top_k: u32,
    hidden: u32,
    width: u32,
    shared: Option<u32>,
    bits: f32,
    codebook: &'static str,
    rows: u32,
    tokens_per_second: f64,
    /// Experts that a step is expected to use.
    used_experts: f64,
    /// Bytes of all experts' projections, as they are stored.
    gate_bytes: u64,
    up_bytes: u64,
    down_bytes: u64,
    shared_bytes: u64,
    /// The least that all of these could take.
    least_bytes: u64,
    #[serde(flatten)]
    measurement: Measurement,
}

const COLUMNS: [Column; 11] = [
    ("use", |record| text(record, "use_case")),
    ("experts", |record| format!("{}/{}", number(record, "experts", 0), number(record, "top_k", 0))),
    ("rows", |record| number(record, "rows", 0)),
    ("us", |record| number(record, "us", 1)),
    ("tokens/s", |record| number(record, "tokens_per_second", 1)),
    ("weights/ns", |record| number(record, "weights_per_ns", 2)),
    ("roofline", |record| percent(record, "roofline_share")),
    ("MB used", |record| output::megabytes(record, "bytes")),
    ("MB before", |record| output::megabytes(record, "memory_before_bytes")),
    ("MB peak", |record| output::megabytes(record, "peak_memory_bytes")),
    ("MB after", |record| output::megabytes(record, "memory_after_bytes")),
];

/// Runs `moe`.
pub(super) fn run(args: &MoeArgs) -> Result<Verdict> {
    let batches = args.batch.iter().filter(|rows| **rows > 0).map(|rows| match rows {
        1 => (UseCase::OneUser, 1),
        rows => (UseCase::ManyUsers, *rows),
    });
    let prompts = args.prompt.iter().filter(|rows| **rows > 0).map(|rows| (UseCase::Prompt, *rows));
    let sizes: Vec<(UseCase, u32)> = batches.chain(prompts).collect();
    let stopwatch = Stopwatch::new(&args.common);
    let mut records = Vec::new();
    for choice in args.experts.iter().copied() {
        let layer = args.layer.of(choice)?;
        for (use_case, rows) in sizes.iter().copied() {
            let measurement = layer.measure(&stopwatch, rows)?;
            records.push(output::record(&args.row(&layer, (use_case, rows), measurement))?);
        }
    }
    output::print(args.common.output, &records, &COLUMNS)?;
    args.verdict(&records)
}

impl MoeArgs {
    fn row(&self, layer: &Layer, (use_case, rows): (UseCase, u32), measurement: Measurement) -> Row {
        let Layer { experts, top_k, hidden, width, shared, storage } = *layer;
        let stored = |out, inputs, storage: Storage| storage.bytes(Kind::Linear { out, inputs, bias: false });
        let each = u64::from(experts);
        let shared_bytes =
            shared.map_or(0, |width| 2 * stored(width, hidden, storage) + stored(hidden, width, storage));
        let weights = u64::from(hidden) * (u64::from(width) * each + u64::from(shared.unwrap_or(0))) * 3;
        Row {
            test: "moe",
            use_case,
            experts,
            top_k,
            hidden,
            width,
            shared,
            bits: self.layer.bits.as_f32(),
            codebook: self.layer.codebook.name(),
            rows,
            tokens_per_second: f64::from(rows) * 1e6 / measurement.us,
            used_experts: distinct_experts(experts, top_k, rows),
            gate_bytes: each * stored(width, hidden, storage),
            up_bytes: each * stored(width, hidden, storage),
            down_bytes: each * stored(hidden, width, storage),
            shared_bytes,
            least_bytes: weights * u64::from(self.layer.bits.half_bits()) / 16,
            measurement,
        }
    }

    /// Says on stderr which budgets were exceeded.
    fn verdict(&self, records: &[Record]) -> Result<Verdict> {
        let mut missed = Vec::new();
        for record in records {
            let ms = record.get("us").and_then(Value::as_f64).unwrap_or(f64::NAN) / 1e3;
            // A time that is no number keeps no budget.
            if let Some(budget) = self.budget_ms
                && (ms > budget || ms.is_nan())
            {
                let rows = number(record, "rows", 0);
                missed.push(format!("{rows} rows took {ms:.3} ms, the budget is {budget} ms"));
            }
        }
        let peak = records.iter().filter_map(|record| record.get("peak_memory_bytes")?.as_u64()).max();
        missed.extend(over_budget(peak.or_else(memory::peak), self.budget_bytes)?);
        Ok(bars::verdict(&missed))
    }
}
