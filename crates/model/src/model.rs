//! A model: its program, and where its numbers come from.

use std::path::{Path, PathBuf};

use program::{Builder, Catalogue, Device, Dtype, Format, Kind, ModelSpec, Storage, WeightId};
use serde_json::Value;

use crate::block::{Choice, Names, Recorder};
use crate::checkpoint::{Checkpoint, Unused, folder, write};
use crate::config::Config;
use crate::shape::Shape;
use crate::source::Source;
use crate::synthetic::Synthetic;
use crate::tokenizer::{self, Tokenizer};
use crate::{Error, Result, arch};

/// A model that is ready to be loaded into a device.
pub struct Model {
    /// Weights, caches and programs; the first program is the trunk.
    pub spec: ModelSpec,
    /// What the configuration says of the model as a whole.
    pub facts: Facts,
    /// Its tokenizer, or none if the folder has no `tokenizer.json`.
    pub tokenizer: Option<Tokenizer>,
    source: Box<dyn Source>,
    unused: Vec<Unused>,
    /// The folder or configuration, for messages.
    path: PathBuf,
}

/// What a configuration says of a model as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The configuration's `model_type`.
    pub architecture: String,
    /// Rows of the embedding table and logits of a row.
    pub vocab: u32,
    /// The most positions it was made for.
    pub context: u32,
    /// The token that begins a sequence.
    pub bos: Option<u32>,
    /// The tokens that end a turn.
    pub eos: Vec<u32>,
    /// How many layers it has.
    pub layers: u32,
}

/// Choices of the user that a program depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// How keys and values, or latents, are cached. Rotary keys of latent attention are always f16.
    pub cache: Format,
}

/// One tensor of a model, as [`Model::tensors`] lists them.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorFacts {
    /// Its module, or its whole name if it is a vector.
    pub name: String,
    /// Its logical shape, without padding: `[out, in]`, or one length.
    pub shape: Vec<u64>,
    /// Bits a number.
    pub bits: f32,
    /// The codebook, or the number format.
    pub codebook: &'static str,
    /// Bytes in memory, scales and bias included.
    pub bytes: u64,
}

impl Model {
    /// Opens a checkpoint: checks configuration, headers, names, formats and shapes against each other, and
    /// records the program. No weight is read.
    ///
    /// # Errors
    /// With one sentence that names the file and the tensor or key.
    pub fn open(folder: &Path, options: &BuildOptions) -> Result<Model> {
        folder::check(folder)?;
        let config = Config::open(&folder.join(folder::CONFIG))?;
        let architecture = arch::read(&config)?;
        let mut facts = Facts::read(&config)?;
        facts.add_generation_config(&folder.join("generation_config.json"))?;
        let tokenizer = match folder.join("tokenizer.json") {
            path if path.exists() => Some(Tokenizer::open(&path)?),
            _ => None,
        };
        check_vocab(folder, tokenizer.as_ref(), &facts)?;
        let checkpoint = Checkpoint::open(folder)?;
        let mut recorder = Recorder {
            builder: Builder::new(&checkpoint),
            names: checkpoint.names().clone(),
            cache: options.cache,
            choice: Choice::Router,
            known: tokenizer.as_ref().map(Tokenizer::vocab),
        };
        let recorded = architecture.record(&mut recorder);
        recorded.map_err(|source| Error::Program { path: folder.into(), source })?;
        let spec = recorder.builder.finish();
        let unused = checkpoint.unused(&spec, facts.layers)?;
        Ok(Model { spec, facts, tokenizer, source: Box::new(checkpoint), unused, path: folder.into() })
    }

    /// A model of a given shape with made-up weights, whose experts are chosen by a hash and whose tokens
    /// are bytes.
    ///
    /// # Errors
    /// If the shape's configuration is not supported.
    pub fn synthetic(shape: &Shape, options: &BuildOptions) -> Result<Model> {
        let architecture = arch::read(&shape.config)?;
        let facts = Facts::read(&shape.config)?;
        let tokenizer = Tokenizer::of_bytes()?;
        check_vocab(shape.config.path(), Some(&tokenizer), &facts)?;
        let source = Synthetic::new(shape)?;
        let mut recorder = Recorder {
            builder: Builder::new(&source),
            names: Names::PLAIN,
            cache: options.cache,
            choice: Choice::Hash,
            known: Some(tokenizer.vocab()),
        };
        let path = shape.config.path().to_path_buf();
        architecture.record(&mut recorder).map_err(|source| Error::Program { path: path.clone(), source })?;
        let spec = recorder.builder.finish();
        let source = Box::new(source);
        Ok(Model { spec, facts, tokenizer: Some(tokenizer), source, unused: Vec::new(), path })
    }

    /// The weights and the program that a `config.json` describes, with every number stored as bf16: for
    /// sizes and parameter counts of a model that is not here.
    ///
    /// # Errors
    /// If the configuration is not supported.
    pub fn published(config: &Path) -> Result<ModelSpec> {
        let config = Config::open(config)?;
        let catalogue = Published { tied: crate::block::tied(&config)? };
        let mut recorder = Recorder {
            builder: Builder::new(&catalogue),
            names: Names::PLAIN,
            cache: Format::F16,
            choice: Choice::Router,
            known: None,
        };
        let recorded = arch::read(&config)?.record(&mut recorder);
        recorded.map_err(|source| Error::Program { path: config.path().into(), source })?;
        Ok(recorder.builder.finish())
    }

