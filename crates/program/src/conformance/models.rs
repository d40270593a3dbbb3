//! Whole small models, step after step.

use super::batch::{Batch, pages_for, shuffled_pages};
use super::prepared::{PAGES, Setup};
use super::sample::{Architecture, KNOWN, Sample, VOCAB};
use super::trial::{Standard, Subject, Trial, same_bits, same_rows};
use super::{Case, Check};
use crate::random::SplitMix64;
use crate::{Format, PageId, Score};

/// How far a row of logits may lie from the reference's. Some twenty operations in a row, each with an error
/// of up to [`TOLERANCE`](super::TOLERANCE) that mostly does not add up, and caches rounded to f16.
pub(super) const MODEL_TOLERANCE: f64 = 5e-3;

/// The models whose rows can be compared with the reference's: their experts are chosen by a hash, since a
/// rounding could turn over another choice.
pub(super) fn cases() -> Vec<Case> {
    let hashed = Architecture::Experts(Score::Hash { layer: 0 });
    of_models(&[("dense", Architecture::Dense), ("experts", hashed)], Format::F16)
}

/// The models that only the device itself can be compared with.
pub(super) fn invariant_cases(format: Format) -> Vec<Case> {
    let chosen = Architecture::Experts(Score::Sigmoid);
    of_models(&[("dense", Architecture::Dense), ("learned experts", chosen)], format)
}

fn of_models(models: &[(&str, Architecture)], format: Format) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, architecture) in models.iter().copied() {
        let case = |what: &str, check: fn(&mut Subject<'_>, &Setup) -> Check| {
            Case::new(format!("model of {name}, {format} cache: {what}"), move |subject| {
                let sample = Sample::new(architecture, format).map_err(|error| error.to_string())?;
                check(subject, &Setup::of_model(&sample))
            })
        };
        cases.push(case("a prompt in one go, in chunks and token by token", chunks));
        cases.push(case("sequences side by side equal each alone", side_by_side));
        cases.push(case("a shared first page", shared_page));
    }
    cases
}

fn tokens(count: u32, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| random.below(KNOWN)).collect()
}

/// Compares logits of consecutive rows with rows `from ..` of `want`.
fn same_logits(trial: &Trial, got: &[f32], want: &[f32], from: u32) -> Check {
    let (cols, start) = (VOCAB as usize, (from * VOCAB) as usize);
    let want = want.get(start..start + got.len()).ok_or("more rows than asked for")?;
    match trial.standard {
        Standard::Reference => same_rows(got, want, cols, MODEL_TOLERANCE),
        Standard::Itself => same_bits(got, want, cols),
    }
}

fn chunks(subject: &mut Subject<'_>, setup: &Setup) -> Check {
    let mut trial = subject.trial(setup)?;
    let tokens = tokens(130, 41);
    let rows = tokens.len() as u32;
    let whole = Batch::default().and(&pages_for(rows), 0, &tokens).wanting_all_logits();
    let want = trial.want_logits(&whole)?;
    let pages = shuffled_pages(PAGES - 1, 42);
    for (size, pages) in [rows, 65, 64, 7, 1].into_iter().zip(pages.chunks(3)) {
        let mut cached = 0;
        for chunk in tokens.chunks(size as usize) {
            let batch = Batch::default().and(pages, cached, chunk).wanting_all_logits();
            let (_, got) = trial.device.answers(&batch, &[])?;
            same_logits(&trial, &got, &want, cached)
                .map_err(|what| format!("chunks of {size}, rows from {cached}: {what}"))?;
            cached += chunk.len() as u32;
        }
    }
    Ok(())
}

fn side_by_side(subject: &mut Subject<'_>, setup: &Setup) -> Check {
    let mut trial = subject.trial(setup)?;
    let pages = shuffled_pages(PAGES - 1, 43);
    let mut batch = Batch::default();
    let mut want = Vec::new();
    let lengths = [(100, 1), (0, 17), (63, 2), (0, 1), (64, 65), (5, 1)];
    for (seed, ((cached, rows), pages)) in (44..).zip(lengths.into_iter().zip(pages.chunks(3))) {
        let tokens = tokens(cached + rows, seed);
        let (before, now) = tokens.split_at(cached as usize);
        if cached > 0 {
            // A step without outputs fills the cache.
            trial.device.answers(&Batch::default().and(pages, 0, before), &[])?;
        }
        let solo = Batch::default().and(&pages_for(cached + rows), 0, &tokens).wanting_all_logits();
        want.extend_from_slice(&trial.want_logits(&solo)?[(cached * VOCAB) as usize..]);
        batch = batch.and(pages, cached, now);
    }
    let (_, got) = trial.device.answers(&batch.wanting_all_logits(), &[])?;
    same_logits(&trial, &got, &want, 0)
}

fn shared_page(subject: &mut Subject<'_>, setup: &Setup) -> Check {
    let mut trial = subject.trial(setup)?;
    let prefix = tokens(64, 51);
    trial.device.answers(&Batch::default().and(&[PageId(13)], 0, &prefix), &[])?;
    let mut batch = Batch::default();
    let mut want = Vec::new();
    for (page, rows, seed) in [(PageId(2), 3, 52), (PageId(20), 30, 53)] {
        let more = tokens(rows, seed);
        let solo = [&prefix[..], &more].concat();
        let solo = Batch::default().and(&pages_for(64 + rows), 0, &solo).wanting_all_logits();
        want.extend_from_slice(&trial.want_logits(&solo)?[(64 * VOCAB) as usize..]);
        batch = batch.and(&[PageId(13), page], 64, &more);
    }
    let (_, got) = trial.device.answers(&batch.wanting_all_logits(), &[])?;
    same_logits(&trial, &got, &want, 0)
}
