//! The kernels: which there are, and what is constant in each.
//!
//! A file of `kernels/` is one kernel; what varies between its uses without changing from step to step (formats, widths,
//! dims of heads) are macros, so that each use is compiled by itself.

use exl3::{Bits, Codebook};
use program::{Dtype, Pairing};

/// One kernel with its constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    Embed(Dtype),
    EmbedCodes(Bits),
    RmsNorm,
    AddRmsNorm,
    Linear { dtype: Dtype, input: LinearInput },
    LinearCodes { bits: Bits, codebook: Codebook, rows: u32 },
    GemvCodes { bits: Bits, codebook: Codebook, rows: u32, input: LinearInput },
    Rope(Pairing),
    CacheWrite,
    Heads,
    MlaAbsorb { nope: u32, rotary: u32, value: u32, rank: u32, up: Dtype },
    Attention(Attention),
    Combine { dims: u32 },
    CombineLatent { rank: u32, out: u32, up: Dtype },
    Route(RouteScore),
    Elementwise(Elementwise),
    ExpertsSum,
    Answer,
}

/// What the inputs of a linear map are; of many rows they are always plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LinearInput {
    Plain,
    /// `silu(x) * second`.
    ActMul,
    /// `x * weight / sqrt(mean(x^2) + eps)`.
    RmsNorm,
}

/// The constants of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attention {
    /// Heads that meet the same keys in one block of threads.
    pub(crate) group: u32,
    pub(crate) key_dims: u32,
    pub(crate) value_dims: u32,
    /// Numbers a row of each part of the cache.
    pub(crate) cols: [u32; 2],
    /// Whether the value is the latent, which is part of the key.
    pub(crate) latent: bool,
    /// Places that are looked at in one go.
    pub(crate) tile: u32,
}

/// What a router's logits are turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RouteScore {
    Softmax,
    Sigmoid,
    Hash,
}

/// What is done number by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Elementwise {
    ActMul,
    Add,
    Outputs,
}

/// Rows that [`Kernel::GemvCodes`] takes.
pub(crate) const GEMV_ROWS: u32 = 4;

/// Bytes of shared memory that [`Kernel::GemvCodes`] has codes and inputs in, for parts of `blocks` times 128 inputs.
pub(crate) fn gemv_shared(bits: Bits, codebook: Codebook, blocks: u32, rows: u32) -> u32 {
    let stages = if bits.half_bits() > 8 { 4 } else { 6 };
    let ring = stages * 8 * 8 * bits.tile_bytes() as u32;
    let columns = if codebook == Codebook::Mul1 { 2 * rows } else { rows };
    ring + blocks * 8 * 4 * columns * 16
}

impl Attention {
    /// Bytes of shared memory that the compiler does not know of: queries, keys, values and weights as halves.
    pub(crate) fn shared(&self) -> u32 {
        let padded = |dims: u32| dims.next_multiple_of(16);
        let (heads, key_stride) = (padded(self.group), padded(self.key_dims) + 8);
        let values = if self.latent { 0 } else { self.tile * (padded(self.value_dims) + 8) };
        2 * (heads * key_stride + self.tile * key_stride + values + heads * (self.tile + 8))
    }

    /// Bytes of shared memory in all.
    pub(crate) fn all_shared(&self) -> u32 {
        let heads = self.group.next_multiple_of(16);
        self.shared() + heads * (self.tile + 1 + 3) * 4
    }
}

