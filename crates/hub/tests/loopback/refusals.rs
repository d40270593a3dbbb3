//! What cannot be had, and what is said about it.

use std::fs;
use std::ops::ControlFlow;

use hub::{Error, Event, Hub, Origin, Settings};
use loopback::{Loopback, sha256};

use crate::scratch::{Scratch, fetch, name, noise, online, settings, with_token};

/// A hub with one public model in the branches `main` and `4.0bpw`.
fn start() -> (Loopback, Scratch) {
    let (server, cache) = (Loopback::start(), Scratch::new());
    for branch in ["main", "4.0bpw"] {
        server.commit(branch, &[("config.json", b"{}"), ("model.safetensors", &noise(10_000))]);
    }
    (server, cache)
}

fn says(error: &Error, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

#[test]
fn a_wrong_token_is_told_with_the_place_it_came_from() {
    let (server, cache) = start();
    server.state().token = Some("hf_good");
    let error = fetch(&with_token(&server, &cache, "hf_bad"), "org/model").unwrap_err();
    assert!(matches!(&error, Error::Token { origin: Origin::Variable("HF_TOKEN"), .. }), "{error:?}");
    let words = "401: Invalid credentials in Authorization header";
    says(&error, &["the variable HF_TOKEN", "org/model", words, "/settings/tokens"]);
    assert!(!error.to_string().contains("hf_bad"));
}

#[test]
fn a_refusal_by_another_host_is_not_blamed_on_the_token() {
    let (server, cache) = start();
    server.state().token = Some("hf_good");
    server.state().refuses_large = Some(403);
    let error = fetch(&with_token(&server, &cache, "hf_good"), "org/model").unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    says(&error, &["localhost", "403"]);
}

#[test]
fn a_missing_or_private_model_is_told_with_what_was_sent() {
    let (server, cache) = start();
    let error = fetch(&online(&server, &cache), "org/other").unwrap_err();
    assert!(matches!(&error, Error::MissingRepository { origin: None, .. }), "{error:?}");
    says(&error, &["org/other", &server.endpoint(), "private", "set HF_TOKEN"]);

    server.state().token = Some("hf_good");
    let error = fetch(&with_token(&server, &cache, "hf_good"), "org/other").unwrap_err();
    assert!(matches!(&error, Error::MissingRepository { origin: Some(_), .. }), "{error:?}");
    says(&error, &["the one from the variable HF_TOKEN was sent"]);
}

#[test]
fn a_missing_revision_is_told_with_those_that_exist() {
    let (server, cache) = start();
    let commit = server.state().branches["main"].clone();
    server.state().tags.insert("v1".into(), commit);
    for revision in ["5.0bpw", "0123456789abcdef0123456789abcdef01234567"] {
        let error = fetch(&online(&server, &cache), &format!("org/model@{revision}")).unwrap_err();
        let Error::MissingRevision { existing, .. } = &error else { panic!("{error:?}") };
        assert_eq!(existing, &["4.0bpw", "main", "v1"]);
        says(&error, &["org/model", revision, "4.0bpw, main, v1"]);
    }
}

#[test]
fn a_branch_without_a_model_is_told_with_the_others() {
    let (server, cache) = start();
    server.commit("main", &[("README.md", b"see the branches")]);
    let error = fetch(&online(&server, &cache), "org/model").unwrap_err();
    assert!(matches!(error, Error::NoModel { .. }), "{error:?}");
    says(&error, &["\"main\"", "4.0bpw, main"]);
    assert!(!cache.of_model("").exists(), "nothing is kept of it");
}

#[test]
fn a_gated_model_is_told_with_the_page_of_its_conditions() {
    let (server, cache) = start();
    server.state().gated = true;
    let error = fetch(&online(&server, &cache), "org/model").unwrap_err();
    assert!(matches!(&error, Error::Gated { origin: None, .. }), "{error:?}");
    says(&error, &[&format!("{}/org/model", server.endpoint()), "set HF_TOKEN"]);
    server.state().token = Some("hf_good");
    let error = fetch(&with_token(&server, &cache, "hf_good"), "org/model").unwrap_err();
    assert!(matches!(&error, Error::Gated { origin: Some(_), .. }), "{error:?}");
}

#[test]
fn a_disk_that_is_too_small_is_told_before_anything_is_downloaded() {
    let (server, cache) = start();
    let small = settings(server.endpoint(), cache.path());
    // No disk has this much, so any disk is too small for it.
    let hub = Hub::new(Settings { keep_free: 1 << 60, ..small.clone() }).unwrap();
    let error = fetch(&hub, "org/model").unwrap_err();
    let Error::DiskTooSmall { missing, keep_free, free, folder } = &error else { panic!("{error:?}") };
    assert_eq!((*missing, *keep_free), (10_002, 1 << 60));
    assert!(*free > 0 && *free < 1 << 60);
    assert_eq!(folder, cache.path());
    says(&error, &["10.0 kB", &cache.path().display().to_string(), "HF_HUB_CACHE"]);
    let resolved = server.take_requests().iter().any(|request| request.path.contains("/resolve/"));
    assert!(!resolved, "no file was asked for");

    // What is there already needs no room, whole or in part.
    let partial = cache.of_model("blobs").join(format!("{}.incomplete", sha256(&noise(10_000))));
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    fs::write(&partial, &noise(10_000)[..4_000]).unwrap();
    let error = fetch(&hub, "org/model").unwrap_err();
    assert!(matches!(error, Error::DiskTooSmall { missing: 6_002, .. }), "{error:?}");
    fetch(&Hub::new(small).unwrap(), "org/model").unwrap();
    fetch(&hub, "org/model").unwrap();
}

#[test]
fn a_file_that_is_not_what_the_hub_lists_is_thrown_away() {
    let listed = noise(10_000);
    let mut flipped = listed.clone();
    flipped[5_000] ^= 1;
    let longer = noise(10_001);
    for (sent, word) in [(flipped, "SHA-256"), (longer, "longer"), (listed[..9_000].to_vec(), "ends before")]
    {
        let (server, cache) = start();
        server.state().sends_instead = Some(sent);
        let hub = online(&server, &cache);
        let error = fetch(&hub, "org/model").unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
        says(&error, &["model.safetensors", word]);
        let blob = cache.of_model("blobs").join(sha256(&listed));
        assert!(!blob.exists() && !blob.with_extension("incomplete").exists());
        assert_eq!(hub.cached().unwrap()[0].missing, ["model.safetensors"]);

        server.state().sends_instead = None;
        let folder = fetch(&hub, "org/model").unwrap();
        assert_eq!(fs::read(folder.join("model.safetensors")).unwrap(), listed);
    }
}

#[test]
fn a_damaged_leftover_does_not_get_into_the_cache() {
    let (server, cache) = start();
    let partial = cache.of_model("blobs").join(format!("{}.incomplete", sha256(&noise(10_000))));
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    fs::write(&partial, [0; 4_000]).unwrap();
    let error = fetch(&online(&server, &cache), "org/model").unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    assert!(!partial.exists());
    fetch(&online(&server, &cache), "org/model").unwrap();
}

#[test]
fn a_hub_that_lists_paths_outside_the_repository_is_refused() {
    let (server, cache) = start();
    let id = "a".repeat(40);
    server.state().lists_also =
        Some(format!(r#"{{"type": "file", "oid": "{id}", "size": 1, "path": "../../outside.json"}}"#));
    let error = fetch(&online(&server, &cache), "org/model").unwrap_err();
    assert!(matches!(error, Error::Answer { .. }), "{error:?}");
    says(&error, &["../../outside.json"]);
}

#[test]
fn a_hub_that_stays_busy_is_told_after_the_last_try() {
    let (server, cache) = start();
    server.state().busy = usize::MAX;
    let mut retries = 0;
    let failed = online(&server, &cache).snapshot(&name("org/model"), &mut |event| {
        retries += u32::from(matches!(event, Event::Retrying { .. }));
        ControlFlow::Continue(())
    });
    let error = failed.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    says(&error, &[&server.endpoint(), "503"]);
    assert_eq!(retries, hub::TRIES - 1);
    assert_eq!(server.take_requests().len() as u32, hub::TRIES);
}

#[test]
fn endpoints_and_proxies_that_are_no_addresses_are_refused_at_once() {
    let cache = Scratch::new();
    let mirror = settings("mirror.example".into(), cache.path());
    says(&Hub::new(mirror.clone()).err().unwrap(), &["endpoint", "mirror.example", "https://"]);
    let proxied = Settings { endpoint: "http://127.0.0.1:1".into(), proxy: Some("ftp://x".into()), ..mirror };
    says(&Hub::new(proxied).err().unwrap(), &["proxy", "ftp://x"]);
}
