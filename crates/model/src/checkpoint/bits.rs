//! How many bits a weight takes, from headers alone and without knowing the architecture.

use std::path::Path;

use exl3::Bits;
use exl3::tile::TILE;

use super::Checkpoint;
use super::header::Entry;
use crate::Result;

/// Bits a weight, on average over all matrices within the layers of a checkpoint that are stored as trellis codes,
/// or over all matrices there if none is: as in the names of published models, neither embedding and head, which
/// are often wider, nor the few matrices that are left as they were count. None if there is no matrix.
///
/// # Errors
/// If a file is absent, damaged, or contradicts the others.
pub fn layer_bits(folder: &Path) -> Result<Option<f64>> {
    let checkpoint = Checkpoint::open(folder)?;
    let in_layers = checkpoint.shards.iter().flat_map(|shard| &shard.entries);
    let in_layers = in_layers.filter(|(name, _)| name.contains("layers."));
    let codes = in_layers.clone().filter_map(|(name, entry)| codes(name, entry));
    Ok(mean(codes).or_else(|| mean(in_layers.filter_map(|(_, entry)| plain(entry)))))
}

/// How many numbers there are, and how many bits each takes.
type Numbers = (f64, f64);

fn codes(name: &str, entry: &Entry) -> Option<Numbers> {
    match *entry.shape.as_slice() {
        [inputs, out, words] if name.ends_with(".trellis") => {
            let width = Bits::from_tile_words(words).ok()?.as_f32();
            Some((count(&[inputs, TILE, out, TILE]), width.into()))
        }
        _ => None,
    }
}

/// Vectors are norms and biases.
fn plain(entry: &Entry) -> Option<Numbers> {
    (entry.shape.len() > 1).then(|| (count(&entry.shape), entry.dtype.bitsize() as f64))
}

fn count(shape: &[usize]) -> f64 {
    shape.iter().map(|&side| side as f64).product()
}

fn mean(matrices: impl Iterator<Item = Numbers>) -> Option<f64> {
    let (numbers, bits) =
        matrices.fold((0.0, 0.0), |(numbers, bits), (count, width)| (numbers + count, bits + count * width));
    (numbers > 0.0).then(|| bits / numbers)
}