    /// Uploads all weights; `progress` is told the bytes uploaded so far. What a checkpoint has of a weight
    /// is in memory afterwards, so that neither memory grows later nor the first token waits.
    ///
    /// # Errors
    /// If a weight's numbers are damaged or the device refuses it.
    pub fn load(&self, device: &mut dyn Device, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let in_context = |source| Error::Program { path: self.path.clone(), source };
        let mut done = 0;
        for (id, weight) in self.spec.weights.iter().enumerate() {
            for (number, part) in weight.parts.iter().enumerate() {
                let tensor = self.source.read(&part.name, weight.kind).map_err(in_context)?;
                device.upload(WeightId(id as u32), number as u32, tensor).map_err(in_context)?;
                done += part.storage.bytes(weight.kind);
                progress(done);
            }
        }
        Ok(())
    }

    /// Bytes of all weights as they are uploaded.
    pub fn weight_bytes(&self) -> u64 {
        let parts =
            self.spec.weights.iter().flat_map(|weight| weight.parts.iter().map(|part| (weight.kind, part)));
        parts.map(|(kind, part)| part.storage.bytes(kind)).sum()
    }

    /// All tensors, in the order of the program.
    pub fn tensors(&self) -> Vec<TensorFacts> {
        let weights = self.spec.weights.iter();
        let parts = weights.flat_map(|weight| weight.parts.iter().map(|part| (weight.kind, part)));
        parts.map(|(kind, part)| TensorFacts::of(&part.name, kind, part.storage)).collect()
    }

    /// The tensors of the checkpoint that are known and not used.
    pub fn unused(&self) -> &[Unused] {
        &self.unused
    }
}

/// Writes a checkpoint with made-up weights into a folder, which is made: weights, configuration and a
/// tokenizer of bytes.
///
/// # Errors
/// If the shape's configuration is not supported, or a file cannot be written.
pub fn write_checkpoint(shape: &Shape, target: &Path) -> Result<()> {
    let model = Model::synthetic(shape, &BuildOptions { cache: Format::F16 })?;
    let io = |error: std::io::Error| Error::io(target, &error);
    std::fs::create_dir_all(target).map_err(io)?;
    std::fs::write(target.join(folder::CONFIG), shape.config.to_json()).map_err(io)?;
    std::fs::write(target.join("tokenizer.json"), tokenizer::byte_tokenizer()).map_err(io)?;
    write::write(&model.spec, &*model.source, target)
}

/// A model that is not here: everything is there, as bf16.
struct Published {
    tied: bool,
}

impl Catalogue for Published {
    fn storage(&self, _name: &str, _kind: Kind) -> program::Result<Storage> {
        Ok(Storage::Dense(Dtype::Bf16))
    }

    fn has(&self, name: &str) -> bool {
        name != Names::PLAIN.head || !self.tied
    }
}

impl Facts {
    fn read(config: &Config) -> Result<Facts> {
        Ok(Facts {
            architecture: config.text("model_type")?.into(),
            vocab: config.count("vocab_size")?,
            context: config.count("max_position_embeddings")?,
            bos: tokens(config, "bos_token_id")?.first().copied(),
            eos: tokens(config, "eos_token_id")?,
            layers: config.count("num_hidden_layers")?,
        })
    }

    /// Adds what `generation_config.json` says, where there is one: its tokens that end a turn join the
    /// configuration's.
    fn add_generation_config(&mut self, path: &Path) -> Result<()> {
        if !path.exists() {
            return Ok(());
        }
        let config = Config::open(path)?;
        for token in tokens(&config, "eos_token_id")? {
            if !self.eos.contains(&token) {
                self.eos.push(token);
            }
        }
        if self.bos.is_none() {
            self.bos = tokens(&config, "bos_token_id")?.first().copied();
        }
        Ok(())
    }
}

/// A token id, a list of them, or none.
fn tokens(config: &Config, key: &str) -> Result<Vec<u32>> {
    let values = match config.get_around(key) {
        None => return Ok(Vec::new()),
        Some(Value::Array(values)) => values.as_slice(),
        Some(value) => std::slice::from_ref(value),
    };
    let token = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| config.error(key, format!("has {value}, token ids are needed")))
    };
    values.iter().map(token).collect()
}

fn check_vocab(path: &Path, tokenizer: Option<&Tokenizer>, facts: &Facts) -> Result<()> {
    match tokenizer.map(Tokenizer::vocab) {
        Some(ids) if ids > facts.vocab => {
            let what = format!(
                "the tokenizer has the id {}, but vocab_size is {}; they are not of the same model",
                ids - 1,
                facts.vocab
            );
            Err(Error::file(&path.join("tokenizer.json"), what))
        }
        _ => Ok(()),
    }
}

impl TensorFacts {
    fn of(name: &str, kind: Kind, storage: Storage) -> TensorFacts {
        let (rows, cols) = kind.shape();
        let shape = match kind {
            Kind::Vector { len } => vec![len.into()],
            _ => vec![rows.into(), cols.into()],
        };
        let (bits, codebook) = match storage {
            Storage::Dense(Dtype::F32) => (32.0, "f32"),
            Storage::Dense(Dtype::F16) => (16.0, "f16"),
            Storage::Dense(Dtype::Bf16) => (16.0, "bf16"),
            Storage::Exl3 { bits, codebook } => (bits.as_f32(), codebook.name()),
            Storage::Exl3Table { bits } => (bits.as_f32(), exl3::Codebook::Mul1.name()),
        };
        TensorFacts { name: name.into(), shape, bits, codebook, bytes: storage.bytes(kind) }
    }
}
