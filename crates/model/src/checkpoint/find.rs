//! Finds the tensors that make up a weight, and checks names, number formats and shapes.
//!
//! ```text
//! plain numbers         P.weight [out, in], perhaps P.bias [out]
//! EXL3                  P.trellis [in/16, out/16, 16 K], P.suh [in], P.svh [out], perhaps P.mul1 or P.mcg, and
//!                       P.bias [out]; both sides padded to 128; packed signs P.su, P.sv in very old files
//! EXL3 embedding table  P.trellis [vocab, groups (1 + 16 K)], P.signs [groups, 256]
//! ```

use exl3::{Bits, Codebook, hadamard};
use program::{Error, Kind, Result, Storage};
use safetensors::Dtype;

use super::header::Entry;
use super::{Checkpoint, Shard};

/// The tensors of one weight.
pub(super) enum Found<'a> {
    /// Plain numbers.
    Dense { weight: Tensor<'a>, dtype: program::Dtype, bias: Option<Tensor<'a>> },
    /// Trellis codes of a linear map.
    Exl3 {
        module: String,
        trellis: Tensor<'a>,
        input: Scales<'a>,
        output: Scales<'a>,
        bits: Bits,
        codebook: Codebook,
        marker: Option<Tensor<'a>>,
        bias: Option<Tensor<'a>>,
    },
    /// Trellis codes of an embedding table.
    Table { module: String, trellis: Tensor<'a>, signs: Tensor<'a>, bits: Bits },
}

/// One tensor of a file.
pub(super) struct Tensor<'a> {
    pub(super) name: String,
    pub(super) shard: &'a Shard,
    pub(super) entry: &'a Entry,
}

/// The scales of one side of a linear map.
pub(super) enum Scales<'a> {
    /// One number a feature.
    Values(Tensor<'a>),
    /// One bit a feature, as very old files have.
    Signs(Tensor<'a>),
}

/// What may lie beside a trellis. Anything else there changes what the codes mean.
const SIBLINGS: [&str; 12] = [
    "trellis",
    "signs",
    "suh",
    "svh",
    "su",
    "sv",
    "mul1",
    "mcg",
    "bias",
    "weight",
    "scale",
    // The choice bias of a router lies under the router's module.
    "e_score_correction_bias",
];

impl Checkpoint {
    /// Finds a weight.
    pub(super) fn find(&self, name: &str, kind: Kind) -> Result<Found<'_>> {
        if let Kind::Vector { len } = kind {
            return self.dense(name, &[len as usize], None);
        }
        let (rows, cols) = kind.shape();
        let (rows, cols) = (rows as usize, cols as usize);
        if self.entry(&format!("{name}.trellis")).is_some() {
            self.check_siblings(name)?;
            return match kind {
                Kind::Table { .. } => self.table(name, rows, cols),
                _ => self.exl3(name, kind),
            };
        }
        let bias = matches!(kind, Kind::Linear { bias: true, .. }).then(|| format!("{name}.bias"));
        self.dense(&format!("{name}.weight"), &[rows, cols], bias)
    }

    /// The whole names of the tensors of a weight.
    pub(super) fn tensors_of(&self, name: &str, kind: Kind) -> Result<Vec<String>> {
        self.find(name, kind).map(Found::into_names)
    }

    fn dense(&self, name: &str, shape: &[usize], bias: Option<String>) -> Result<Found<'_>> {
        let weight = self.tensor(name)?;
        weight.require_shape(shape)?;
        let bias = bias.map(|name| self.bias(&name, shape[0])).transpose()?;
        Ok(Found::Dense { dtype: weight.float()?, weight, bias })
    }

    fn exl3(&self, module: &str, kind: Kind) -> Result<Found<'_>> {
        let (out, inputs) = kind.shape();
        let inputs = hadamard::padded(inputs as usize);
        let outputs = hadamard::padded(out as usize);
        let trellis = self.tensor(&format!("{module}.trellis"))?;
        trellis.require_dtype(&[Dtype::I16])?;
        let &[_, _, words] = &*trellis.entry.shape else {
            return Err(trellis
                .error(format!("has the shape {:?}, three dimensions are needed", trellis.entry.shape)));
        };
        trellis.require_shape(&[inputs / 16, outputs / 16, words])?;
        let bits = Bits::from_tile_words(words).map_err(|error| trellis.codec_error(&error))?;
        let (codebook, marker) = self.codebook(module)?;
        if !codebook.allows(bits) {
            return Err(trellis.codec_error(&exl3::Error::CodebookBits { codebook, bits }));
        }
        let bias = match kind {
            Kind::Linear { bias: true, .. } => Some(self.bias(&format!("{module}.bias"), outputs)?),
            _ => None,
        };
        Ok(Found::Exl3 {
            module: module.into(),
            trellis,
            input: self.scales(module, ["suh", "su"], inputs)?,
            output: self.scales(module, ["svh", "sv"], outputs)?,
            bits,
            codebook,
            marker,
            bias,
        })
    }

    fn table(&self, module: &str, vocab: usize, hidden: usize) -> Result<Found<'_>> {
        let trellis = self.tensor(&format!("{module}.trellis"))?;
        trellis.require_dtype(&[Dtype::I16])?;
        let &[_, words] = &*trellis.entry.shape else {
            return Err(trellis.error(format!(
                "has the shape {:?}, the two dimensions of an embedding table are needed",
                trellis.entry.shape
            )));
        };
        trellis.require_shape(&[vocab, words])?;
        let signs = self.tensor(&format!("{module}.signs"))?;
        signs.require_dtype(&[Dtype::F16])?;
        let groups = hidden.div_ceil(256);
        signs.require_shape(&[groups, 256])?;
        let bits = (1..=8).filter_map(Bits::whole).find(|bits| groups * (1 + bits.tile_words()) == words);
        let bits = bits.ok_or_else(|| trellis.codec_error(&exl3::Error::EmbeddingRow { words, groups }))?;
        Ok(Found::Table { module: module.into(), trellis, signs, bits })
    }

    /// The codebook that the markers beside a trellis name, checked by their value.
    fn codebook(&self, module: &str) -> Result<(Codebook, Option<Tensor<'_>>)> {
        let mut found = (Codebook::ThreeInst, None);
        for codebook in Codebook::ALL {
            let Some((suffix, value)) = codebook.marker() else { continue };
            let name = format!("{module}.{suffix}");
            if self.entry(&name).is_none() {
                continue;
            }
            let marker = self.tensor(&name)?;
            marker.require_dtype(&[Dtype::I32])?;
            marker.require_shape(&[])?;
            let bytes = marker.bytes();
            if bytes != value.to_le_bytes() {
                let what =
                    format!("is {bytes:02x?}, the marker of an unknown codebook; {value:#010x} is needed");
                return Err(marker.error(what));
            }
            if found.1.is_some() {
                return Err(marker.error("lies beside the marker of another codebook; only one can be right"));
            }
            found = (codebook, Some(marker));
        }
        Ok(found)
    }

    fn scales(&self, module: &str, [values, signs]: [&str; 2], features: usize) -> Result<Scales<'_>> {
        let packed = format!("{module}.{signs}");
        let values = format!("{module}.{values}");
        if self.entry(&values).is_none() && self.entry(&packed).is_some() {
            let signs = self.tensor(&packed)?;
            signs.require_dtype(&[Dtype::I16])?;
            signs.require_shape(&[features / 16])?;
            return Ok(Scales::Signs(signs));
        }
        let values = self.tensor(&values)?;
        values.require_dtype(&[Dtype::F16, Dtype::BF16])?;
        values.require_shape(&[features])?;
        Ok(Scales::Values(values))
    }

    fn bias(&self, name: &str, features: usize) -> Result<Tensor<'_>> {
        let bias = self.tensor(name)?;
        bias.float()?;
        bias.require_shape(&[features])?;
        Ok(bias)
    }

    fn check_siblings(&self, module: &str) -> Result<()> {
        let prefix = format!("{module}.");
        let siblings = self.tensors.range(prefix.clone()..).map_while(|(name, _)| name.strip_prefix(&prefix));
        for suffix in siblings {
            let known = SIBLINGS.contains(&suffix);
            if !known && !suffix.contains('.') {
                let what = "lies beside a trellis and gives its codes a meaning that is not known here (a codebook \
                            of another program?); decoding them without it would give noise";
                return Err(self.tensor(&format!("{prefix}{suffix}"))?.error(what));
            }
        }
        Ok(())
    }

    fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        let Some((shard, entry)) = self.entry(name) else {
            let what = match self.shards.as_slice() {
                [shard] => format!("is missing in {}", shard.file),
                shards => format!("is missing in all {} files", shards.len()),
            };
            return Err(Error::Weight {
                name: name.into(),
                what: format!("{what}, but the architecture needs it"),
            });
        };
        Ok(Tensor { name: name.into(), shard, entry })
    }
}

