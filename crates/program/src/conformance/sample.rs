//! Small random models: whole programs to run, in which every operation and storage occurs.

use exl3::{Bits, Codebook};

use crate::builder::{ExpertsSpec, GluNames, LinearSpec};
use crate::random;
use crate::{
    Activation, Builder, CacheId, CacheSpec, Catalogue, Device, Dtype, Format, Gates, Gqa, Heads, HostTensor,
    Kind, Life, Mla, ModelSpec, Pairing, Part, Result, Rope, Routing, Score, Storage, Val, WeightId,
};

/// A small random model.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its one program and its weights.
    pub spec: ModelSpec,
    /// Each part of each weight.
    pub weights: Vec<(WeightId, u32, HostTensor)>,
}

/// Which of the two.
#[derive(Clone, Copy, Debug)]
pub enum Architecture {
    /// Two layers of grouped-query attention with a norm for each head, biases and tied embeddings.
    Dense,
    /// Three layers of latent attention, the last two with experts that are chosen by this score.
    Experts(Score),
}

/// Rows of the samples' embedding tables, and columns of their logits.
pub const VOCAB: u32 = 97;

/// How many of the ids the samples' tokenizer would know.
pub const KNOWN: u32 = 90;

impl Sample {
    /// The model with caches of this format.
    ///
    /// # Errors
    /// None in practice: what is recorded fits together.
    pub fn new(architecture: Architecture, format: Format) -> Result<Sample> {
        let mut builder = Builder::new(&Mixture);
        match architecture {
            Architecture::Dense => dense(&mut builder, format)?,
            Architecture::Experts(score) => experts(&mut builder, format, score)?,
        }
        builder.program(&[]);
        let spec = builder.finish();
        let mut weights = Vec::new();
        for (id, weight) in (0..).zip(&spec.weights) {
            for (index, part) in (0..).zip(&weight.parts) {
                let seed = hash(&part.name);
                weights.push((WeightId(id), index, random::tensor(weight.kind, part.storage, seed)));
            }
        }
        Ok(Sample { spec, weights })
    }

    /// Uploads all weights.
    ///
    /// # Errors
    /// The device's.
    pub fn upload(&self, device: &mut dyn Device) -> Result<()> {
        self.weights.iter().try_for_each(|(id, part, tensor)| device.upload(*id, *part, tensor.clone()))
    }
}

/// Stores every linear map in another way, chosen by its name.
struct Mixture;

impl Catalogue for Mixture {
    fn storage(&self, name: &str, kind: Kind) -> Result<Storage> {
        let exl3 = |half_bits, codebook| match Bits::from_half_bits(half_bits) {
            Some(bits) => Storage::Exl3 { bits, codebook },
            None => Storage::Dense(Dtype::F32),
        };
        Ok(match kind {
            Kind::Vector { .. } => Storage::Dense(Dtype::F32),
            Kind::Table { .. } if name == "coded_table" => Storage::Exl3Table { bits: Bits::ALL[6] },
            Kind::Plain { .. } | Kind::Table { .. } => Storage::Dense(Dtype::F16),
            Kind::Linear { .. } if name.ends_with("router") => Storage::Dense(Dtype::F32),
            Kind::Linear { .. } => match hash(name) % 6 {
                0 => exl3(8, Codebook::Mul1),
                1 => exl3(7, Codebook::Mul1),
                2 => exl3(6, Codebook::ThreeInst),
                3 => exl3(10, Codebook::Mcg),
                4 => Storage::Dense(Dtype::Bf16),
                _ => exl3(12, Codebook::Mul1),
            },
        })
    }

    fn has(&self, _: &str) -> bool {
        true
    }
}

