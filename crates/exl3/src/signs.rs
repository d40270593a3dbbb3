//! The packed signs of old files.
//!
//! Files written before suh and svh existed have `su` and `sv` in their place: one bit a feature, and no
//! scale.

use half::f16;

use crate::Error;

/// The `features` scales, 1 or -1, that packed signs stand for.
///
/// `words` are the bytes of the little-endian 16-bit words of `su` or `sv`. Feature 16 w + i is -1 if bit i
/// (the lowest is 0) of word w is set.
///
/// # Errors
/// [`Error::Size`] unless there are exactly `features / 16` words.
pub fn expand(words: &[u8], features: usize) -> Result<Vec<f16>, Error> {
    if words.len() * 8 != features || !words.len().is_multiple_of(2) {
        let needed = features.div_ceil(16) * 2;
        return Err(Error::Size { what: "packed signs", unit: "bytes", found: words.len(), needed });
    }
    let sign = |feature: usize| match words[feature / 8] >> (feature % 8) & 1 {
        0 => f16::ONE,
        _ => f16::NEG_ONE,
    };
    Ok((0..features).map(sign).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bit_of_a_word_is_its_first_feature_and_a_set_bit_is_minus_one() {
        let words: Vec<u8> = [0x0001_u16, 0x8000].into_iter().flat_map(u16::to_le_bytes).collect();
        let mut expected = [f16::ONE; 32];
        expected[0] = f16::NEG_ONE;
        expected[31] = f16::NEG_ONE;
        assert_eq!(expand(&words, 32).unwrap(), expected);
    }

    #[test]
    fn other_lengths_are_refused() {
        for (bytes, features) in [(0, 16), (2, 32), (3, 24), (4, 16), (2, 15)] {
            assert!(matches!(expand(&vec![0; bytes], features), Err(Error::Size { .. })));
        }
    }
}
