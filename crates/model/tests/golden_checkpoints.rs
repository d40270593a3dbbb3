//! Every checkpoint of the shared golden collection opens, and nothing in it is left over.

use model::{BuildOptions, Model, Why};
use program::Format;

#[test]
fn every_tensor_of_every_golden_checkpoint_is_used_or_known_as_unused() {
    let Some(shared) = golden::shared() else {
        println!("skipped: ../shared is not here");
        return;
    };
    let folders = [
        "conversions/glm4-moe-lite-4bpw-mul1",
        "conversions/llama-even",
        "conversions/llama-even-1.5bpw-mul1-eb4",
        "conversions/llama-even-2bpw-mcg",
        "conversions/llama-even-3.5bpw-mul1-hb2.5",
        "conversions/llama-even-4bpw-3inst",
        "conversions/llama-even-5bpw-mul1",
        "conversions/qwen2",
        "conversions/qwen2-6bpw-mul1",
        "conversions/qwen3-moe",
        "conversions/qwen3-moe-3.5bpw-mul1",
        "conversions/tiny-glm-2bpw-mul1",
        "conversions/tiny-glm-3bpw-mul1",
        "conversions/tiny-glm-4bpw-mul1",
        "sources/glm4-moe-lite",
        "sources/llama-odd",
        "sources/llama-rope-linear",
        "sources/llama-rope-llama3",
        "sources/llama-rope-yarn",
        "sources/qwen3-moe-raw-gates",
    ];
    for folder in folders {
        let model = Model::open(&shared.join("golden").join(folder), &BuildOptions { cache: Format::F16 });
        let model = model.unwrap_or_else(|error| panic!("{error}"));
        let drafts = model.unused().iter().filter(|unused| unused.why == Why::Draft).count();
        assert_eq!(drafts, model.unused().len(), "{folder}");
        assert_eq!(drafts > 0, folder.contains("tiny-glm"), "{folder}");
    }
}