fn hash(name: &str) -> u64 {
    name.bytes().fold(7, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

const EPS: f32 = 1e-5;
const ACT: Activation = Activation::Silu;

fn rope(rotary: u32, pairing: Pairing) -> Rope {
    let frequency = |pair: u32| 10_000_f32.powf(-2.0 * pair as f32 / rotary as f32);
    Rope { inverse_frequencies: (0..rotary / 2).map(frequency).collect(), gain: 1.0, pairing }
}

fn linear(name: String, out: u32, bias: bool) -> LinearSpec {
    LinearSpec { name, out, bias }
}

fn cache(builder: &mut Builder<'_>, first: (u32, Format), second: (u32, Format)) -> CacheId {
    let parts = [first, second].map(|(cols, format)| Part { cols, format }).to_vec();
    builder.cache(CacheSpec { life: Life::PerToken, parts })
}

fn dense(builder: &mut Builder<'_>, format: Format) -> Result<()> {
    const HIDDEN: u32 = 96;
    let shape = Gqa { heads: 4, kv_heads: 2, key_dims: 32, value_dims: 32, scale: 32f32.sqrt().recip() };
    let rope = rope(24, Pairing::HalfSplit);
    let mut stream = builder.embed("table", VOCAB, HIDDEN)?;
    let mut delta = None;
    for layer in 0..2 {
        let name = |part: &str| format!("{layer}.{part}");
        let x = next_norm(builder, (&mut stream, delta), &name("input_norm"))?;
        let [q, k, v] = builder.linears(
            x,
            [linear(name("q"), 128, true), linear(name("k"), 64, true), linear(name("v"), 64, true)],
        )?;
        let q = builder.rms_norm(q, &name("q_norm"), 32, EPS)?;
        let k = builder.rms_norm(k, &name("k_norm"), 32, EPS)?;
        let heads = |count| Heads { count, dims: 32, first: 0, rotary: 24 };
        let q = builder.rope(q, heads(4), &rope)?;
        let k = builder.rope(k, heads(2), &rope)?;
        let cache = cache(builder, (64, format), (64, format));
        builder.cache_write(k, cache, 0)?;
        builder.cache_write(v, cache, 1)?;
        let context = builder.attend(q, cache, shape)?;
        let attended = builder.linear(context, &name("o"), HIDDEN)?;
        let x = next_norm(builder, (&mut stream, Some(attended)), &name("output_norm"))?;
        delta = Some(glu(builder, x, &name("mlp"), 160)?);
    }
    head(builder, (stream, delta), "table")
}

fn experts(builder: &mut Builder<'_>, format: Format, score: Score) -> Result<()> {
    const HIDDEN: u32 = 160;
    let shape = Mla { heads: 3, nope: 24, rotary: 16, value: 40, rank: 64, scale: 40f32.sqrt().recip() };
    let rope = rope(16, Pairing::Interleaved);
    let mut stream = builder.embed("coded_table", VOCAB, HIDDEN)?;
    let mut delta = None;
    for layer in 0..3 {
        let name = |part: &str| format!("{layer}.{part}");
        let x = next_norm(builder, (&mut stream, delta), &name("input_norm"))?;
        let [q, kv] =
            builder.linears(x, [linear(name("q_a"), 48, false), linear(name("kv_a"), 80, false)])?;
        let q = builder.rms_norm(q, &name("q_norm"), 48, 1e-6)?;
        let q = builder.linear(q, &name("q_b"), 120)?;
        let q = builder.rope(q, Heads { count: 3, dims: 40, first: 24, rotary: 16 }, &rope)?;
        let latent = builder.rms_norm(kv.cols(0, 64), &name("kv_norm"), 64, 1e-6)?;
        let key = builder.rope(kv.cols(64, 16), Heads { count: 1, dims: 16, first: 0, rotary: 16 }, &rope)?;
        let cache = cache(builder, (64, format), (16, Format::F16));
        builder.cache_write(latent, cache, 0)?;
        builder.cache_write(key, cache, 1)?;
        let context = builder.attend_mla(q, cache, &name("kv_b"), shape)?;
        let attended = builder.linear(context, &name("o"), HIDDEN)?;
        let x = next_norm(builder, (&mut stream, Some(attended)), &name("output_norm"))?;
        delta = Some(match layer {
            0 => glu(builder, x, &name("mlp"), 192)?,
            _ => mixture(builder, x, layer, score)?,
        });
    }
    head(builder, (stream, delta), "head")
}

fn mixture(builder: &mut Builder<'_>, x: Val, layer: u32, score: Score) -> Result<Val> {
    const EXPERTS: u32 = 6;
    let names = |unit: String| GluNames {
        gate: format!("{layer}.{unit}.gate"),
        up: format!("{layer}.{unit}.up"),
        down: format!("{layer}.{unit}.down"),
    };
    let score = match score {
        Score::Hash { .. } => Score::Hash { layer },
        other => other,
    };
    let gates = Gates::Normalised { epsilon: 1e-20 };
    let how = Routing { experts: EXPERTS, top_k: 2, groups: None, score, gates, scale: 1.8 };
    let logits = builder.router(x, &format!("{layer}.router"), EXPERTS)?;
    let routed = builder.route(logits, Some(&format!("{layer}.router_bias")), how)?;
    let spec = ExpertsSpec {
        experts: (0..EXPERTS).map(|expert| names(format!("experts.{expert}"))).collect(),
        width: 96,
        shared: Some((names("shared".into()), 128)),
        act: ACT,
    };
    builder.experts(x, routed, &spec)
}

fn glu(builder: &mut Builder<'_>, x: Val, name: &str, width: u32) -> Result<Val> {
    let wide = |which: &str| linear(format!("{name}.{which}"), width, false);
    let [gate, up] = builder.linears(x, [wide("gate"), wide("up")])?;
    let product = builder.act_mul(gate, up, ACT)?;
    builder.linear(product, &format!("{name}.down"), x.cols)
}

/// Adds what the layer before gave, if there was one, to the stream, and norms the sum.
fn next_norm(builder: &mut Builder<'_>, (stream, delta): (&mut Val, Option<Val>), name: &str) -> Result<Val> {
    match delta {
        Some(delta) => {
            let (sum, out) = builder.add_rms_norm(*stream, delta, name, EPS)?;
            *stream = sum;
            Ok(out)
        }
        None => builder.rms_norm(*stream, name, stream.cols, EPS),
    }
}

fn head(builder: &mut Builder<'_>, (mut stream, delta): (Val, Option<Val>), name: &str) -> Result<()> {
    let x = next_norm(builder, (&mut stream, delta), "norm")?;
    let x = builder.outputs(x);
    let logits = builder.head(x, name, VOCAB)?;
    builder.answer(logits, KNOWN)
}
