//! Whatever the bytes are: an error with a sentence, never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::folder::{Folder, GLM, LLAMA, join};

/// Opens and loads; both outcomes are fine.
fn survives(folder: &Folder) {
    if let Err(error) = folder.load() {
        assert!(!error.to_string().is_empty());
    }
}

/// JSON of up to a few levels.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just("F16"), Just("I16"), Just("BF16"), Just("F4"), Just("yarn"), Just("sparse")]
            .prop_map(Value::from),
        (0..400u64).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let key = prop_oneof![
            Just("dtype"),
            Just("shape"),
            Just("data_offsets"),
            Just("rope_type"),
            Just("rope_theta"),
            Just("factor"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4).prop_map(|entries| entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_bytes_as_weights_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = Folder::empty();
        folder.write("config.json", LLAMA);
        folder.write("model.safetensors", &bytes);
        survives(&folder);
        folder.write("model.safetensors", join(&String::from_utf8_lossy(&bytes), &[0; 16]));
        survives(&folder);
        folder.write("model.safetensors.index.json", &bytes);
        survives(&folder);
    }

    #[test]
    fn any_json_as_a_header_or_an_index_is_refused_without_a_panic(header in any_json(), name in "[a-z.]{0,9}") {
        let folder = Folder::empty();
        folder.write("config.json", LLAMA);
        for json in [&header, &json!({ name: header })] {
            folder.write("model.safetensors", join(&json.to_string(), &[0; 64]));
            survives(&folder);
        }
        folder.write("model.safetensors.index.json", json!({ "weight_map": header }).to_string());
        survives(&folder);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_value_of_any_key_opens_or_is_refused_without_a_panic(which in any::<prop::sample::Index>(), value in any_json()) {
        for (config, folder) in [(LLAMA, llama()), (GLM, glm())] {
            let mut keys: Vec<String> = serde_json::from_str::<serde_json::Map<String, Value>>(config).unwrap().into_iter().map(|(key, _)| key).collect();
            keys.extend(["rope_scaling", "rope_parameters", "text_config", "eos_token_id", "mlp_layer_types", "layer_types", "head_dim", "tie_word_embeddings"].map(String::from));
            let mut changed: Value = serde_json::from_str(config).unwrap();
            changed[which.get(&keys)] = value.clone();
            folder.write("config.json", changed.to_string());
            survives(folder);
        }
    }

    #[test]
    fn any_change_of_one_tensor_opens_or_is_refused_without_a_panic(
        which in any::<prop::sample::Index>(),
        dtype in prop_oneof![Just("F16"), Just("I16"), Just("BF16"), Just("F32"), Just("I32"), Just("F8_E4M3")],
        shape in prop::collection::vec(0..20usize, 0..4),
        seed in any::<u64>(),
    ) {
        let folder = Folder::changed(LLAMA, |tensors| {
            let name = which.get(&tensors.keys().cloned().collect::<Vec<_>>()).clone();
            let tensor = tensors.get_mut(&name).unwrap();
            let size = match dtype { "F32" | "I32" => 4, "F8_E4M3" => 1, _ => 2 };
            tensor.dtype = dtype.into();
            // Either another shape, or the same one with other numbers.
            if seed % 2 == 0 {
                tensor.shape = shape;
            }
            let bytes = size * tensor.shape.iter().product::<usize>();
            tensor.data = program::random::SplitMix64::new(seed).bytes(bytes);
        });
        survives(&folder);
    }
}

fn llama() -> &'static Folder {
    static FOLDER: std::sync::OnceLock<Folder> = std::sync::OnceLock::new();
    FOLDER.get_or_init(|| Folder::with(LLAMA))
}

fn glm() -> &'static Folder {
    static FOLDER: std::sync::OnceLock<Folder> = std::sync::OnceLock::new();
    FOLDER.get_or_init(|| Folder::with(GLM))
}
