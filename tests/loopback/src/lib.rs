//! A hub on a loopback address: what the public one answers, and the faults that a test asks for.
//!
//! It panics where a test should fail.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sha2::{Digest, Sha256};

/// The one repository of the hub.
pub const REPOSITORY: &str = "org/model";

/// Contents by path.
type Files = BTreeMap<String, Vec<u8>>;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path, encoded, with the query.
    pub path: String,
    /// The header `Range`.
    pub range: Option<String>,
    /// The header `Authorization`.
    pub authorization: Option<String>,
}

/// What the hub holds, what it has been asked, and what it does wrong.
#[derive(Default)]
pub struct State {
    commits: BTreeMap<String, Files>,
    /// The commit of each branch.
    pub branches: BTreeMap<String, String>,
    /// The commit of each tag.
    pub tags: BTreeMap<String, String>,
    /// The requests since the last [`Loopback::take_requests`].
    pub requests: Vec<Request>,
    /// The only token that is accepted; without one the model is public.
    pub token: Option<&'static str>,
    /// Whether conditions have to be accepted.
    pub gated: bool,
    /// So many requests are answered with 503.
    pub busy: usize,
    /// So many files a page of the listing; 0 is all.
    pub page: usize,
    /// So many bodies of large files break off.
    pub cuts: usize,
    /// The bytes after which they break off.
    pub cut_after: usize,
    /// Bodies of large files stand still after so many bytes, as long as this is set.
    pub stall_after: Option<usize>,
    /// Range requests are answered with the whole file.
    pub ignores_ranges: bool,
    /// The host of the large files refuses them with this status.
    pub refuses_large: Option<u16>,
    /// What is sent in place of a large file, though listed as it is.
    pub sends_instead: Option<Vec<u8>>,
    /// What the listing says besides the files.
    pub lists_also: Option<String>,
}

/// A running hub. Its threads end with the test's process.
pub struct Loopback {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Loopback {
    /// Starts a hub that holds nothing.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = shared.clone();
                std::thread::spawn(move || serve(&stream.unwrap(), &shared, port));
            }
        });
        Self { port, state }
    }

    /// Its address, as for `HF_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it holds and does wrong, to look at and to change.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Makes a commit, moves a branch to it, and gives its name.
    pub fn commit(&self, branch: &str, files: &[(&str, &[u8])]) -> String {
        let files: Files = files.iter().map(|(path, content)| ((*path).into(), content.to_vec())).collect();
        let commit = git_id(format!("{files:?}").as_bytes());
        self.state().commits.insert(commit.clone(), files);
        self.state().branches.insert(branch.into(), commit.clone());
        commit
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state().requests)
    }
}

/// Some 40 digits that stand for a content or a commit.
pub fn git_id(content: &[u8]) -> String {
    sha256(content)[..40].into()
}

/// The SHA-256 of a content, in hexadecimal digits.
pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Large files are those with weights.
fn is_large(path: &str) -> bool {
    path.ends_with(".safetensors")
}