impl Kernel {
    /// The file's name without its ending, and the kernel's.
    pub(crate) fn file(&self) -> &'static str {
        match self {
            Kernel::Embed(_) => "embed",
            Kernel::EmbedCodes(_) => "embed_codes",
            Kernel::RmsNorm | Kernel::AddRmsNorm => "rms_norm",
            Kernel::Linear { .. } => "linear",
            Kernel::LinearCodes { .. } => "linear_codes",
            Kernel::GemvCodes { .. } => "gemv_codes",
            Kernel::Rope(_) => "rope",
            Kernel::CacheWrite => "cache_write",
            Kernel::Heads => "heads",
            Kernel::MlaAbsorb { .. } => "mla_absorb",
            Kernel::Attention(_) => "attention",
            Kernel::Combine { .. } | Kernel::CombineLatent { .. } => "attention_combine",
            Kernel::Route(_) => "route",
            Kernel::Elementwise(_) => "elementwise",
            Kernel::ExpertsSum => "experts_sum",
            Kernel::Answer => "answer",
        }
    }

    /// The whole text that is compiled, but for its constants.
    pub(crate) fn source(&self) -> String {
        let prelude = include_str!("kernels/prelude.cu");
        let text = match self {
            Kernel::Embed(_) => include_str!("kernels/embed.cu"),
            Kernel::EmbedCodes(_) => include_str!("kernels/embed_codes.cu"),
            Kernel::RmsNorm | Kernel::AddRmsNorm => include_str!("kernels/rms_norm.cu"),
            Kernel::Linear { .. } => {
                concat!(include_str!("kernels/matrix.cu"), include_str!("kernels/linear.cu"))
            }
            Kernel::LinearCodes { .. } => {
                concat!(include_str!("kernels/matrix.cu"), include_str!("kernels/linear_codes.cu"))
            }
            Kernel::GemvCodes { .. } => {
                concat!(include_str!("kernels/matrix.cu"), include_str!("kernels/gemv_codes.cu"))
            }
            Kernel::Rope(_) => include_str!("kernels/rope.cu"),
            Kernel::CacheWrite => include_str!("kernels/cache_write.cu"),
            Kernel::Heads => include_str!("kernels/heads.cu"),
            Kernel::MlaAbsorb { .. } => include_str!("kernels/mla_absorb.cu"),
            Kernel::Attention(_) => include_str!("kernels/attention.cu"),
            Kernel::Combine { .. } | Kernel::CombineLatent { .. } => {
                include_str!("kernels/attention_combine.cu")
            }
            Kernel::Route(_) => include_str!("kernels/route.cu"),
            Kernel::Elementwise(_) => include_str!("kernels/elementwise.cu"),
            Kernel::ExpertsSum => include_str!("kernels/experts_sum.cu"),
            Kernel::Answer => include_str!("kernels/answer.cu"),
        };
        [prelude, text].concat()
    }

    /// The compiler's flags, constants included, for `arch` (compute capability times ten).
    pub(crate) fn flags(&self, arch: u32) -> Vec<String> {
        let mut flags =
            vec![format!("--gpu-architecture=sm_{arch}"), "--std=c++17".into(), format!("-DARCH={arch}")];
        flags.extend(self.constants().into_iter().map(|(name, value)| format!("-D{name}={value}")));
        flags
    }

    fn constants(&self) -> Vec<(&'static str, u32)> {
        match *self {
            Kernel::Embed(dtype) => vec![("FORMAT", format_number(dtype))],
            Kernel::Linear { dtype, input } => {
                vec![("FORMAT", format_number(dtype)), ("INPUT", input as u32)]
            }
            Kernel::EmbedCodes(bits) => vec![("BITS", u32::from(bits.half_bits()) / 2)],
            Kernel::RmsNorm => vec![("ADD", 0)],
            Kernel::AddRmsNorm => vec![("ADD", 1)],
            Kernel::LinearCodes { bits, codebook, rows } => vec![
                ("HALF_BITS", u32::from(bits.half_bits())),
                ("CODEBOOK", codebook_number(codebook)),
                ("ROWS", rows),
            ],
            Kernel::GemvCodes { bits, codebook, rows, input } => vec![
                ("HALF_BITS", u32::from(bits.half_bits())),
                ("CODEBOOK", codebook_number(codebook)),
                ("ROWS", rows),
                ("INPUT", input as u32),
            ],
            Kernel::Rope(pairing) => vec![("INTERLEAVED", u32::from(pairing == Pairing::Interleaved))],
            Kernel::MlaAbsorb { nope, rotary, value, rank, up } => vec![
                ("NOPE", nope),
                ("ROTARY", rotary),
                ("VALUE", value),
                ("RANK", rank),
                ("FORMAT", format_number(up)),
            ],
            Kernel::Attention(Attention {
                group,
                key_dims,
                value_dims,
                cols: [first, second],
                latent,
                tile,
            }) => vec![
                ("GROUP", group),
                ("KEY_DIMS", key_dims),
                ("VALUE_DIMS", value_dims),
                ("FIRST_COLS", first),
                ("SECOND_COLS", second),
                ("LATENT", u32::from(latent)),
                ("TILE", tile),
            ],
            Kernel::Combine { dims } => vec![("LATENT", 0), ("VALUE_DIMS", dims)],
            Kernel::CombineLatent { rank, out, up } => {
                vec![("LATENT", 1), ("VALUE_DIMS", rank), ("OUT", out), ("FORMAT", format_number(up))]
            }
            Kernel::Route(score) => vec![("SCORE", score as u32)],
            Kernel::Elementwise(kind) => vec![("KIND", kind as u32)],
            Kernel::CacheWrite | Kernel::Heads | Kernel::ExpertsSum | Kernel::Answer => vec![],
        }
    }
}

fn format_number(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F32 => 0,
        Dtype::F16 => 1,
        Dtype::Bf16 => 2,
    }
}

fn codebook_number(codebook: Codebook) -> u32 {
    match codebook {
        Codebook::ThreeInst => 0,
        Codebook::Mcg => 1,
        Codebook::Mul1 => 2,
    }
}
