//! `billfish verify`.

use crate::checkpoints::llama_shape;
use crate::{billfish, command, finish};

#[test]
fn the_cpu_agrees_with_the_reference_in_every_operation() {
    let found = billfish("verify models/tiny-glm --against reference --json").json();
    assert_eq!(found["agrees"], true, "{found}");
    assert_eq!(found["first_difference"], serde_json::Value::Null);
    let count = |op: &str| {
        let kinds = found["kinds"].as_array().unwrap();
        kinds.iter().find(|kind| kind["op"] == op).unwrap()["count"].as_u64().unwrap()
    };
    // Six layers in two steps, the first without experts.
    assert_eq!([count("attend_mla"), count("experts"), count("answer")], [12, 10, 2]);
}

#[test]
fn a_random_model_can_be_verified_without_a_file() {
    let (_folder, shape) = llama_shape();
    let mut command =
        command("verify --bits 3 --codebook mcg --layers 2 --tokens 3 --against reference --shape");
    let text = finish(command.arg(shape)).text();
    assert!(text.contains("agrees with the reference"), "{text}");
}
