//! Models of published configurations, with no weights present, and synthetic ones of their shapes.

use std::path::{Path, PathBuf};

use model::{BuildOptions, Model, Shape};
use program::{Format, Kind, Op, Score, Storage};

const OPTIONS: BuildOptions = BuildOptions { cache: Format::F16 };

fn config(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("shapes").join(format!("{name}.json"))
}

#[test]
fn the_published_parameter_counts_come_out_exactly() {
    for (name, parameters) in [
        ("glm-4.7-flash", 29_943_393_920),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.2-1b", 1_235_814_400),
        ("qwen3-30b-a3b", 30_532_122_624),
    ] {
        let published = Model::published(&config(name)).unwrap();
        assert_eq!(published.parameters(), parameters, "{name}");
        let synthetic = Model::synthetic(&Shape::named(name).unwrap(), &OPTIONS).unwrap();
        assert_eq!(synthetic.spec.parameters(), parameters, "{name}");
    }
}

#[test]
fn every_shape_that_comes_with_the_program_has_a_published_configuration() {
    let mut names: Vec<&str> = Shape::names().collect();
    names.sort_unstable();
    assert_eq!(names, ["glm-4.7-flash", "llama-3.1-8b", "llama-3.2-1b", "qwen3-30b-a3b"]);
    let refused = Shape::named("gpt-2").unwrap_err().to_string();
    assert_eq!(
        refused,
        "gpt-2: is no known shape; choose glm-4.7-flash, llama-3.1-8b, llama-3.2-1b, qwen3-30b-a3b or the path of a config.json"
    );
}

#[test]
fn a_token_of_glm_4_7_flash_takes_as_many_cached_bytes_as_its_latent_and_rotary_key() {
    let model = Model::synthetic(&Shape::named("glm-4.7-flash").unwrap(), &OPTIONS).unwrap();
    let bytes: usize = model.spec.caches.iter().map(program::CacheSpec::row_bytes).sum();
    assert_eq!(bytes, 54_144);
    assert_eq!(model.facts.context, 202_752);
    assert_eq!(model.facts.eos, [154_820, 154_827, 154_829]);
}

#[test]
fn a_synthetic_model_stores_codes_but_for_routers_tables_and_what_is_taken_apart() {
    let mut shape = Shape::named("glm-4.7-flash").unwrap().with_layers(2);
    (shape.bits, shape.head_bits) = ("3.5".parse().unwrap(), "6".parse().unwrap());
    let model = Model::synthetic(&shape, &OPTIONS).unwrap();
    assert_eq!(model.facts.layers, 2);
    for weight in &model.spec.weights {
        for part in &weight.parts {
            let bits = match part.storage {
                Storage::Exl3 { bits, .. } => Some(bits.as_f32()),
                _ => None,
            };
            let want = match weight.kind {
                Kind::Linear { .. } if part.name.ends_with("mlp.gate") => None,
                Kind::Linear { .. } if part.name == "lm_head" => Some(6.0),
                Kind::Linear { .. } => Some(3.5),
                _ => None,
            };
            assert_eq!(bits, want, "{}", part.name);
        }
    }
    let hashed = model.spec.programs[0].ops.iter().filter_map(|op| match op {
        Op::Route { how, .. } => Some(how.score),
        _ => None,
    });
    assert_eq!(hashed.collect::<Vec<_>>(), [Score::Hash { layer: 1 }]);
}

#[test]
fn half_bits_of_a_synthetic_model_need_the_codebook_that_has_them() {
    let mut shape = Shape::named("llama-3.2-1b").unwrap();
    shape.bits = "1.5".parse().unwrap();
    shape.codebook = "mcg".parse().unwrap();
    let refused = Model::synthetic(&shape, &OPTIONS).err().unwrap().to_string();
    assert_eq!(
        refused,
        "llama-3.2-1b: trellis: 1.5 bits with codebook mcg, but half bits exist with mul1 only"
    );
}

#[test]
fn the_same_shape_gives_the_same_numbers_each_time_and_no_two_weights_the_same() {
    let folder = std::env::temp_dir().join(format!("same-{}", std::process::id()));
    let shape = Shape::from_config(&config("../tests/programs/glm4_moe_lite")).unwrap();
    // The tokenizer of a synthetic model has 256 ids.
    let json = std::fs::read_to_string(config("../tests/programs/glm4_moe_lite")).unwrap();
    assert!(Model::synthetic(&shape, &OPTIONS).is_err());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("shape.json"), json.replace(": 10,", ": 256,")).unwrap();
    let shape = Shape::from_config(&folder.join("shape.json")).unwrap();
    let files = [1, 2].map(|_| {
        model::write_checkpoint(&shape, &folder).unwrap();
        golden::Tensors::open(folder.join("model.safetensors"))
    });
    std::fs::remove_dir_all(&folder).unwrap();
    for name in files[0].names() {
        assert_eq!(files[0].bytes(&name), files[1].bytes(&name), "{name}");
    }
    let expert = |index: u32| files[0].bytes(&format!("model.layers.1.mlp.experts.{index}.up_proj.trellis"));
    assert_ne!(expert(0), expert(1));
}
