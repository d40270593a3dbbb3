//! Where the cache is, which hub is asked, and as whom.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::proxy;
use crate::token::{Origin, Token};
use crate::{Error, Result};

/// The public hub.
const ENDPOINT: &str = "https://huggingface.co";
/// Bytes that a download leaves free on the disk, unless told otherwise.
const KEEP_FREE: u64 = 256 << 20;
/// The wait before the second try of a request, unless told otherwise.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// What a [`Hub`](crate::Hub) has to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the cache, which holds one `models--organisation--repository` a model.
    pub cache: PathBuf,
    /// The address of the hub, such as `https://huggingface.co`.
    pub endpoint: String,
    /// The access token; without one only public models can be seen.
    pub token: Option<Token>,
    /// Whether the hub may be asked.
    pub network: Network,
    /// The address of an HTTP proxy, through which everything then goes.
    pub proxy: Option<String>,
    /// Bytes that must stay free on the disk after a download.
    pub keep_free: u64,
    /// The wait before the second try of a failed request. It doubles from try to try, of which there are
    /// [`TRIES`](crate::TRIES).
    pub first_pause: Duration,
}

/// Whether the hub may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Revisions are looked up, and what is missing is downloaded.
    Online,
    /// Only the cache is used; nothing is sent anywhere.
    Offline,
}

impl Settings {
    /// Reads the variables that the hub's other clients know; an empty one counts as absent.
    ///
    /// | what | from the first of |
    /// |---|---|
    /// | cache | `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, `hub` in the home folder |
    /// | home folder (of cache and token) | `HF_HOME`, `$XDG_CACHE_HOME/huggingface`, `~/.cache/huggingface` |
    /// | endpoint | `HF_ENDPOINT`, `https://huggingface.co` |
    /// | token | `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, the file `HF_TOKEN_PATH` or `token` in the home folder |
    /// | network | offline if `HF_HUB_OFFLINE` is 1, on, yes or true |
    /// | proxy | `HTTPS_PROXY` or `HTTP_PROXY` by the endpoint's scheme, `ALL_PROXY`; `NO_PROXY` excepts hosts |
    ///
    /// `variable` gives the value of an environment variable; the token's file is the only thing read.
    ///
    /// # Errors
    /// If no variable tells where the cache is, or the token's file is there but cannot be read.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let user = get("HOME").or_else(|| get("USERPROFILE")).map(PathBuf::from);
        let folder = |name: &str| get(name).map(|value| expand(&value, user.as_deref()));

        // A relative XDG folder is to be ignored, says its specification.
        let shared = folder("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let shared = shared.or_else(|| user.as_ref().map(|user| user.join(".cache")));
        let home = folder("HF_HOME").or_else(|| shared.map(|shared| shared.join("huggingface")));
        let cache = folder("HF_HUB_CACHE")
            .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| home.as_ref().map(|home| home.join("hub")))
            .ok_or(Error::NoCacheFolder)?;

        let named = |name| get(name).map(|value| (value, Origin::Variable(name)));
        let token = match named("HF_TOKEN").or_else(|| named("HUGGING_FACE_HUB_TOKEN")) {
            Some(found) => Some(found),
            None => match folder("HF_TOKEN_PATH").or_else(|| home.map(|home| home.join("token"))) {
                Some(path) => read_token(path)?,
                None => None,
            },
        };
        let token = token.map(|(value, origin)| Token { value: value.trim().into(), origin });

        let endpoint = get("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.into());
        let offline = get("HF_HUB_OFFLINE")
            .is_some_and(|value| matches!(value.to_lowercase().as_str(), "1" | "on" | "yes" | "true"));
        Ok(Self {
            cache,
            proxy: proxy::from_variables(&get, &endpoint),
            endpoint,
            token: token.filter(|token| !token.value.is_empty()),
            network: if offline { Network::Offline } else { Network::Online },
            keep_free: KEEP_FREE,
            first_pause: FIRST_PAUSE,
        })
    }
}

fn read_token(path: PathBuf) -> Result<Option<(String, Origin)>> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((text, Origin::File(path)))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read the token in", &path, error)),
    }
}

/// Replaces a leading `~`, which files of variables hold where no shell has seen it.
fn expand(value: &str, user: Option<&Path>) -> PathBuf {
    match (value.strip_prefix("~/"), user) {
        (Some(rest), Some(user)) => user.join(rest),
        _ => PathBuf::from(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings> {
        Settings::from_variables(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        })
    }

    fn cache(variables: &[(&str, &str)]) -> PathBuf {
        settings(variables).unwrap().cache
    }

    #[test]
    fn the_cache_is_where_the_most_particular_variable_says() {
        let all = [
            ("HF_HUB_CACHE", "/a"),
            ("HUGGINGFACE_HUB_CACHE", "/b"),
            ("HF_HOME", "/c"),
            ("XDG_CACHE_HOME", "/d"),
            ("HOME", "/e"),
        ];
        let places = ["/a", "/b", "/c/hub", "/d/huggingface/hub", "/e/.cache/huggingface/hub"];
        for (first, place) in places.iter().enumerate() {
            assert_eq!(cache(&all[first..]), Path::new(place));
        }
        assert!(matches!(settings(&[]), Err(Error::NoCacheFolder)));
    }

    #[test]
    fn empty_variables_and_relative_xdg_folders_count_as_absent() {
        let place = cache(&[("HF_HOME", ""), ("XDG_CACHE_HOME", "relative"), ("HOME", "/e")]);
        assert_eq!(place, Path::new("/e/.cache/huggingface/hub"));
    }

    #[test]
    fn a_leading_tilde_is_the_users_folder() {
        assert_eq!(cache(&[("HF_HOME", "~/models"), ("HOME", "/e")]), Path::new("/e/models/hub"));
    }

    #[test]
    fn offline_is_what_the_official_client_takes_for_true() {
        for (value, network) in [
            ("1", Network::Offline),
            ("ON", Network::Offline),
            ("True", Network::Offline),
            ("yes", Network::Offline),
            ("0", Network::Online),
            ("", Network::Online),
        ] {
            assert_eq!(settings(&[("HF_HOME", "/c"), ("HF_HUB_OFFLINE", value)]).unwrap().network, network);
        }
    }

    #[test]
    fn a_tokens_variable_goes_before_its_file_and_both_say_where_they_are() {
        let home = std::env::temp_dir().join(format!("billfish-hub-token-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("token"), "hf_file\n").unwrap();
        let home_text = home.to_str().unwrap();
        let file = settings(&[("HF_HOME", home_text)]).unwrap().token.unwrap();
        assert_eq!((file.value.as_str(), file.origin), ("hf_file", Origin::File(home.join("token"))));
        let both = settings(&[("HF_HOME", home_text), ("HF_TOKEN", " hf_variable ")]).unwrap().token.unwrap();
        assert_eq!((both.value.as_str(), &both.origin), ("hf_variable", &Origin::Variable("HF_TOKEN")));
        assert!(!format!("{both:?}").contains("hf_variable"));
        std::fs::remove_dir_all(&home).unwrap();
        assert!(settings(&[("HF_HOME", home_text)]).unwrap().token.is_none());
    }
}
