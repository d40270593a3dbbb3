//! The larger collection beside the repository: every golden layer of every conversion.

use golden::Tensors;

use crate::layer::{Layer, assert_embedding_rows, assert_inner, codebook, output_error};

/// Layers with golden values in the whole collection.
const LAYERS: usize = 90;

/// Calls `check` with each golden layer: checkpoint, golden values, the layer's name. Gives their number, or
/// nothing where the collection is absent.
fn for_each_layer(mut check: impl FnMut(&Tensors, &Tensors, &str)) -> Option<usize> {
    let conversions = golden::shared()?.join("golden/conversions");
    let entries = std::fs::read_dir(&conversions).unwrap_or_else(|error| panic!("{conversions:?}: {error}"));
    let mut seen = 0;
    for entry in entries {
        let folder = entry.unwrap_or_else(|error| panic!("{conversions:?}: {error}")).path();
        let golden = Tensors::open(folder.join("golden.safetensors"));
        let checkpoint = Tensors::open(folder.join("model.safetensors"));
        for key in golden.names().iter().filter_map(|name| name.strip_suffix(".inner")) {
            check(&checkpoint, &golden, key);
            seen += 1;
        }
    }
    Some(seen)
}

#[test]
fn every_layer_of_the_collection_gives_its_golden_weights_and_output() {
    let mut worst = [0.0_f64; 2];
    let seen = for_each_layer(|checkpoint, golden, key| {
        let layer = Layer::read(checkpoint, key, codebook(checkpoint, key));
        let layer = layer.view();
        let inner = golden.f16(&format!("{key}.inner"));
        assert_eq!(inner.len(), layer.in_features() * layer.out_features(), "{key}");
        assert_inner(&layer, golden, key);

        // The golden weight is f16 and was rounded to f16 after each of several additions: about
        // sqrt(14) 2^-12 relative to its root mean square.
        let weight = golden::frobenius(&layer.weight(), &golden.f32(&format!("{key}.weight")));
        assert!(weight < 1e-3, "{key}.weight: {weight:.1e}");
        let output = output_error(&layer, golden, key);
        assert!(output < 3e-3, "{key}.y: {output:.1e}");
        worst = [worst[0].max(weight), worst[1].max(output)];
    });
    match seen {
        None => println!("skipped: there is no ../shared/golden"),
        Some(seen) => {
            assert_eq!(seen, LAYERS, "layers in the collection");
            println!("worst of {seen} layers: weight {:.1e}, output {:.1e}", worst[0], worst[1]);
        }
    }
}

#[test]
fn embedding_rows_of_the_collection_decode_bit_by_bit() {
    let Some(shared) = golden::shared() else {
        println!("skipped: there is no ../shared/golden");
        return;
    };
    let folder = shared.join("golden/conversions/llama-even-1.5bpw-mul1-eb4");
    let checkpoint = Tensors::open(folder.join("model.safetensors"));
    let golden = Tensors::open(folder.join("golden.safetensors"));
    let tokens = golden.ids("ids");
    let rows = golden.f16("model.embed_tokens.rows");
    assert_embedding_rows(&checkpoint, "model.embed_tokens", &tokens, &rows);
}
