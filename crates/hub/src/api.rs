//! The questions that a hub answers.

use std::collections::BTreeMap;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderValue, Response, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, BodyReader, Proxy};

use crate::listing::{Entry, Listing};
use crate::name::{is_commit, is_hex};
use crate::refusal;
use crate::retries::Retries;
use crate::{Error, ModelName, Result, Settings, Token, Watch};

/// Longest silence of a connection before it counts as broken.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest time to set a connection up.
const CONNECT: Duration = Duration::from_secs(15);
/// Longest answer read that is no file, in bytes; a page of 1,000 files takes some 300 kB.
const LONGEST_ANSWER: u64 = 64 << 20;
/// What stays as it is in one part of an address.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A hub, asked over HTTP.
pub(crate) struct Api {
    agent: Agent,
    endpoint: String,
    token: Option<Token>,
    first_pause: Duration,
}

/// A file's bytes as they arrive.
pub(crate) struct Content {
    /// The place of the first byte in the file: what was asked for, or 0 if the server gives whole files only.
    pub(crate) start: u64,
    /// The address asked, for messages.
    pub(crate) address: String,
    /// The bytes.
    pub(crate) body: BodyReader<'static>,
}

/// Something that the hub lists below a commit.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Item {
    #[serde(rename_all = "camelCase")]
    File { path: String, oid: String, size: u64, lfs: Option<Lfs>, xet_hash: Option<String> },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

#[derive(Deserialize)]
struct References {
    branches: Vec<Reference>,
    tags: Vec<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    name: String,
}

