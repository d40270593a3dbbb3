//! The text of the sample models is what it was when a person last read it.

use program::conformance::{Architecture, Sample};
use program::{Format, Score, text};

fn text_of(architecture: Architecture) -> String {
    let sample = Sample::new(architecture, Format::F16).expect("the samples fit together");
    text::model(&sample.spec)
}

#[test]
fn a_dense_model_reads_as_recorded() {
    assert_eq!(text_of(Architecture::Dense), include_str!("text/dense.txt"));
}

#[test]
fn a_model_with_latent_attention_and_experts_reads_as_recorded() {
    assert_eq!(text_of(Architecture::Experts(Score::Sigmoid)), include_str!("text/experts.txt"));
}
