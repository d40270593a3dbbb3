//! What the cache alone can give.

use std::fs;
use std::net::TcpListener;
use std::ops::ControlFlow;

use hub::{Error, Event, Hub};
use loopback::{Loopback, sha256};

use crate::scratch::{Scratch, fetch, name, offline, online, settings};

/// A hub with one model of two shards, and a cache that has it.
fn fetched() -> (Loopback, Scratch) {
    let (server, cache) = (Loopback::start(), Scratch::new());
    let index = br#"{"weight_map":
        {"x": "model-00001-of-00002.safetensors", "y": "model-00002-of-00002.safetensors"}}"#;
    server.commit(
        "4.0bpw",
        &[
            ("config.json", b"{}"),
            ("model-00001-of-00002.safetensors", b"one"),
            ("model-00002-of-00002.safetensors", b"two"),
            ("model.safetensors.index.json", index),
        ],
    );
    fetch(&online(&server, &cache), "org/model@4.0bpw").unwrap();
    server.take_requests();
    (server, cache)
}

#[test]
fn offline_the_cache_is_used_and_nothing_is_sent() {
    let (server, cache) = fetched();
    let folder = fetch(&offline(&server, &cache), "org/model@4.0bpw").unwrap();
    assert_eq!(fs::read(folder.join("model-00002-of-00002.safetensors")).unwrap(), b"two");
    let commit = folder.file_name().unwrap().to_str().unwrap();
    assert_eq!(fetch(&offline(&server, &cache), &format!("org/model@{commit}")).unwrap(), folder);
    assert!(server.take_requests().is_empty());
}

#[test]
fn offline_a_revision_that_is_not_there_is_told_with_those_that_are() {
    let (server, cache) = fetched();
    let error = fetch(&offline(&server, &cache), "org/model").unwrap_err();
    let Error::NotCached { cached, .. } = &error else { panic!("{error:?}") };
    assert_eq!(cached, &["4.0bpw"]);
    let message = error.to_string();
    assert!(message.contains(&cache.path().display().to_string()) && message.contains("4.0bpw"), "{message}");
    let error = fetch(&offline(&server, &cache), "org/other").unwrap_err();
    assert!(matches!(&error, Error::NotCached { cached, .. } if cached.is_empty()), "{error:?}");
    assert!(server.take_requests().is_empty());
}

#[test]
fn offline_a_missing_file_is_named() {
    let (server, cache) = fetched();
    fs::remove_file(cache.of_model("blobs").join(sha256(b"two"))).unwrap();
    let error = fetch(&offline(&server, &cache), "org/model@4.0bpw").unwrap_err();
    let Error::Incomplete { missing, .. } = &error else { panic!("{error:?}") };
    assert_eq!(missing, &["model-00002-of-00002.safetensors"]);
    assert!(error.to_string().contains("model-00002-of-00002.safetensors"));
}

#[test]
fn a_cache_without_lists_of_files_is_judged_by_the_index() {
    let (server, cache) = fetched();
    fs::remove_dir_all(cache.of_model("trees")).unwrap();
    let folder = fetch(&offline(&server, &cache), "org/model@4.0bpw").unwrap();
    let missing = |file: &str| {
        fs::remove_file(folder.join(file)).unwrap();
        match fetch(&offline(&server, &cache), "org/model@4.0bpw") {
            Err(Error::Incomplete { missing, .. }) => missing,
            other => panic!("{other:?}"),
        }
    };
    let second = "model-00002-of-00002.safetensors";
    assert_eq!(missing(second), [second]);
    assert_eq!(missing("config.json"), ["config.json", second]);
    fs::remove_file(folder.join("model.safetensors.index.json")).unwrap();
    assert_eq!(missing("model-00001-of-00002.safetensors"), ["config.json", "model.safetensors"]);
}

#[test]
fn an_update_that_was_stopped_leaves_what_was_there_usable() {
    let (server, cache) = fetched();
    let before = fetch(&offline(&server, &cache), "org/model@4.0bpw").unwrap();
    server.commit("4.0bpw", &[("config.json", b"{ }"), ("model.safetensors", b"three")]);
    let stopped = online(&server, &cache).snapshot(&name("org/model@4.0bpw"), &mut |event| match event {
        Event::File { file: "model.safetensors", .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert_eq!(fetch(&offline(&server, &cache), "org/model@4.0bpw").unwrap(), before);
}

#[test]
fn a_hub_out_of_reach_is_told_and_the_cache_is_used() {
    let (_server, cache) = fetched();
    // An address at which nothing listens any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hub = Hub::new(settings(format!("http://{gone}"), cache.path())).unwrap();
    let mut told = None;
    let folder = hub.snapshot(&name("org/model@4.0bpw"), &mut |event| {
        if let Event::Unreachable { error, path } = event {
            told = Some((error.to_string(), path.to_owned()));
        }
        ControlFlow::Continue(())
    });
    let (error, path) = told.unwrap();
    assert_eq!(folder.unwrap(), path);
    assert!(error.contains(&gone.to_string()), "{error}");

    // Without a whole copy it is an error.
    fs::remove_file(cache.of_model("blobs").join(sha256(b"two"))).unwrap();
    assert!(matches!(fetch(&hub, "org/model@4.0bpw"), Err(Error::Unreachable { .. })));
    assert!(matches!(fetch(&hub, "org/model"), Err(Error::Unreachable { .. })));
}
