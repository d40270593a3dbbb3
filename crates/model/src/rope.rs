//! Rotary position embeddings: from a configuration to the angles of a program.
//!
//! Pair `i` of `d` rotary dims turns by `theta^(-2i/d)` radians a token. The kinds of scaling that stretch
//! this to longer contexts are told by `rope_parameters` (newer files) or by `rope_theta` and
//! `rope_scaling`; a kind not written here is refused by name.

use std::f64::consts::PI;
use std::sync::Arc;

use program::{Pairing, Rope};
use serde_json::Value;

use crate::Result;
use crate::config::Config;

/// What an architecture has of all this.
pub(crate) struct Supported {
    /// Kinds of scaling.
    kinds: &'static [&'static str],
    /// The theta of a configuration that gives none, as the first ones of some architectures do.
    theta: Option<f64>,
    /// How much of a head turns.
    part: Part,
}

/// How much of a head turns.
enum Part {
    /// All of it.
    Whole,
    /// Its first dims; the configuration must say how many: `rotary_dim`, or the head times
    /// `partial_rotary_factor`.
    First,
}

const KINDS: &[&str] = &["default", "linear", "llama3", "yarn"];

/// Llama's and Qwen's: all kinds, and transformers' default theta.
pub(crate) const WHOLE_HEADS: Supported =
    Supported { kinds: KINDS, theta: Some(10_000.0), part: Part::Whole };

/// GLM-4.5's and MiniMax-M2's: all kinds, on a part of each head.
pub(crate) const PARTIAL_HEADS: Supported = Supported { kinds: KINDS, theta: None, part: Part::First };

/// Latent attention's, whose rotary dims are a part of their own.
pub(crate) const LATENT: Supported =
    Supported { kinds: &["default", "yarn"], theta: None, part: Part::Whole };

/// A rotary embedding, and what its scaling asks of the attention.
pub(crate) struct Rotary {
    /// Angles, gain and pairing; two rotary dims a frequency.
    pub(crate) rope: Rope,
    /// What latent attention multiplies its scale by.
    pub(crate) score_gain: f64,
}

/// Reads the rotary embedding of heads with `dims` dims.
pub(crate) fn read(config: &Config, dims: u32, pairing: Pairing, supported: &Supported) -> Result<Rotary> {
    let (newer, older) = (config.object("rope_parameters")?, config.object("rope_scaling")?);
    let mut kinds = Vec::new();
    // The newer one counts where there are both, but neither may name what is not known here.
    for (key, scaling) in [("rope_parameters", &newer), ("rope_scaling", &older)] {
        let kind = kind(config, key, scaling.as_ref())?;
        if !supported.kinds.contains(&kind) {
            let known = supported.kinds.join(", ");
            let what = format!("rope type {kind:?} is not supported for this architecture, only {known}");
            return Err(config.error(key, what));
        }
        kinds.push(kind);
    }
    let (kind, scaling) = match &newer {
        Some(_) => (kinds[0], newer.as_ref()),
        None => (kinds[1], older.as_ref()),
    };
    let own = scaling.map(|scaling| scaling.optional_number("rope_theta")).transpose()?.flatten();
    let theta = match own.or(config.optional_number("rope_theta")?).or(supported.theta) {
        Some(theta) => theta,
        None => config.number("rope_theta")?,
    };
    if theta <= 1.0 {
        return Err(config.error("rope_theta", format!("is {theta}, more than 1 is needed")));
    }
    let dims = match supported.part {
        Part::Whole => whole(config, scaling, dims)?,
        Part::First => first(config, scaling, dims)?,
    };
    let mut frequencies: Vec<f64> =
        (0..dims / 2).map(|pair| theta.powf(-2.0 * f64::from(pair) / f64::from(dims))).collect();
    let mut gains = Gains { rope: 1.0, scores: 1.0 };
    if let Some(scaling) = scaling {
        match kind {
            "linear" => linear(scaling, &mut frequencies)?,
            "llama3" => llama3(scaling, &mut frequencies)?,
            "yarn" => gains = yarn(scaling, theta, &mut frequencies)?,
            _ => {}
        }
    }
    let inverse_frequencies: Arc<[f32]> = frequencies.iter().map(|&frequency| frequency as f32).collect();
    let rope = Rope { inverse_frequencies, gain: gains.rope as f32, pairing };
    Ok(Rotary { rope, score_gain: gains.scores })
}

/// Requires that nothing asks for a part of the head.
fn whole(config: &Config, scaling: Option<&Config>, head: u32) -> Result<u32> {
    for config in std::iter::once(config).chain(scaling) {
        config.require("partial_rotary_factor", 1)?;
    }
    Ok(head)
}

