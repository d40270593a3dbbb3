//! A published model that chats, in a GGUF file, once `tools/fetch-smollm2` has fetched it.

use crate::{billfish, repository};

#[test]
fn a_gguf_file_is_inspected_like_any_model() {
    if !repository().join("models/smollm2").is_dir() {
        println!("skipped: models/smollm2 is not there; run tools/fetch-smollm2");
        return;
    }
    let found = billfish("inspect models/smollm2 --json").json();
    assert_eq!((&found["architecture"], &found["context"]), (&"llama".into(), &8192.into()));
    assert_eq!(found["parameters"], 134_515_008);
    assert_eq!(found["unused"], serde_json::json!([]));
}
