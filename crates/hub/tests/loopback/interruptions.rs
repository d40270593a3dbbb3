//! Connections that break, processes that end, and processes that meet.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hub::{Error, Event, Hub, TRIES};
use loopback::{Loopback, Request, sha256};

use crate::scratch::{Scratch, fetch, name, noise, online, settings};

const SIZE: usize = 3_000_000;

/// A hub with one model, whose weights come back too.
fn start() -> (Loopback, Scratch, Vec<u8>) {
    let (server, cache, weights) = (Loopback::start(), Scratch::new(), noise(SIZE));
    server.commit("main", &[("config.json", b"{}"), ("model.safetensors", &weights)]);
    (server, cache, weights)
}

/// The ranges in which the weights were asked for, from the host that has them.
fn ranges(requests: &[Request]) -> Vec<Option<String>> {
    let large = requests.iter().filter(|request| request.path.starts_with("/cdn/"));
    large.map(|request| request.range.clone()).collect()
}

fn from(byte: usize) -> Option<String> {
    Some(format!("bytes={byte}-"))
}

fn weights_in(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("model.safetensors")).unwrap()
}

fn incomplete(cache: &Scratch, weights: &[u8]) -> PathBuf {
    cache.of_model("blobs").join(format!("{}.incomplete", sha256(weights)))
}

#[test]
fn a_connection_that_breaks_is_taken_up_where_it_broke() {
    let (server, cache, weights) = start();
    server.state().cuts = 2;
    server.state().cut_after = 1_000_000;
    let folder = fetch(&online(&server, &cache), "org/model").unwrap();
    assert_eq!(ranges(&server.take_requests()), [None, from(1_000_000), from(2_000_000)]);
    assert_eq!(weights_in(&folder), weights);
}

#[test]
fn any_number_of_breaks_is_borne_as_long_as_bytes_arrive() {
    let (server, cache, weights) = start();
    server.state().cuts = 3 * TRIES as usize;
    server.state().cut_after = SIZE / (4 * TRIES as usize);
    let folder = fetch(&online(&server, &cache), "org/model").unwrap();
    assert_eq!(weights_in(&folder), weights);
}

#[test]
fn connections_without_a_byte_are_given_up_and_what_had_arrived_is_kept() {
    let (server, cache, weights) = start();
    server.state().cuts = 1;
    server.state().cut_after = 1_000_000;
    let hub = online(&server, &cache);
    let mut retries = 0;
    let failed = hub.snapshot(&name("org/model"), &mut |event| {
        if let Event::Retrying { .. } = event {
            server.state().cuts = usize::MAX;
            server.state().cut_after = 0;
            retries += 1;
        }
        ControlFlow::Continue(())
    });
    assert!(matches!(failed, Err(Error::Unreachable { .. })), "{failed:?}");
    // The break after bytes is the first failure in a row.
    assert_eq!(retries, TRIES - 1);
    server.state().cuts = 0;
    server.take_requests();
    assert_eq!(weights_in(&fetch(&hub, "org/model").unwrap()), weights);
    assert_eq!(ranges(&server.take_requests()), [from(1_000_000)]);
}

#[test]
fn a_busy_hub_is_asked_again() {
    let (server, cache, weights) = start();
    server.state().busy = TRIES as usize - 1;
    assert_eq!(weights_in(&fetch(&online(&server, &cache), "org/model").unwrap()), weights);
}