/// How many dims of a head turn where the configuration says it.
fn first(config: &Config, scaling: Option<&Config>, head: u32) -> Result<u32> {
    let factor = |config: &Config| config.optional_number("partial_rotary_factor");
    let factor = scaling.map(factor).transpose()?.flatten().or(factor(config)?);
    // Cut off, as the original does.
    let share = factor.map(|factor| (f64::from(head) * factor) as u32);
    let (key, dims) = match (config.optional_count("rotary_dim")?, share) {
        (Some(dims), Some(share)) if dims != share => {
            let what = format!("is {dims}, but partial_rotary_factor makes {share} dims of {head}");
            return Err(config.error("rotary_dim", what));
        }
        (Some(dims), _) => ("rotary_dim", dims),
        (None, Some(share)) => ("partial_rotary_factor", share),
        (None, None) => return Err(config.error("partial_rotary_factor", "is absent, a number is needed")),
    };
    if !dims.is_multiple_of(2) || !(2..=head).contains(&dims) {
        let what = format!("makes {dims} dims of {head} turn, an even number of 2 up to {head} is needed");
        return Err(config.error(key, what));
    }
    Ok(dims)
}

fn kind<'a>(config: &Config, key: &str, scaling: Option<&'a Config>) -> Result<&'a str> {
    let Some(scaling) = scaling else { return Ok("default") };
    match (scaling.optional_text("rope_type")?, scaling.optional_text("type")?) {
        (Some(kind), _) | (None, Some(kind)) => Ok(kind),
        // Only `rope_theta` given, as newer files do for the default.
        (None, None) if scaling.get("rope_theta").is_some_and(Value::is_number) => Ok("default"),
        (None, None) => Err(config.error(key, "has no rope_type (one embedding for each kind of layer?)")),
    }
}

/// Positions are divided by `factor`.
fn linear(scaling: &Config, frequencies: &mut [f64]) -> Result<()> {
    let factor = factor(scaling)?;
    frequencies.iter_mut().for_each(|frequency| *frequency /= factor);
    Ok(())
}

/// Llama 3.1: wavelengths beyond `original / low` are stretched by `factor`, those below `original / high`
/// stay, and between the two the share of each moves linearly with `original / wavelength`.
fn llama3(scaling: &Config, frequencies: &mut [f64]) -> Result<()> {
    let factor = factor(scaling)?;
    let original = f64::from(scaling.count("original_max_position_embeddings")?);
    let (low, high) = (scaling.number("low_freq_factor")?, scaling.number("high_freq_factor")?);
    if !(low > 0.0 && high > low) {
        return Err(scaling.error("high_freq_factor", format!("is {high}, more than {low} is needed")));
    }
    for frequency in frequencies {
        let turns = original * *frequency / (2.0 * PI);
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        *frequency = kept * *frequency + (1.0 - kept) * *frequency / factor;
    }
    Ok(())
}

/// What YaRN multiplies.
struct Gains {
    /// Cosine and sine.
    rope: f64,
    /// The scores of latent attention.
    scores: f64,
}

/// YaRN: pairs that turn more than `beta_fast` times within the original context stay, those that turn less
/// than `beta_slow` times are stretched by `factor`, with a ramp over the pairs between.
fn yarn(scaling: &Config, theta: f64, frequencies: &mut [f64]) -> Result<Gains> {
    if scaling.get("attention_factor").is_some() {
        return Err(scaling.error("attention_factor", "is not supported with rope type \"yarn\""));
    }
    scaling.require("truncate", true)?;
    let factor = factor(scaling)?;
    let original = f64::from(scaling.count("original_max_position_embeddings")?);
    let dims = 2.0 * frequencies.len() as f64;
    let pair_that_turns = |times: f64| dims * (original / (times * 2.0 * PI)).ln() / (2.0 * theta.ln());
    let fast = scaling.optional_number("beta_fast")?.unwrap_or(32.0);
    let slow = scaling.optional_number("beta_slow")?.unwrap_or(1.0);
    let low = pair_that_turns(fast).floor().max(0.0);
    let high = pair_that_turns(slow).ceil().min(dims - 1.0);
    // The width of a ramp that has none, so that the division stays finite.
    let width = (high - low).max(0.001);
    for (pair, frequency) in frequencies.iter_mut().enumerate() {
        let stretched = ((pair as f64 - low) / width).clamp(0.0, 1.0);
        *frequency = *frequency / factor * stretched + *frequency * (1.0 - stretched);
    }
    yarn_gains(scaling, factor)
}