/// A status, headers, and a body.
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Reply {
    fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    fn json(text: String) -> Self {
        Self { body: text.into_bytes(), ..Self::new(200) }
    }

    fn error(status: u16, code: &str) -> Self {
        Self::new(status).with("X-Error-Code", code.into())
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>, port: u16) {
    let Some(request) = read(stream) else { return };
    state.lock().unwrap().requests.push(request.clone());
    let reply = answer(&request, &mut state.lock().unwrap(), port);
    let length = reply.body.len();
    let mut head =
        format!("HTTP/1.1 {} -\r\nConnection: close\r\nContent-Length: {length}\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let large = request.path.starts_with("/cdn/");
    let (mut until, mut stalls) = (length, false);
    if large && reply.status < 300 {
        let mut state = state.lock().unwrap();
        if state.cuts > 0 {
            state.cuts -= 1;
            until = state.cut_after.min(length);
        } else if let Some(after) = state.stall_after {
            (until, stalls) = (after.min(length), true);
        }
    }
    let mut stream = stream;
    // The client may have gone; that is its right.
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    let _ = stream.write_all(&reply.body[..until]);
    while stalls && state.lock().unwrap().stall_after.is_some() {
        std::thread::sleep(Duration::from_millis(2));
    }
    if stalls {
        let _ = stream.write_all(&reply.body[until..]);
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let mut request = Request { path, range: None, authorization: None };
    for line in lines {
        let line = line.ok()?;
        match line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())) {
            Some((name, value)) if name == "range" => request.range = Some(value),
            Some((name, value)) if name == "authorization" => request.authorization = Some(value),
            None => break,
            _ => {}
        }
    }
    Some(request)
}

fn answer(request: &Request, state: &mut State, port: u16) -> Reply {
    if state.busy > 0 {
        state.busy -= 1;
        return Reply::new(503);
    }
    if let Some(sha) = request.path.strip_prefix("/cdn/") {
        if let Some(status) = state.refuses_large {
            return Reply::new(status);
        }
        let mut files = state.commits.values().flat_map(BTreeMap::values);
        let Some(content) = files.find(|content| sha256(content) == sha) else { return Reply::new(404) };
        return part(request, state, state.sends_instead.as_ref().unwrap_or(content));
    }
    if let Some(refusal) = refusal(request, state) {
        return refusal;
    }
    let path = percent_encoding::percent_decode_str(&request.path).decode_utf8().unwrap().into_owned();
    if let Some(rest) = path.strip_prefix(&format!("/api/models/{REPOSITORY}/")) {
        return match rest.split_once('/') {
            Some(("revision", revision)) => match commit_of(state, revision) {
                Some(commit) => {
                    Reply::json(format!(r#"{{"id": "{REPOSITORY}", "sha": "{commit}", "tags": []}}"#))
                }
                None => Reply::error(404, "RevisionNotFound"),
            },
            Some(("tree", rest)) => tree(state, rest),
            _ if rest == "refs" => Reply::json(refs(state)),
            _ => Reply::new(404),
        };
    }
    // Small files are sent on to another path of the hub, large ones to another host.
    let cached = format!("/api/resolve-cache/models/{REPOSITORY}/");
    let direct = path.strip_prefix(&cached);
    let place = direct.or_else(|| path.strip_prefix(&format!("/{REPOSITORY}/resolve/")));
    let Some((commit, file)) = place.and_then(|place| place.split_once('/')) else {
        return Reply::error(404, "RepoNotFound");
    };
    let Some(content) = state.commits.get(commit).and_then(|files| files.get(file)) else {
        return Reply::error(404, "EntryNotFound");
    };
    let reply = match (is_large(file), direct) {
        (true, _) => Reply::new(302)
            .with("Location", format!("http://localhost:{port}/cdn/{}", sha256(content)))
            .with("X-Linked-Etag", format!("\"{}\"", sha256(content)))
            .with("X-Linked-Size", content.len().to_string()),
        (false, None) => {
            let prefix = format!("/{REPOSITORY}/resolve/");
            Reply::new(307).with("Location", request.path.replacen(&prefix, &cached, 1))
        }
        (false, Some(_)) => part(request, state, content).with("ETag", format!("\"{}\"", git_id(content))),
    };
    reply.with("X-Repo-Commit", commit.into())
}

fn refusal(request: &Request, state: &State) -> Option<Reply> {
    let right = state.token.map(|token| format!("Bearer {token}"));
    if request.authorization.is_some() && request.authorization != right {
        let said = "Invalid credentials in Authorization header";
        return Some(Reply::new(401).with("X-Error-Message", said.into()));
    }
    if state.gated {
        return Some(Reply::error(if request.authorization.is_some() { 403 } else { 401 }, "GatedRepo"));
    }
    let unknown = !request.path.contains(REPOSITORY);
    // Without a token, private and absent models look alike.
    ((unknown || state.token.is_some()) && request.authorization.is_none())
        .then(|| Reply::error(401, "RepoNotFound"))
}

fn commit_of(state: &State, revision: &str) -> Option<String> {
    let named = state.branches.get(revision).or_else(|| state.tags.get(revision));
    named.cloned().or_else(|| state.commits.contains_key(revision).then(|| revision.into()))
}

fn refs(state: &State) -> String {
    let list = |names: &BTreeMap<String, String>| {
        let items = names.iter().map(|(name, commit)| {
            format!(r#"{{"name": "{name}", "ref": "refs/heads/{name}", "targetCommit": "{commit}"}}"#)
        });
        items.collect::<Vec<_>>().join(", ")
    };
    let (branches, tags) = (list(&state.branches), list(&state.tags));
    format!(r#"{{"branches": [{branches}], "converts": [], "tags": [{tags}]}}"#)
}

fn tree(state: &State, rest: &str) -> Reply {
    let (commit, query) = rest.split_once('?').unwrap();
    let Some(files) = state.commits.get(commit) else { return Reply::error(404, "RevisionNotFound") };
    let folder = r#"{"type": "directory", "oid": "0", "size": 0, "path": "original"}"#.to_owned();
    let items: Vec<String> = std::iter::once(folder)
        .chain(state.lists_also.clone())
        .chain(files.iter().map(|(path, content)| {
            let (size, git, sha) = (content.len(), git_id(content), sha256(content));
            let lfs = format!(
                r#", "lfs": {{"oid": "{sha}", "size": {size}, "pointerSize": 135}}, "xetHash": "{sha}""#
            );
            let lfs = if is_large(path) { lfs } else { String::new() };
            format!(r#"{{"type": "file", "oid": "{git}", "size": {size}, "path": "{path}"{lfs}}}"#)
        }))
        .collect();
    let page = if state.page == 0 { items.len() } else { state.page };
    let begin: usize = query.split_once("cursor=").map_or(0, |(_, cursor)| cursor.parse().unwrap());
    let end = (begin + page).min(items.len());
    let reply = Reply::json(format!("[{}]", items[begin..end].join(", ")));
    if end == items.len() {
        return reply;
    }
    // As a mirror does that passes on the public hub's own address.
    let next =
        format!("https://hub.invalid/api/models/{REPOSITORY}/tree/{commit}?recursive=true&cursor={end}");
    reply.with("Link", format!("<{next}>; rel=\"next\""))
}

fn part(request: &Request, state: &State, content: &[u8]) -> Reply {
    let range = request.range.as_deref().filter(|_| !state.ignores_ranges);
    let Some(range) = range else { return Reply { body: content.to_vec(), ..Reply::new(200) } };
    let begin: usize = range.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().unwrap();
    if begin >= content.len() {
        return Reply::new(416).with("Content-Range", format!("bytes */{}", content.len()));
    }
    let place = format!("bytes {begin}-{}/{}", content.len() - 1, content.len());
    Reply { body: content[begin..].to_vec(), ..Reply::new(206) }.with("Content-Range", place)
}