impl Found<'_> {
    /// How the weight is stored.
    pub(super) fn storage(&self) -> Storage {
        match *self {
            Found::Dense { dtype, .. } => Storage::Dense(dtype),
            Found::Exl3 { bits, codebook, .. } => Storage::Exl3 { bits, codebook },
            Found::Table { bits, .. } => Storage::Exl3Table { bits },
        }
    }

    fn into_names(self) -> Vec<String> {
        let scales = |scales| match scales {
            Scales::Values(tensor) | Scales::Signs(tensor) => tensor,
        };
        let tensors = match self {
            Found::Dense { weight, bias, .. } => vec![Some(weight), bias],
            Found::Exl3 { trellis, input, output, marker, bias, .. } => {
                vec![Some(trellis), Some(scales(input)), Some(scales(output)), marker, bias]
            }
            Found::Table { trellis, signs, .. } => vec![Some(trellis), Some(signs)],
        };
        tensors.into_iter().flatten().map(|tensor| tensor.name).collect()
    }
}

impl Tensor<'_> {
    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.shard.map.bytes()[self.entry.bytes.clone()]
    }

    /// Its number format, which must be one of plain numbers.
    pub(super) fn float(&self) -> Result<program::Dtype> {
        match self.entry.dtype {
            Dtype::F32 => Ok(program::Dtype::F32),
            Dtype::F16 => Ok(program::Dtype::F16),
            Dtype::BF16 => Ok(program::Dtype::Bf16),
            other => Err(self.error(format!("is {other:?}, one of F32, F16 and BF16 is needed"))),
        }
    }

    /// An error about it that names its file.
    pub(super) fn error(&self, what: impl Into<String>) -> Error {
        Error::Weight { name: self.name.clone(), what: format!("in {}: {}", self.shard.file, what.into()) }
    }

    fn codec_error(&self, error: &exl3::Error) -> Error {
        self.error(error.to_string())
    }

    fn require_dtype(&self, dtypes: &[Dtype]) -> Result<()> {
        if dtypes.contains(&self.entry.dtype) {
            return Ok(());
        }
        let needed: Vec<String> = dtypes.iter().map(|dtype| format!("{dtype:?}")).collect();
        Err(self.error(format!("is {:?}, {} is needed", self.entry.dtype, needed.join(" or "))))
    }

    fn require_shape(&self, shape: &[usize]) -> Result<()> {
        if self.entry.shape == shape {
            return Ok(());
        }
        Err(self.error(format!("has the shape {:?}, {shape:?} is needed", self.entry.shape)))
    }
}
