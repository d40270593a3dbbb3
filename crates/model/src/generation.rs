//! How a model's makers want its tokens drawn: `generation_config.json`.

use std::path::Path;

use crate::Result;
use crate::config::Config;

/// What `generation_config.json` says of drawing tokens; what it does not say is none. Whoever uses a model may
/// choose otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recommended {
    /// Whether tokens are drawn at all (`do_sample`); otherwise the best one is taken every time.
    pub drawn: Option<bool>,
    /// What logits are divided by; at least 0.
    pub temperature: Option<f32>,
    /// How many of the best tokens stay; 0 keeps all.
    pub top_k: Option<u32>,
    /// The probability that must stay; 0 to 1.
    pub top_p: Option<f32>,
    /// The least probability relative to the best token's; 0 to 1.
    pub min_p: Option<f32>,
    /// The probability of typical tokens that must stay (`typical_p`); 0 to 1.
    pub typical: Option<f32>,
    /// What logits of tokens seen are divided by, or multiplied if negative; above 0.
    pub repetition_penalty: Option<f32>,
}

impl Recommended {
    /// Reads a file that is there.
    ///
    /// # Errors
    /// If it is no JSON object or a number is out of its range.
    pub(crate) fn read(path: &Path) -> Result<Recommended> {
        let config = Config::open(path)?;
        let number = |key: &str, range: &str, fits: &dyn Fn(f64) -> bool| match config.optional_number(key)? {
            Some(number) if !fits(number) => {
                Err(config.error(key, format!("is {number}, {range} is needed")))
            }
            number => Ok(number),
        };
        let probability = |key: &str| {
            let number = number(key, "a number from 0 to 1", &|number| (0.0..=1.0).contains(&number))?;
            Ok(number.map(|number| number as f32))
        };
        let temperature = number("temperature", "a number of at least 0", &|number| number >= 0.0)?;
        // Some write -1 where others write 0.
        let top_k = number("top_k", "a whole number", &|number| number.fract() == 0.0 && number <= 1e9)?;
        let repetition = number("repetition_penalty", "a number above 0", &|number| number > 0.0)?;
        Ok(Recommended {
            drawn: config.optional_flag("do_sample")?,
            temperature: temperature.map(|number| number as f32),
            top_k: top_k.map(|number| number as u32),
            top_p: probability("top_p")?,
            min_p: probability("min_p")?,
            typical: probability("typical_p")?,
            repetition_penalty: repetition.map(|number| number as f32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Recommended> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json).unwrap();
        Recommended::read(file.path())
    }

    #[test]
    fn what_a_published_file_says_is_read_and_the_rest_is_none() {
        // As Qwen3-30B-A3B has it.
        let json = r#"{
            "bos_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643], "pad_token_id": 151643,
            "temperature": 0.6, "top_k": 20, "top_p": 0.95, "transformers_version": "4.51.0"
        }"#;
        let want = Recommended {
            drawn: Some(true),
            temperature: Some(0.6),
            top_k: Some(20),
            top_p: Some(0.95),
            ..Recommended::default()
        };
        assert_eq!(read(json).unwrap(), want);
        assert_eq!(read("{}").unwrap(), Recommended::default());
        assert_eq!(read(r#"{"top_k": -1, "top_p": null}"#).unwrap().top_k, Some(0));
    }

    #[test]
    fn a_number_out_of_its_range_is_refused_with_its_key() {
        for (json, needed) in [
            (r#"{"temperature": -1}"#, "temperature: is -1, a number of at least 0 is needed"),
            (r#"{"top_p": 1.5}"#, "top_p: is 1.5, a number from 0 to 1 is needed"),
            (r#"{"top_k": 1.5}"#, "top_k: is 1.5, a whole number is needed"),
            (r#"{"repetition_penalty": 0}"#, "repetition_penalty: is 0, a number above 0 is needed"),
            (r#"{"do_sample": 1}"#, "do_sample"),
        ] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.contains(needed), "{error}");
        }
    }
}