/// With `g(m) = 0.1 m ln(factor) + 1`: cosine and sine times `g(1)`; or, as DeepSeek has it, times
/// `g(mscale) / g(mscale_all_dim)`, and the scores of latent attention times `g(mscale_all_dim)^2`, which is the
/// same gain on all dims of query and key instead of the rotary ones.
///
/// With one of the two alone transformers and DeepSeek's own code differ, so that is refused.
fn yarn_gains(scaling: &Config, factor: f64) -> Result<Gains> {
    let gain = |m: f64| if factor > 1.0 { 0.1 * m * factor.ln() + 1.0 } else { 1.0 };
    let [own, all] = ["mscale", "mscale_all_dim"].map(|key| match scaling.optional_number(key)? {
        Some(m) if m <= 0.0 => Err(scaling.error(key, format!("is {m}, a positive number is needed"))),
        m => Ok(m),
    });
    match (own?, all?) {
        (None, None) => Ok(Gains { rope: gain(1.0), scores: 1.0 }),
        (Some(own), Some(all)) => Ok(Gains { rope: gain(own) / gain(all), scores: gain(all).powi(2) }),
        (Some(_), None) => Err(scaling.error("mscale_all_dim", "is absent beside mscale, both are needed")),
        (None, Some(_)) => Err(scaling.error("mscale", "is absent beside mscale_all_dim, both are needed")),
    }
}

fn factor(scaling: &Config) -> Result<f64> {
    let factor = scaling.number("factor")?;
    if factor > 0.0 {
        Ok(factor)
    } else {
        Err(scaling.error("factor", format!("is {factor}, a positive number is needed")))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn rotary(json: &str, supported: &Supported) -> Rotary {
        let config = Config::parse(Path::new("config.json"), json).unwrap();
        read(&config, 32, Pairing::HalfSplit, supported).unwrap()
    }

    fn rope(json: &str) -> Rope {
        let rotary = rotary(json, &WHOLE_HEADS);
        assert_eq!(rotary.score_gain, 1.0);
        rotary.rope
    }

    /// Compares pairs 0, 3, 4, 5 and 15 of 32 dims with values that numpy computed in f64 and rounded to f32
    /// (a forward pass in numpy on a source of each kind).
    fn assert_pairs(rope: &Rope, want: [f32; 5]) {
        let got = [0, 3, 4, 5, 15].map(|pair| rope.inverse_frequencies[pair]);
        for (got, want) in got.into_iter().zip(want) {
            // The last bit may differ with the order of operations.
            assert!((got - want).abs() <= want * f32::EPSILON, "{got}, needed {want}");
        }
    }

    #[test]
    fn without_scaling_a_pair_turns_by_a_power_of_theta() {
        let want = [1.0, 0.177_827_94, 0.1, 0.056_234_132, 1.778_279_4e-4];
        for json in [
            "{}",
            r#"{"rope_theta": 10000}"#,
            r#"{"rope_theta": 1e4, "rope_scaling": null}"#,
            r#"{"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}"#,
            r#"{"rope_parameters": {"rope_theta": 10000.0}, "rope_theta": 5.0}"#,
        ] {
            let rope = rope(json);
            assert_pairs(&rope, want);
            assert_eq!(rope.gain, 1.0);
        }
    }

    #[test]
    fn linear_scaling_divides_every_pair() {
        let rope = rope(r#"{"rope_theta": 10000, "rope_scaling": {"type": "linear", "factor": 4}}"#);
        assert_pairs(&rope, [0.25, 0.044_456_985, 0.025, 0.014_058_533, 4.445_698_5e-5]);
        assert_eq!(rope.gain, 1.0);
    }

    #[test]
    fn llama3_scaling_stretches_long_waves_and_keeps_short_ones() {
        let rope = rope(
            r#"{"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}"#,
        );
        // Pair 0 as it was, pair 3 between, the others an eighth.
        assert_pairs(&rope, [1.0, 0.064_309_87, 0.013_042_256, 0.007_029_266_6, 2.222_849_3e-5]);
        assert_eq!(rope.gain, 1.0);
    }

    #[test]
    fn yarn_stretches_slow_pairs_and_raises_the_gain() {
        let rope = rope(
            r#"{"rope_theta": 10000, "rope_scaling": {"type": "yarn", "factor": 4.0,
                "original_max_position_embeddings": 48}}"#,
        );
        assert_pairs(&rope, [1.0, 0.077_799_72, 0.025, 0.014_058_533, 4.445_698_5e-5]);
        // 0.1 ln 4 + 1.
        assert_eq!(rope.gain, 1.138_629_4);
    }
}