#[test]
fn a_stopped_download_goes_on_in_another_instance() {
    let (server, cache, weights) = start();
    let mut received = 0;
    let stopped = online(&server, &cache).snapshot(&name("org/model"), &mut |event| {
        if let Event::Received { bytes } = event {
            received += bytes;
        }
        if received > 1_000_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    let kept = fs::read(incomplete(&cache, &weights)).unwrap();
    assert!(kept.len() >= 1_000_000 - b"{}".len() && weights.starts_with(&kept));

    server.take_requests();
    let mut planned = None;
    let folder = online(&server, &cache).snapshot(&name("org/model"), &mut |event| {
        if let Event::Planned { files, bytes, present } = event {
            planned = Some((files, bytes, present));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(planned, Some((1, SIZE as u64, kept.len() as u64)));
    assert_eq!(ranges(&server.take_requests()), [from(kept.len())]);
    assert_eq!(weights_in(&folder.unwrap()), weights);
    assert!(!incomplete(&cache, &weights).exists());
}

/// Holds the endpoint and the cache in the process that is to be killed.
const CHILD: &str = "BILLFISH_TEST_DOWNLOAD";

#[test]
fn a_killed_process_loses_nothing_and_leaves_no_lock() {
    if let Ok(child) = std::env::var(CHILD) {
        let (endpoint, cache) = child.split_once('|').unwrap();
        fetch(&Hub::new(settings(endpoint.into(), Path::new(cache))).unwrap(), "org/model").unwrap();
        return;
    }
    let (server, cache, weights) = start();
    server.state().stall_after = Some(1_000_000);
    let test = std::thread::current().name().unwrap().to_owned();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test])
        .env(CHILD, format!("{}|{}", server.endpoint(), cache.path().display()))
        .spawn()
        .unwrap();
    let partial = incomplete(&cache, &weights);
    // Half a minute is far more than starting a process takes.
    let patience = Instant::now();
    while fs::metadata(&partial).map_or(0, |partial| partial.len()) < 1_000_000 {
        assert!(patience.elapsed() < Duration::from_secs(30), "the other process does not download");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    server.state().stall_after = None;
    server.take_requests();
    let folder = fetch(&online(&server, &cache), "org/model").unwrap();
    assert_eq!(ranges(&server.take_requests()), [from(1_000_000)]);
    assert_eq!(weights_in(&folder), weights);
}

#[test]
fn a_server_that_knows_no_ranges_sends_the_file_anew() {
    let (server, cache, weights) = start();
    server.state().cuts = 1;
    server.state().cut_after = 1_000_000;
    server.state().ignores_ranges = true;
    let mut begun = Vec::new();
    let folder = online(&server, &cache).snapshot(&name("org/model"), &mut |event| {
        if let Event::File { file: "model.safetensors", present, .. } = event {
            begun.push(present);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(weights_in(&folder.unwrap()), weights);
    assert_eq!(ranges(&server.take_requests()), [None, from(1_000_000)]);
    assert_eq!(begun, [0, 0]);
}

#[test]
fn leftovers_longer_than_the_file_are_not_used() {
    let (server, cache, weights) = start();
    let partial = incomplete(&cache, &weights);
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    fs::write(&partial, noise(SIZE + 1)).unwrap();
    let mut planned = None;
    let folder = online(&server, &cache).snapshot(&name("org/model"), &mut |event| {
        if let Event::Planned { present, .. } = event {
            planned = Some(present);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(planned, Some(0));
    assert_eq!(ranges(&server.take_requests()), [None]);
    assert_eq!(weights_in(&folder.unwrap()), weights);
}

/// As after a power cut, and as in a cache of copies in place of links.
#[test]
fn files_in_the_cache_that_are_too_short_are_fetched_again() {
    let (server, cache, weights) = start();
    let hub = online(&server, &cache);
    let folder = fetch(&hub, "org/model").unwrap();
    fs::write(cache.of_model("blobs").join(sha256(&weights)), &weights[..1_000]).unwrap();
    assert_eq!(weights_in(&fetch(&hub, "org/model").unwrap()), weights);
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    fs::write(folder.join("model.safetensors"), &weights[..1_000]).unwrap();
    assert_eq!(weights_in(&fetch(&hub, "org/model").unwrap()), weights);
}

#[test]
fn a_whole_leftover_is_checked_and_kept_without_a_request() {
    let (server, cache, weights) = start();
    let partial = incomplete(&cache, &weights);
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    fs::write(&partial, &weights).unwrap();
    let folder = fetch(&online(&server, &cache), "org/model").unwrap();
    assert_eq!(ranges(&server.take_requests()), []);
    assert_eq!(weights_in(&folder), weights);
}

#[test]
fn two_downloads_at_once_fetch_each_file_once() {
    let (server, cache, weights) = start();
    // The first stands still until the second has found it at work.
    server.state().stall_after = Some(1_000_000);
    let download = |waited: &mut bool| {
        let hub = online(&server, &cache);
        hub.snapshot(&name("org/model"), &mut |event| {
            if let Event::Waiting { file } = event {
                *waited |= file == "model.safetensors";
                if file == "model.safetensors" {
                    server.state().stall_after = None;
                }
            }
            ControlFlow::Continue(())
        })
    };
    let (mut first, mut second) = (false, false);
    let folders = std::thread::scope(|scope| {
        let handles = [scope.spawn(|| download(&mut first)), scope.spawn(|| download(&mut second))];
        handles.map(|handle| handle.join().unwrap().unwrap())
    });
    assert_eq!(folders[0], folders[1]);
    assert!(first != second, "one waits and the other works");
    assert_eq!(ranges(&server.take_requests()), [None]);
    assert_eq!(weights_in(&folders[0]), weights);
}