impl Api {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let setting = |what, value: &str, why: String| Error::Setting { what, value: value.into(), why };
        let endpoint = settings.endpoint.trim_end_matches('/');
        if !["http://", "https://"].into_iter().any(|scheme| endpoint.starts_with(scheme)) {
            return Err(setting("endpoint", endpoint, "it has to begin with https:// or http://".into()));
        }
        let proxy = settings
            .proxy
            .as_deref()
            .map(|address| Proxy::new(address).map_err(|error| setting("proxy", address, error.to_string())));
        let config = Agent::config_builder()
            .user_agent(concat!("billfish/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .proxy(proxy.transpose()?)
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE));
        Ok(Self {
            agent: config.build().new_agent(),
            endpoint: endpoint.into(),
            token: settings.token.clone(),
            first_pause: settings.first_pause,
        })
    }

    /// The commit that the name's revision is now.
    ///
    /// # Errors
    /// [`Error::MissingRevision`] with the revisions that exist, and all that a request can meet.
    pub(crate) fn commit(&self, name: &ModelName, watch: &mut Watch<'_>) -> Result<String> {
        let revision = encoded(name.revision());
        let address = self.address(name, &format!("/revision/{revision}"));
        let answer = self.json(name, &address, watch);
        let (Revision { sha }, _) = answer.map_err(|error| self.explained(error, watch))?;
        if !is_commit(&sha) {
            return Err(Error::Answer { address, what: format!("the commit \"{sha}\" is none") });
        }
        Ok(sha)
    }

    /// All files of a commit, however many pages they take.
    pub(crate) fn files(&self, name: &ModelName, commit: &str, watch: &mut Watch<'_>) -> Result<Listing> {
        let mut files = BTreeMap::new();
        let mut address = self.address(name, &format!("/tree/{commit}?recursive=true"));
        loop {
            let answer = self.json::<Vec<Item>>(name, &address, watch);
            let (page, next) = answer.map_err(|error| self.explained(error, watch))?;
            files.extend(page.into_iter().filter_map(Item::into_entry));
            match next {
                Some(next) => address = next,
                None => break,
            }
        }
        Listing::new(files).map_err(|what| Error::Answer { address, what })
    }

    /// The names of the branches, then of the tags, each sorted.
    pub(crate) fn revisions(&self, name: &ModelName, watch: &mut Watch<'_>) -> Result<Vec<String>> {
        let (references, _) = self.json::<References>(name, &self.address(name, "/refs"), watch)?;
        let sorted = |references: Vec<Reference>| {
            let mut names: Vec<String> = references.into_iter().map(|reference| reference.name).collect();
            names.sort();
            names
        };
        Ok([sorted(references.branches), sorted(references.tags)].concat())
    }

    /// Asks once for a file from its byte `start` on.
    pub(crate) fn open(&self, name: &ModelName, commit: &str, path: &str, start: u64) -> Result<Content> {
        let parts: Vec<String> = path.split('/').map(encoded).collect();
        let address = format!("{}/{}/resolve/{commit}/{}", self.endpoint, name.repository(), parts.join("/"));
        let range = (start > 0).then(|| format!("bytes={start}-"));
        let response = self.get(&address, range.as_deref())?;
        let begins_at = |place: u64| {
            let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
            range.is_some_and(|range| range.starts_with(&format!("bytes {place}-")))
        };
        let start = match response.status().as_u16() {
            200 => 0,
            206 if begins_at(start) => start,
            206 => {
                return Err(Error::Answer {
                    address,
                    what: "it sends another part than was asked for".into(),
                });
            }
            416 => {
                let what = format!("it ends before byte {start}, which the hub lists");
                return Err(Error::Damaged { file: path.into(), what });
            }
            _ => return Err(self.refusal(name, &address, &response)),
        };
        Ok(Content { start, address, body: response.into_body().into_reader() })
    }

    /// An answer read as JSON, and the address of the next page if there is one. Tries several times.
    fn json<T: DeserializeOwned>(
        &self,
        name: &ModelName,
        address: &str,
        watch: &mut Watch<'_>,
    ) -> Result<(T, Option<String>)> {
        Retries::new(self.first_pause).run(watch, || {
            let mut response = self.get(address, None)?;
            if !response.status().is_success() {
                return Err(self.refusal(name, address, &response));
            }
            let next = self.next_page(address, &response)?;
            let text = response.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec();
            let text = text.map_err(|error| refusal::of_connection(address, error))?;
            let value = serde_json::from_slice(&text);
            let unreadable =
                |error| Error::Answer { address: address.into(), what: format!("its JSON is none: {error}") };
            Ok((value.map_err(unreadable)?, next))
        })
    }

    /// Completes an error that a revision is missing with those that exist.
    fn explained(&self, error: Error, watch: &mut Watch<'_>) -> Error {
        match error {
            Error::MissingRevision { name, .. } => match self.revisions(&name, watch) {
                Ok(existing) => Error::MissingRevision { name, existing },
                Err(error) => error,
            },
            other => other,
        }
    }

    fn get(&self, address: &str, range: Option<&str>) -> Result<Response<Body>> {
        // Lengths and ranges have to be those of the file, so no compression.
        let mut request = self.agent.get(address).header(header::ACCEPT_ENCODING, "identity");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.value));
        }
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        request.call().map_err(|error| refusal::of_connection(address, error))
    }

    fn refusal(&self, name: &ModelName, address: &str, response: &Response<Body>) -> Error {
        let origin = self.token.as_ref().map(|token| token.origin.clone());
        let asked = refusal::Asked { name, address, endpoint: &self.endpoint, origin };
        refusal::of_status(asked, response)
    }

    fn address(&self, name: &ModelName, what: &str) -> String {
        format!("{}/api/models/{}{what}", self.endpoint, name.repository())
    }

    /// The next page's address, moved to this endpoint: a mirror may pass on the addresses of the hub that it
    /// mirrors, and the token is meant for the endpoint alone.
    fn next_page(&self, address: &str, response: &Response<Body>) -> Result<Option<String>> {
        let links = response.headers().get(header::LINK).map_or(&b""[..], HeaderValue::as_bytes);
        let links = String::from_utf8_lossy(links);
        let Some((before, _)) = links.split_once("rel=\"next\"") else { return Ok(None) };
        let target = before.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
        match target.and_then(|(target, _)| target.split_once("/api/")) {
            Some((_, target)) => Ok(Some(format!("{}/api/{target}", self.endpoint))),
            None => Err(Error::Answer { address: address.into(), what: format!("its next page is {links}") }),
        }
    }
}

impl Item {
    fn into_entry(self) -> Option<(String, Entry)> {
        let Self::File { path, oid, size, lfs, xet_hash } = self else { return None };
        let (lfs_sha256, lfs_size) = lfs.map(|lfs| (lfs.oid, lfs.size)).unzip();
        let xet_hash = xet_hash.filter(|hash| is_hex(hash, 64));
        Some((path, Entry { size, blob_id: oid, lfs_sha256, lfs_size, xet_hash }))
    }
}

fn encoded(part: &str) -> String {
    utf8_percent_encode(part, PLAIN).to_string()
}
