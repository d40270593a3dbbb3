//! One golden layer, or embedding table, with what was computed from it.

use exl3::{Codebook, Embedding, EmbeddingParts, Linear, LinearParts};
use golden::Tensors;
use half::f16;

/// A layer's tensors, owned.
pub(crate) struct Layer {
    pub(crate) trellis: Vec<u8>,
    pub(crate) shape: [usize; 3],
    pub(crate) suh: Vec<f16>,
    pub(crate) svh: Vec<f16>,
    pub(crate) bias: Option<Vec<f16>>,
    pub(crate) codebook: Codebook,
}

impl Layer {
    pub(crate) fn read(checkpoint: &Tensors, key: &str, codebook: Codebook) -> Layer {
        let name = |part: &str| format!("{key}.{part}");
        Layer {
            trellis: checkpoint.bytes(&name("trellis")).to_vec(),
            shape: checkpoint.shape(&name("trellis")).try_into().expect("a trellis has three dimensions"),
            suh: checkpoint.f16(&name("suh")),
            svh: checkpoint.f16(&name("svh")),
            bias: checkpoint.has(&name("bias")).then(|| checkpoint.f16(&name("bias"))),
            codebook,
        }
    }

    pub(crate) fn view(&self) -> Linear<'_> {
        let parts = LinearParts {
            trellis: &self.trellis,
            shape: self.shape,
            suh: &self.suh,
            svh: &self.svh,
            bias: self.bias.as_deref(),
            codebook: self.codebook,
        };
        Linear::new(parts).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The codebook that the marker tensors beside a trellis name.
pub(crate) fn codebook(checkpoint: &Tensors, key: &str) -> Codebook {
    let named = Codebook::ALL.into_iter().find(|codebook| match codebook.marker() {
        Some((suffix, value)) => {
            let name = format!("{key}.{suffix}");
            checkpoint.has(&name) && checkpoint.ids(&name) == [value]
        }
        None => false,
    });
    named.unwrap_or(Codebook::ThreeInst)
}

/// Fails unless the first rows of the decoded weights are the golden ones, bit by bit.
pub(crate) fn assert_inner(layer: &Linear<'_>, golden: &Tensors, key: &str) {
    let want = golden.f16(&format!("{key}.inner"));
    assert_bits(&layer.inner()[..want.len()], &want, key);
}

/// The relative error of the golden output.
pub(crate) fn output_error(layer: &Linear<'_>, golden: &Tensors, key: &str) -> f64 {
    let x = golden.f32(&format!("{key}.x"));
    let rows = golden.shape(&format!("{key}.x"))[0];
    golden::frobenius(&layer.apply(&x, rows), &golden.f32(&format!("{key}.y")))
}

/// Fails unless each golden row is decoded bit by bit from the row of its token.
pub(crate) fn assert_embedding_rows(checkpoint: &Tensors, key: &str, tokens: &[u32], want: &[f16]) {
    let signs = checkpoint.f16(&format!("{key}.signs"));
    let hidden = want.len() / tokens.len();
    let name = format!("{key}.trellis");
    let shape = checkpoint.shape(&name).try_into().expect("an embedding trellis has two dimensions");
    let table = EmbeddingParts { trellis: checkpoint.bytes(&name), shape, signs: &signs, hidden };
    let table = Embedding::new(table).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(table.bits().to_string(), "4");
    let mut row = vec![f16::ZERO; hidden];
    for (&token, want) in tokens.iter().zip(want.chunks_exact(hidden)) {
        table.row(token as usize, &mut row).unwrap_or_else(|error| panic!("{error}"));
        assert_bits(&row, want, &format!("row {token} of {key}"));
    }
}

fn assert_bits(got: &[f16], want: &[f16], what: &str) {
    let wrong = got.iter().zip(want).filter(|(got, want)| got.to_bits() != want.to_bits()).count();
    assert_eq!(wrong, 0, "{what}: that many of {} values differ", want.len());
}
