//! Models of published configurations, with no weights present, and synthetic ones of their shapes.

use std::path::{Path, PathBuf};

use model::{BuildOptions, Model, Shape};
use program::{Format, Kind, Op, Score, Storage};

const OPTIONS: BuildOptions = BuildOptions { cache: Format::F16 };

fn config(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("shapes").join(format!("{name}.json"))
}

/// The counts are those that the makers or the hub tell for the files, without scales and layers that only
/// predict drafts. By hand, with the tables [vocab, hidden] and the norms of a layer taken as read:
///
/// ```text
/// deepseek-v3   2 x 129280 x 7168 + 7168, 61 layers of 187,121,664 (latent attention of 128 heads and two norms),
///               3 x (3 x 7168 x 18432), 58 x (257 x 3 x 7168 x 2048 + 256 x 7168 + 256)
/// glm-4.5-air   2 x 151552 x 4096 + 4096, 46 layers of 109,074,432 (96 + 8 + 8 + 96 heads of 128, biases of 112 of
///               them, two norms), 3 x 4096 x 10944, 45 x (129 x 3 x 4096 x 1408 + 128 x 4096 + 128)
/// minimax-m2    2 x 200064 x 3072 + 3072, 62 x (44,053,504 (48 + 8 + 8 + 48 heads of 128, norms of 56 of them, two
///               norms) + 256 x 3 x 3072 x 1536 + 256 x 3072 + 256)
/// olmo-2-7b     2 x 100352 x 4096 + 4096, 32 x (67,125,248 (4 x 32 heads of 128, norms of 64 of them, two norms) +
///               3 x 4096 x 11008)
/// qwen3-32b     2 x 151936 x 5120 + 5120, 64 x (94,382,336 (64 + 8 + 8 + 64 heads of 128, two norms of a head, two
///               norms) + 3 x 5120 x 25600)
/// ```
#[test]
fn the_published_parameter_counts_come_out_exactly() {
    for (name, parameters) in [
        ("deepseek-v3", 671_026_419_200),
        ("glm-4.5-air", 106_852_251_264),
        ("glm-4.7-flash", 29_943_393_920),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.2-1b", 1_235_814_400),
        ("minimax-m2", 228_689_764_864),
        ("olmo-2-7b", 7_298_617_344),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("qwen3-32b", 32_762_123_264),
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
    let known = "deepseek-v3, glm-4.5-air, glm-4.7-flash, llama-3.1-8b, llama-3.2-1b, minimax-m2, olmo-2-7b, \
                 qwen3-30b-a3b, qwen3-32b";
    assert_eq!(names.join(", "), known);
    let refused = Shape::named("gpt-2").unwrap_err().to_string();
    assert_eq!(refused, format!("gpt-2: is no known shape; choose {known} or the path of a config.json"));
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
