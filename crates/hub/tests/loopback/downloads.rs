//! What arrives, where, and what is asked for it.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hub::Event;
use loopback::{Loopback, git_id, sha256};

use crate::scratch::{Scratch, fetch, name, noise, online, with_token};

const CONFIG: &[u8] = b"{\"model_type\": \"llama\"}";

fn paths(server: &Loopback) -> Vec<String> {
    server.take_requests().into_iter().map(|request| request.path).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_model_arrives_in_the_layout_of_the_hubs_other_clients() {
    let (server, cache) = (Loopback::start(), Scratch::new());
    let weights = noise(300_000);
    let commit = server.commit(
        "4.0bpw",
        &[
            ("README.md", b"text"),
            ("additional_chat_templates/tools.jinja", b"{{ tools }}"),
            ("config.json", CONFIG),
            ("model.safetensors", &weights),
            ("pytorch_model.bin", b"the same again"),
        ],
    );
    let folder = fetch(&online(&server, &cache), "org/model@4.0bpw").unwrap();

    assert_eq!(folder, cache.of_model("snapshots").join(&commit));
    assert_eq!(names(&folder), ["additional_chat_templates", "config.json", "model.safetensors"]);
    assert_eq!(fs::read(folder.join("config.json")).unwrap(), CONFIG);
    assert_eq!(fs::read(folder.join("additional_chat_templates/tools.jinja")).unwrap(), b"{{ tools }}");
    assert_eq!(fs::read(folder.join("model.safetensors")).unwrap(), weights);

    let link = |path: &str| fs::read_link(folder.join(path)).unwrap();
    assert_eq!(link("config.json"), PathBuf::from("../../blobs").join(git_id(CONFIG)));
    assert_eq!(link("model.safetensors"), PathBuf::from("../../blobs").join(sha256(&weights)));
    let template = PathBuf::from("../../../blobs").join(git_id(b"{{ tools }}"));
    assert_eq!(link("additional_chat_templates/tools.jinja"), template);
    let mut blobs = [git_id(CONFIG), git_id(b"{{ tools }}"), sha256(&weights)];
    blobs.sort();
    assert_eq!(names(&cache.of_model("blobs")), blobs);
    assert_eq!(fs::read_to_string(cache.of_model("refs/4.0bpw")).unwrap(), commit);

    let tree = fs::read(cache.of_model("trees").join(format!("{commit}.json"))).unwrap();
    let tree: serde_json::Value = serde_json::from_slice(&tree).unwrap();
    let large = &tree["files"]["model.safetensors"];
    assert_eq!((&tree["format_version"], &large["lfs_size"]), (&1.into(), &300_000.into()));
    assert_eq!(large["lfs_sha256"], sha256(&weights));
    assert_eq!(large["xet_hash"], sha256(&weights));
    assert_eq!(tree["files"].as_object().unwrap().len(), 5);
}

#[test]
fn what_is_there_is_not_asked_for_again() {
    let (server, cache) = (Loopback::start(), Scratch::new());
    let commit = server.commit("main", &[("config.json", CONFIG), ("model.safetensors", b"weights")]);
    let hub = online(&server, &cache);
    fetch(&hub, "org/model").unwrap();
    server.take_requests();

    fetch(&hub, "org/model").unwrap();
    assert_eq!(paths(&server), ["/api/models/org/model/revision/main"]);
    fetch(&hub, &format!("org/model@{commit}")).unwrap();
    assert!(server.take_requests().is_empty(), "a whole commit cannot change");
}

#[test]
fn a_branch_that_moves_on_brings_only_the_files_that_changed() {
    let (server, cache) = (Loopback::start(), Scratch::new());
    server.commit("main", &[("config.json", CONFIG), ("model.safetensors", b"weights")]);
    let hub = online(&server, &cache);
    fetch(&hub, "org/model").unwrap();
    server.take_requests();

    let commit = server.commit("main", &[("config.json", b"{}"), ("model.safetensors", b"weights")]);
    let folder = fetch(&hub, "org/model").unwrap();
    let resolved: Vec<_> = paths(&server).into_iter().filter(|path| path.contains("/resolve/")).collect();
    assert_eq!(resolved, [format!("/org/model/resolve/{commit}/config.json")]);
    assert_eq!(fs::read(folder.join("config.json")).unwrap(), b"{}");
    assert_eq!(fs::read(folder.join("model.safetensors")).unwrap(), b"weights");
    assert_eq!(fs::read_to_string(cache.of_model("refs/main")).unwrap(), commit);
}

#[test]
fn names_with_slashes_and_spaces_are_asked_for_in_their_encoded_form() {
    let (server, cache) = (Loopback::start(), Scratch::new());
    let files: [(&str, &[u8]); 3] =
        [("config.json", CONFIG), ("model.safetensors", b"weights"), ("a b#?.json", b"odd")];
    let commit = server.commit("refs/pr/1", &files);
    let folder = fetch(&online(&server, &cache), "org/model@refs/pr/1").unwrap();
    assert_eq!(fs::read(folder.join("a b#?.json")).unwrap(), b"odd");
    let paths = paths(&server);
    assert!(paths.contains(&"/api/models/org/model/revision/refs%2Fpr%2F1".into()));
    assert!(paths.contains(&format!("/org/model/resolve/{commit}/a%20b%23%3F.json")));
}

#[test]
fn a_listing_of_several_pages_is_read_to_its_end_from_the_same_hub() {
    let (server, cache) = (Loopback::start(), Scratch::new());
    let commit = server.commit(
        "main",
        &[("a.json", b"1"), ("b.json", b"2"), ("config.json", CONFIG), ("model.safetensors", b"weights")],
    );
    server.state().page = 2;
    let folder = fetch(&online(&server, &cache), "org/model").unwrap();
    assert_eq!(names(&folder), ["a.json", "b.json", "config.json", "model.safetensors"]);
    let pages: Vec<_> = paths(&server).into_iter().filter(|path| path.contains("/tree/")).collect();
    let first = format!("/api/models/org/model/tree/{commit}?recursive=true");
    assert_eq!(pages, [first.clone(), format!("{first}&cursor=2"), format!("{first}&cursor=4")]);
}

#[test]
fn the_token_goes_to_the_hub_and_to_no_other_host() {
    let (server, cache) = (Loopback::start(), Scratch::new());
    server.commit("main", &[("config.json", CONFIG), ("model.safetensors", b"weights")]);
    server.state().token = Some("hf_good");
    fetch(&with_token(&server, &cache, "hf_good"), "org/model").unwrap();
    let (other, hub): (Vec<_>, Vec<_>) =
        server.take_requests().into_iter().partition(|request| request.path.starts_with("/cdn/"));
    assert_eq!((other.len(), hub.len()), (1, 5));
    assert!(other.iter().all(|request| request.authorization.is_none()));
    assert!(hub.iter().all(|request| request.authorization.as_deref() == Some("Bearer hf_good")));
}

#[test]
fn what_is_told_adds_up_to_the_files_sizes() {
    let (server, cache) = (Loopback::start(), Scratch::new());
    let weights = noise(700_000);
    server.commit("main", &[("config.json", CONFIG), ("empty.json", b""), ("model.safetensors", &weights)]);
    let (mut planned, mut files, mut received) = (None, Vec::new(), 0);
    let watch: &mut hub::Watch<'_> = &mut |event| {
        match event {
            Event::Planned { files, bytes, present } => planned = Some((files, bytes, present)),
            Event::File { file, bytes, present } => files.push((file.to_owned(), bytes, present)),
            Event::Received { bytes } => received += bytes,
            other => panic!("nothing else should happen: {other:?}"),
        }
        ControlFlow::Continue(())
    };
    online(&server, &cache).snapshot(&name("org/model"), watch).unwrap();
    let (small, large) = (CONFIG.len() as u64, 700_000);
    assert_eq!(planned, Some((3, small + large, 0)));
    let file = |name: &str, bytes| (name.to_owned(), bytes, 0);
    assert_eq!(files, [file("config.json", small), file("empty.json", 0), file("model.safetensors", large)]);
    assert_eq!(received, small + large);
}
