//! What the cache says it holds.

use std::fs;
use std::ops::ControlFlow;

use hub::Event;
use loopback::Loopback;

use crate::scratch::{Scratch, fetch, name, online};

#[test]
fn models_are_listed_by_name_with_their_sizes_and_what_they_lack() {
    let (server, cache) = (Loopback::start(), Scratch::new());
    let hub = online(&server, &cache);
    assert_eq!(hub.cached().unwrap(), []);

    let old = server.commit("4.0bpw", &[("config.json", b"{}"), ("model.safetensors", b"four bits")]);
    fetch(&hub, "org/model@4.0bpw").unwrap();
    let new = server.commit("4.0bpw", &[("config.json", b"{ }"), ("model.safetensors", b"four bits")]);
    fetch(&hub, "org/model@4.0bpw").unwrap();
    server.commit("6.0bpw", &[("config.json", b"{}"), ("model.safetensors", b"six bits")]);
    let stopped = hub.snapshot(&name("org/model@6.0bpw"), &mut |event| match event {
        Event::File { file: "model.safetensors", .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    stopped.unwrap_err();

    let models = hub.cached().unwrap();
    let found: Vec<_> = models
        .iter()
        .map(|model| {
            (model.name.to_string(), model.bytes, model.missing.iter().map(String::as_str).collect())
        })
        .collect();
    let mut needed = [
        (format!("org/model@{old}"), 2 + 9, vec![]),
        ("org/model@4.0bpw".to_owned(), 3 + 9, vec![]),
        ("org/model@6.0bpw".to_owned(), 2, vec!["model.safetensors"]),
    ];
    needed.sort();
    assert_eq!(found, needed);
    let current = models.iter().find(|model| model.name.revision() == "4.0bpw").unwrap();
    assert_eq!(current.commit, new);
    assert_eq!(current.path, cache.of_model("snapshots").join(new));
}

#[test]
fn what_is_no_model_is_left_out() {
    let (server, cache) = (Loopback::start(), Scratch::new());
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let write = |path: &str| {
        let path = cache.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "content").unwrap();
    };
    write(&format!("models--org--words/snapshots/{commit}/config.json"));
    write(&format!("models--org--words/snapshots/{commit}/pytorch_model.bin"));
    write(&format!("datasets--org--data/snapshots/{commit}/model.safetensors"));
    write(&format!("models--alone/snapshots/{commit}/model.safetensors"));
    write("models--org--odd/snapshots/notes/model.safetensors");
    write("version.txt");
    assert_eq!(online(&server, &cache).cached().unwrap(), []);

    // The layout of an older client: a link or a file a path, and no list of files.
    write(&format!("models--org--words/snapshots/{commit}/model.safetensors"));
    let models = online(&server, &cache).cached().unwrap();
    assert_eq!(models.len(), 1);
    assert_eq!((models[0].name.to_string(), models[0].bytes), (format!("org/words@{commit}"), 21));
    assert!(models[0].missing.is_empty());
}
