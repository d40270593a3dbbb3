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
}

/// Llama's and Qwen's: all kinds, and transformers' default theta.
pub(crate) const SCALED: Supported =
    Supported { kinds: &["default", "linear", "llama3", "yarn"], theta: Some(10_000.0) };

/// Latent attention's: no scaling, since its YaRN also changes the softmax scale (`mscale`).
pub(crate) const UNSCALED: Supported = Supported { kinds: &["default"], theta: None };

/// Reads the rotary embedding of `dims` dims.
pub(crate) fn read(config: &Config, dims: u32, pairing: Pairing, supported: &Supported) -> Result<Rope> {
    config.require("partial_rotary_factor", 1)?;
    let (key, scaling) = match config.object("rope_parameters")? {
        Some(parameters) => ("rope_parameters", Some(parameters)),
        None => ("rope_scaling", config.object("rope_scaling")?),
    };
    let scaling = scaling.as_ref();
    let kind = kind(config, key, scaling)?;
    if !supported.kinds.contains(&kind) {
        let known = supported.kinds.join(", ");
        let what = format!("rope type {kind:?} is not supported for this architecture, only {known}");
        return Err(config.error(key, what));
    }
    let own = scaling.map(|scaling| scaling.optional_number("rope_theta")).transpose()?.flatten();
    let theta = match own.or(config.optional_number("rope_theta")?).or(supported.theta) {
        Some(theta) => theta,
        None => config.number("rope_theta")?,
    };
    if theta <= 1.0 {
        return Err(config.error("rope_theta", format!("is {theta}, more than 1 is needed")));
    }
    let mut frequencies: Vec<f64> =
        (0..dims / 2).map(|pair| theta.powf(-2.0 * f64::from(pair) / f64::from(dims))).collect();
    let mut gain = 1.0;
    if let Some(scaling) = scaling {
        scaling.require("partial_rotary_factor", 1)?;
        match kind {
            "linear" => linear(scaling, &mut frequencies)?,
            "llama3" => llama3(scaling, &mut frequencies)?,
            "yarn" => gain = yarn(scaling, theta, &mut frequencies)?,
            _ => {}
        }
    }
    let inverse_frequencies: Arc<[f32]> = frequencies.iter().map(|&frequency| frequency as f32).collect();
    Ok(Rope { inverse_frequencies, gain: gain as f32, pairing })
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

/// YaRN: pairs that turn more than `beta_fast` times within the original context stay, those that turn less
/// than `beta_slow` times are stretched by `factor`, with a ramp over the pairs between. The gain of cosine and sine is
/// `0.1 ln(factor) + 1`.
fn yarn(scaling: &Config, theta: f64, frequencies: &mut [f64]) -> Result<f64> {
    for key in ["mscale", "mscale_all_dim", "attention_factor"] {
        if scaling.get(key).is_some() {
            return Err(scaling.error(key, "is not supported with rope type \"yarn\""));
        }
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
    Ok(if factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 })
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

    fn rope(json: &str) -> Rope {
        let config = Config::parse(Path::new("config.json"), json).unwrap();
        read(&config, 32, Pairing::HalfSplit, &SCALED).unwrap()
    }

    /// Compares pairs 0, 3, 4, 5 and 15 of 32 dims with values that numpy computed in f64 and rounded to f32
    /// (`forward_ref.py` on the golden sources of each kind).
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
