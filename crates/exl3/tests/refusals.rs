//! What is refused, and what the message says.

use exl3::kv::CacheBits;
use exl3::{Codebook, Embedding, EmbeddingParts, Error, Linear, LinearParts};
use half::f16;

/// A valid layer of 128 x 256 features at 2 bits, changed by `change` before it is checked.
fn refusal(change: impl for<'a> FnOnce(&mut LinearParts<'a>)) -> String {
    let trellis = [0; 8 * 16 * 64];
    let scales = [f16::ONE; 256];
    let mut parts = LinearParts {
        trellis: &trellis,
        shape: [8, 16, 32],
        suh: &scales[..128],
        svh: &scales,
        bias: Some(&scales),
        codebook: Codebook::ThreeInst,
    };
    assert!(Linear::new(parts).is_ok());
    change(&mut parts);
    Linear::new(parts).expect_err("the change is a defect").to_string()
}

#[test]
fn sizes_that_disagree_are_refused_with_both_sizes() {
    let text = refusal(|parts| parts.trellis = &parts.trellis[1..]);
    assert!(text.starts_with("trellis: found 8191 bytes, needed 8192"), "{text}");
    let text = refusal(|parts| parts.suh = parts.svh);
    assert!(text.starts_with("suh: found 256 values, needed 128"), "{text}");
    let text = refusal(|parts| parts.svh = parts.suh);
    assert!(text.starts_with("svh: found 128 values, needed 256"), "{text}");
    let text = refusal(|parts| parts.bias = Some(parts.suh));
    assert!(text.starts_with("bias: found 128 values, needed 256"), "{text}");
}

#[test]
fn sides_that_are_not_padded_are_refused() {
    let text = refusal(|parts| parts.shape = [4, 32, 32]);
    assert!(text.starts_with("in features: 64 is no positive multiple of 128"), "{text}");
    let text = refusal(|parts| parts.shape = [8, 0, 32]);
    assert!(text.starts_with("out features: 0 is no positive multiple of 128"), "{text}");
    let text = refusal(|parts| parts.shape = [usize::MAX / 16, 8, 32]);
    assert!(text.starts_with("trellis: the shape"), "{text}");
    let text = refusal(|parts| parts.shape = [usize::MAX / 8, 8, 32]);
    assert!(text.starts_with("trellis: the shape"), "{text}");
}

#[test]
fn widths_that_do_not_exist_are_refused() {
    let text = refusal(|parts| parts.shape = [8, 16, 33]);
    assert!(text.starts_with("trellis: a tile of 33 16-bit words has no known width"), "{text}");
    let text = refusal(|parts| parts.shape = [8, 16, 72]);
    assert!(text.starts_with("trellis: a tile of 72 16-bit words has no known width"), "{text}");
    let text = refusal(|parts| parts.shape = [8, 16, 40]);
    assert!(text.starts_with("trellis: 2.5 bits with codebook 3inst"), "{text}");
    assert_eq!(
        "9".parse::<CacheBits>().unwrap_err().to_string(),
        "\"9\" is no width of a quantised cache; choose 2 to 8 bits"
    );
}

#[test]
fn scales_that_are_not_finite_are_refused_with_their_place() {
    let broken = |value: f16, place: usize, length: usize| {
        let mut scales = vec![f16::ONE; length];
        scales[place] = value;
        // The view borrows the parts for longer than a local could live; a test may leak.
        &*scales.leak()
    };
    let text = refusal(|parts| parts.suh = broken(f16::NAN, 127, 128));
    assert!(text.starts_with("suh[127] is NaN"), "{text}");
    let text = refusal(|parts| parts.svh = broken(f16::INFINITY, 0, 256));
    assert!(text.starts_with("svh[0] is inf"), "{text}");
    let text = refusal(|parts| parts.bias = Some(broken(f16::NEG_INFINITY, 9, 256)));
    assert!(text.starts_with("bias[9] is -inf"), "{text}");
}

/// Why an embedding table of two tokens, 300 channels and 2 bits is refused after `change`.
fn embedding_refusal(change: impl for<'a> FnOnce(&mut EmbeddingParts<'a>)) -> Error {
    let trellis = [0; 2 * 2 * 33 * 2];
    let signs = [f16::ONE; 512];
    let mut parts = EmbeddingParts { trellis: &trellis, shape: [2, 2 * 33], signs: &signs, hidden: 300 };
    assert!(Embedding::new(parts).is_ok());
    change(&mut parts);
    Embedding::new(parts).expect_err("the change is a defect")
}

#[test]
fn embedding_tables_are_refused_when_their_sizes_disagree() {
    let error = embedding_refusal(|parts| parts.trellis = &parts.trellis[2..]);
    assert_eq!(error, Error::Size { what: "embedding trellis", unit: "bytes", found: 262, needed: 264 });
    let error = embedding_refusal(|parts| parts.signs = &parts.signs[256..]);
    assert_eq!(error, Error::Size { what: "signs", unit: "values", found: 256, needed: 512 });
    let error = embedding_refusal(|parts| parts.hidden = 256);
    assert_eq!(error, Error::EmbeddingRow { words: 66, groups: 1 });
    let error = embedding_refusal(|parts| parts.hidden = 0);
    assert_eq!(error, Error::Multiple { what: "hidden size", found: 0, multiple: 1 });
}

#[test]
fn embedding_signs_are_one_or_minus_one() {
    let signs: &[f16] = vec![f16::from_f32(0.5); 512].leak();
    let error = embedding_refusal(|parts| parts.signs = signs);
    assert_eq!(error, Error::NotASign { index: 0, value: 0.5 });
}

#[test]
fn a_token_outside_the_table_and_a_broken_scale_are_refused() {
    let mut trellis = [0; 2 * 33 * 2];
    // The scale of the second row is an infinite half.
    trellis[66..68].copy_from_slice(&0x7C00_u16.to_le_bytes());
    let signs = [f16::ONE; 256];
    let parts = EmbeddingParts { trellis: &trellis, shape: [2, 33], signs: &signs, hidden: 256 };
    let table = Embedding::new(parts).unwrap();
    let mut row = [f16::ZERO; 256];
    assert_eq!(table.row(0, &mut row), Ok(()));
    assert!(matches!(table.row(1, &mut row), Err(Error::NotFinite { index: 0, .. })));
    assert_eq!(table.row(2, &mut row), Err(Error::Token { token: 2, vocab: 2 }));
}
