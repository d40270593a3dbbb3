//! Models of published configurations, with no weights present.

use std::path::{Path, PathBuf};

use model::{BuildOptions, Model, Shape};
use program::Format;

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
        let shape = Shape::named(name).unwrap();
        let synthetic = Model::synthetic(&shape, &BuildOptions { cache: Format::F16 }).unwrap();
        assert_eq!(synthetic.spec.parameters(), parameters, "{name}");
    }
}
