//! Models by name, from a small hub on a loopback address.

use std::path::{Path, PathBuf};
use std::process::Command;

use loopback::{Loopback, sha256};
use tempfile::TempDir;

use crate::{Finished, command, finish, repository};

/// The files of the model that ships, which the hub has as `org/model`.
const FILES: [&str; 5] =
    ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];

const WEIGHTS: &str = "model.safetensors";

/// A hub, and an empty home.
struct Place {
    server: Loopback,
    home: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { server: Loopback::start(), home: TempDir::new().unwrap() }
    }

    /// A hub that has the model that ships at the revision `4.0bpw`; its commit comes back too.
    fn with_model() -> (Place, String) {
        let place = Place::new();
        let files: Vec<(&str, Vec<u8>)> =
            FILES.iter().map(|name| (*name, std::fs::read(shipped(name)).unwrap())).collect();
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        let commit = place.server.commit("4.0bpw", &files);
        (place, commit)
    }

    /// The command, which asks this hub.
    fn command(&self, words: &str) -> Command {
        let mut command = command(words);
        command
            .env("HF_HOME", self.home.path())
            .env("HF_ENDPOINT", self.server.endpoint())
            .env_remove("HF_HUB_OFFLINE");
        command
    }

    fn run(&self, words: &str) -> Finished {
        finish(&mut self.command(words))
    }

    fn offline(&self, words: &str) -> Finished {
        finish(self.command(words).env("HF_HUB_OFFLINE", "1"))
    }

    fn model(&self) -> PathBuf {
        self.home.path().join("hub/models--org--model")
    }

    fn snapshot(&self, commit: &str) -> PathBuf {
        self.model().join("snapshots").join(commit)
    }

    /// Where the weights are as long as they are not whole.
    fn partial(&self) -> PathBuf {
        let hash = sha256(&std::fs::read(shipped(WEIGHTS)).unwrap());
        self.model().join("blobs").join(format!("{hash}.incomplete"))
    }

    /// The ranges in which the weights were asked for since the last call.
    fn ranges(&self) -> Vec<Option<String>> {
        let requests = self.server.take_requests().into_iter();
        requests.filter(|request| request.path.starts_with("/cdn/")).map(|request| request.range).collect()
    }
}

