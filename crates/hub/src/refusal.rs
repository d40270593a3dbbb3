//! What it means when a hub does not give what was asked for.

use std::io::ErrorKind;

use ureq::http::{Response, Uri};
use ureq::{Body, ResponseExt};

use crate::{Error, ModelName, Origin};

/// What was asked, and with whose token.
pub(crate) struct Asked<'a> {
    pub(crate) name: &'a ModelName,
    pub(crate) address: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) origin: Option<Origin>,
}

/// The meaning of an answer that is no success. The hub's header `X-Error-Code` is more exact than the status:
/// someone without a token gets 401 for private, gated and absent models alike, so as not to learn which.
pub(crate) fn of_status(asked: Asked<'_>, response: &Response<Body>) -> Error {
    let Asked { name, address, endpoint, origin } = asked;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let status = response.status().as_u16();
    let said = match header("x-error-message") {
        Some(message) => format!("{status}: {message}"),
        None => response.status().to_string(),
    };
    // Files may come from another host, whose refusals say nothing about the token or the model.
    let host = response.get_uri().host();
    let elsewhere = endpoint.parse::<Uri>().is_ok_and(|endpoint| endpoint.host() != host);
    let address = if elsewhere { host.unwrap_or(address) } else { address };
    let (name, endpoint, address) = (name.clone(), endpoint.into(), address.into());
    match (header("x-error-code"), status, origin) {
        (_, 408 | 429 | 500 | 502..=504, _) => Error::Unreachable { address, why: said },
        _ if elsewhere => Error::Refused { address, said },
        (Some("GatedRepo"), _, origin) => Error::Gated { name, origin, endpoint },
        (Some("RevisionNotFound"), ..) => Error::MissingRevision { name, existing: Vec::new() },
        (Some("EntryNotFound"), ..) => Error::Refused { address, said },
        (_, 401 | 403, Some(origin)) => Error::Token { name, origin, said, endpoint },
        (_, 401 | 404, origin) => Error::MissingRepository { name, origin, endpoint },
        _ => Error::Refused { address, said },
    }
}

/// The meaning of no answer at all. What another try cannot mend is told from what it may.
pub(crate) fn of_connection(address: &str, error: ureq::Error) -> Error {
    use ureq::Error as Cause;
    let address = address.into();
    match error {
        // A certificate that is not accepted ends the handshake as invalid data.
        Cause::Io(error) if error.kind() == ErrorKind::InvalidData => {
            Error::Untrusted { address, why: error.to_string() }
        }
        Cause::Rustls(_) | Cause::Tls(_) => Error::Untrusted { address, why: error.to_string() },
        Cause::Io(error) => Error::Unreachable { address, why: error.to_string() },
        Cause::Timeout(_)
        | Cause::HostNotFound
        | Cause::ConnectionFailed
        | Cause::ConnectProxyFailed(_)
        | Cause::Protocol(_) => Error::Unreachable { address, why: error.to_string() },
        _ => Error::Answer { address, what: error.to_string() },
    }
}
