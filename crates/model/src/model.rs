//! A model: its program, and where its numbers come from.

use std::path::{Path, PathBuf};

use program::{Builder, Device, Format, ModelSpec, WeightId};

use crate::ahead;
use crate::arch::{self, Architecture};
use crate::block::{Choice, Names, Recorder};
use crate::checkpoint::gguf::{self, Gguf};
use crate::checkpoint::{Checkpoint, Unused, folder, write};
use crate::config::Config;
use crate::facts::{Facts, TensorFacts};
use crate::published::Published;
use crate::shape::Shape;
use crate::source::Source;
use crate::synthetic::Synthetic;
use crate::tokenizer::{self, Tokenizer};
use crate::{Error, Result};

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
    folder: Option<PathBuf>,
}

/// Choices of the user that a program depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// How keys and values, or latents, are cached. Rotary keys of latent attention are always f16.
    pub cache: Format,
}

impl Model {
    /// Opens a checkpoint, which is a folder of safetensors files, a GGUF file, or a folder that holds one: checks
    /// configuration, headers, names, formats and shapes against each other, and records the program. No weight is
    /// read.
    ///
    /// # Errors
    /// With one sentence that names the file and the tensor or key.
    pub fn open(folder: &Path, options: &BuildOptions) -> Result<Model> {
        if let Some(file) = gguf::find(folder)? {
            return Model::from_gguf(&file, options);
        }
        folder::check(folder)?;
        let config = Config::open(&folder.join(folder::CONFIG))?;
        let architecture = arch::read(&config)?;
        let mut facts = Facts::read(&config)?;
        facts.add_generation_config(&folder.join("generation_config.json"))?;
        let tokenizer = match folder.join("tokenizer.json") {
            path if path.exists() => Some(Tokenizer::open(&path)?),
            _ => None,
        };
        check_vocab(&folder.join("tokenizer.json"), tokenizer.as_ref(), &facts)?;
        let checkpoint = Checkpoint::open(folder)?;
        let recorder = Recorder {
            builder: Builder::new(&checkpoint),
            names: checkpoint.names().clone(),
            cache: options.cache,
            choice: Choice::Router,
            known: tokenizer.as_ref().map(Tokenizer::vocab),
        };
        let spec = record(&*architecture, recorder, folder)?;
        let unused =
            checkpoint.unused(&spec, facts.layers..facts.layers.saturating_add(facts.draft_layers))?;
        Ok(Model {
            spec,
            facts,
            tokenizer,
            source: Box::new(checkpoint),
            unused,
            path: folder.into(),
            folder: Some(folder.into()),
        })
    }

    fn from_gguf(file: &Path, options: &BuildOptions) -> Result<Model> {
        let source = Gguf::open(file)?;
        let architecture = arch::read(source.config())?;
        let facts = Facts::read(source.config())?;
        let tokenizer = source.tokenizer()?;
        check_vocab(file, Some(&tokenizer), &facts)?;
        let recorder = Recorder {
            builder: Builder::new(&source),
            names: Names::PLAIN,
            cache: options.cache,
            choice: Choice::Router,
            known: Some(tokenizer.vocab()),
        };
        let spec = record(&*architecture, recorder, file)?;
        source.check_used(&spec)?;
        let (source, unused) = (Box::new(source), Vec::new());
        Ok(Model {
            spec,
            facts,
            tokenizer: Some(tokenizer),
            source,
            unused,
            path: file.into(),
            folder: Some(file.into()),
        })
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
        let recorder = Recorder {
            builder: Builder::new(&source),
            names: Names::PLAIN,
            cache: options.cache,
            choice: Choice::Hash,
            known: Some(tokenizer.vocab()),
        };
        let path = shape.config.path();
        let spec = record(&*architecture, recorder, path)?;
        let source = Box::new(source);
        Ok(Model {
            spec,
            facts,
            tokenizer: Some(tokenizer),
            source,
            unused: Vec::new(),
            path: path.into(),
            folder: None,
        })
    }

    /// The weights and the program that a `config.json` describes, with every number stored as bf16: for
    /// sizes and parameter counts of a model that is not here.
    ///
    /// # Errors
    /// If the configuration is not supported.
    pub fn published(config: &Path) -> Result<ModelSpec> {
        let config = Config::open(config)?;
        let architecture = arch::read(&config)?;
        let catalogue = Published::new(&config)?;
        let recorder = Recorder {
            builder: Builder::new(&catalogue),
            names: Names::PLAIN,
            cache: Format::F16,
            choice: Choice::Router,
            known: None,
        };
        record(&*architecture, recorder, config.path())
    }

    /// Uploads all weights, in order, while the next ones are being read on other threads; `progress` is told
    /// the bytes uploaded so far. What a checkpoint has of a weight is in memory afterwards, so that neither memory grows later nor the first token waits.
    ///
    /// # Errors
    /// If a weight's numbers are damaged or the device refuses it.
    pub fn load(&self, device: &mut dyn Device, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let in_context = |source| Error::Program { path: self.path.clone(), source };
        let mut parts = Vec::new();
        for (id, weight) in self.spec.weights.iter().enumerate() {
            parts.extend((0..weight.parts.len()).map(|part| (id, part)));
        }
        let part = |index: usize| {
            let (id, part) = parts[index];
            (&self.spec.weights[id].parts[part], self.spec.weights[id].kind)
        };
        let read = |index| {
            let (part, kind) = part(index);
            self.source.read(&part.name, kind)
        };
        let mut done = 0;
        ahead::in_order(parts.len(), read, |index, tensor| {
            let ((id, number), (part, kind)) = (parts[index], part(index));
            device
                .upload(WeightId(id as u32), number as u32, tensor.map_err(in_context)?)
                .map_err(in_context)?;
            done += part.storage.bytes(kind);
            progress(done);
            Ok(())
        })
    }

    /// Bytes of all weights as they are uploaded.
    pub fn weight_bytes(&self) -> u64 {
        self.tensors().iter().map(|tensor| tensor.bytes).sum()
    }

    /// All tensors, in the order of the program.
    pub fn tensors(&self) -> Vec<TensorFacts> {
        let weights = self.spec.weights.iter();
        let parts = weights.flat_map(|weight| weight.parts.iter().map(|part| (weight.kind, part)));
        parts.map(|(kind, part)| TensorFacts::of(&part.name, kind, part.storage)).collect()
    }

    /// Its folder or GGUF file, or none if it was made up.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
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

/// Records the programs of an architecture; `path` is for messages.
fn record(architecture: &dyn Architecture, mut recorder: Recorder<'_>, path: &Path) -> Result<ModelSpec> {
    match architecture.record(&mut recorder) {
        Ok(()) => Ok(recorder.builder.finish()),
        Err(source) => Err(Error::Program { path: path.into(), source }),
    }
}

fn check_vocab(path: &Path, tokenizer: Option<&Tokenizer>, facts: &Facts) -> Result<()> {
    match tokenizer.map(Tokenizer::vocab) {
        Some(ids) if ids > facts.vocab => {
            let what = format!(
                "the tokenizer has the id {}, but vocab_size is {}; they are not of the same model",
                ids - 1,
                facts.vocab
            );
            Err(Error::file(path, what))
        }
        _ => Ok(()),
    }
}