fn shipped(name: &str) -> PathBuf {
    repository().join("models/tiny-glm").join(name)
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn a_pulled_model_is_listed_and_runs_by_its_name_or_its_folder_with_or_without_the_hub() {
    let (place, commit) = Place::with_model();
    let folder = place.run("pull org/model@4.0bpw").text();
    let folder = folder.strip_suffix('\n').unwrap();
    assert_eq!(Path::new(folder), place.snapshot(&commit));
    assert_eq!(
        std::fs::read(Path::new(folder).join(WEIGHTS)).unwrap(),
        std::fs::read(shipped(WEIGHTS)).unwrap()
    );

    let list = place.offline("list --json").json();
    let [model] = list.as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!((&model["name"], &model["revision"]), (&"org/model@4.0bpw".into(), &"4.0bpw".into()));
    assert_eq!((&model["commit"], &model["path"]), (&commit.as_str().into(), &folder.into()));
    let sizes = FILES.map(|name| std::fs::metadata(shipped(name)).unwrap().len());
    assert_eq!(model["bytes"], sizes.iter().sum::<u64>());
    assert_eq!(model["bits"], 4.0);
    says(&place.run("list").text(), &["org/model@4.0bpw", " bits ", " MB ", folder]);

    let local = finish(&mut command("run models/tiny-glm -n 8 -p Once")).text();
    for model in ["org/model@4.0bpw", folder] {
        assert_eq!(place.run(&format!("run {model} -n 8 -p Once")).text(), local, "{model}");
    }
    place.server.take_requests();
    assert_eq!(place.offline("run org/model@4.0bpw -n 8 -p Once").text(), local);
    assert!(place.server.take_requests().is_empty());
}

#[test]
fn every_command_with_a_model_downloads_it() {
    let (place, _) = Place::with_model();
    place.server.commit("main", &[]);
    assert_eq!(place.run("inspect org/model@4.0bpw --json").json()["architecture"], "glm4_moe_lite");
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(text.path(), "The ship sailed.").unwrap();
    let mut eval = place.command("eval models/tiny-glm --against org/model@4.0bpw --json --text");
    assert_eq!(finish(eval.arg(text.path())).json()["kl_mean"], 0.0);
}

#[test]
fn a_download_that_breaks_off_goes_on_by_itself_and_says_so() {
    let (place, commit) = Place::with_model();
    place.server.state().cuts = 1;
    place.server.state().cut_after = 1_000_000;
    let finished = place.run("pull org/model@4.0bpw");
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    says(&finished.stderr, &[WEIGHTS, "trying again in 0.5 s"]);
    assert_eq!(place.ranges(), [None, Some("bytes=1000000-".into())]);
    assert_eq!(finished.stdout, format!("{}\n", place.snapshot(&commit).display()));
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_a_part_from_which_the_same_command_goes_on() {
    use std::os::unix::process::ExitStatusExt;
    use std::time::{Duration, Instant};

    for words in ["pull org/model@4.0bpw", "run org/model@4.0bpw -n 8 -p Once"] {
        let (place, _) = Place::with_model();
        place.server.state().stall_after = Some(1_000_000);
        let mut child = place.command(words).stdout(std::process::Stdio::null()).spawn().unwrap();
        let begin = Instant::now();
        let arrived = || std::fs::metadata(place.partial()).map_or(0, |metadata| metadata.len());
        while arrived() < 1_000_000 {
            assert!(begin.elapsed() < Duration::from_secs(60), "{} bytes arrived", arrived());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().signal(), Some(2), "{words}");

        let listed = place.offline("list --json").json();
        let missing = listed[0]["missing"].as_array().unwrap();
        assert!(missing.contains(&WEIGHTS.into()) && !missing.contains(&FILES[0].into()), "{listed}");
        assert_eq!(listed[0]["bits"], serde_json::Value::Null);
        says(&place.offline("list").text(), &["not whole", WEIGHTS, "billfish pull org/model@4.0bpw"]);
        says(&place.offline(words).refusal(), &["not whole", WEIGHTS]);
        place.server.state().stall_after = None;
        place.ranges();
        assert!(!place.run(words).text().is_empty());
        assert_eq!(place.ranges(), [Some("bytes=1000000-".into())]);
    }
}

#[test]
fn offline_only_what_was_downloaded_can_be_had() {
    let (place, _) = Place::with_model();
    says(&place.offline("pull org/model@4.0bpw").refusal(), &["not in the cache", "while online"]);
    assert!(place.server.take_requests().is_empty());
    assert_eq!(place.offline("list").text(), "");
    assert_eq!(place.offline("list --json").text(), "[]\n");
}

#[test]
fn a_token_that_the_hub_does_not_know_is_named_by_where_it_is_from() {
    let (place, _) = Place::with_model();
    place.server.state().token = Some("hf_right");
    let pull = |token| finish(place.command("pull org/model@4.0bpw").env("HF_TOKEN", token));
    let refusal = pull("hf_wrong").refusal();
    says(&refusal, &["refused the token", "HF_TOKEN", "settings/tokens"]);
    assert!(!refusal.contains("hf_wrong"), "{refusal}");
    says(&place.run("pull org/model@4.0bpw").refusal(), &["private", "set HF_TOKEN"]);
    pull("hf_right").text();
}

#[test]
fn a_revision_that_is_not_there_is_told_with_those_that_are() {
    let (place, _) = Place::with_model();
    place.server.commit("6.0bpw", &[]);
    for words in ["pull org/model@5.0bpw", "run org/model@5.0bpw -p Once"] {
        says(&place.run(words).refusal(), &["no revision \"5.0bpw\"", "4.0bpw, 6.0bpw"]);
    }
}

#[test]
fn a_model_larger_than_the_disk_is_refused_before_anything_is_downloaded() {
    let (place, _) = Place::with_model();
    let id = "a".repeat(40);
    place.server.state().lists_also = Some(format!(
        r#"{{"type": "file", "oid": "{id}", "size": 9000000000000000000, "path": "model-2.safetensors"}}"#
    ));
    says(&place.run("pull org/model@4.0bpw").refusal(), &["9000000000.0 GB", "HF_HUB_CACHE"]);
    assert_eq!(place.ranges(), []);
    assert!(!place.model().join("blobs").exists());
}

#[test]
fn what_is_neither_a_folder_nor_on_the_hub_is_told_as_it_was_understood() {
    let (place, _) = Place::with_model();
    says(
        &place.run("run other/model@a -p Once").refusal(),
        &["there is no folder other/model@a", "the model other/model@a on the hub", "set HF_TOKEN"],
    );
    for words in ["run tiny-glm -p Once", "run a/b/c -p Once"] {
        says(&place.run(words).refusal(), &["there is no folder", "organisation/repository@revision"]);
    }
    // What can only be a path is not looked for anywhere else.
    place.server.take_requests();
    for path in ["./org/model", "../org/model", "/org/model"] {
        let refusal = place.run(&format!("run {path} -p Once")).refusal();
        says(&refusal, &[path, "no such file or folder"]);
    }
    assert!(place.server.take_requests().is_empty());
}

#[test]
fn a_folder_that_exists_goes_before_a_model_on_the_hub() {
    let (place, _) = Place::with_model();
    let work = TempDir::new().unwrap();
    let folder = work.path().join("org/model@4.0bpw");
    std::fs::create_dir_all(&folder).unwrap();
    let refusal = finish(place.command("run org/model@4.0bpw -p Once").current_dir(work.path())).refusal();
    says(&refusal, &["org/model@4.0bpw", "config.json"]);
    assert!(place.server.take_requests().is_empty());
}
