//! A cache that ends with its test, and hubs that use it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hub::{Hub, ModelName, Network, Origin, Result, Settings, Token};
use loopback::Loopback;

/// A folder that is removed at the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("billfish-hub-{}-{number}", process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// What is at a path below the model's folder.
    pub(crate) fn of_model(&self, path: &str) -> PathBuf {
        self.0.join("models--org--model").join(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Settings for tests: no pauses, and no room kept free.
pub(crate) fn settings(endpoint: String, cache: &Path) -> Settings {
    Settings {
        cache: cache.into(),
        endpoint,
        token: None,
        network: Network::Online,
        proxy: None,
        keep_free: 0,
        first_pause: Duration::ZERO,
    }
}

pub(crate) fn online(server: &Loopback, cache: &Scratch) -> Hub {
    Hub::new(settings(server.endpoint(), cache.path())).unwrap()
}

pub(crate) fn offline(server: &Loopback, cache: &Scratch) -> Hub {
    Hub::new(Settings { network: Network::Offline, ..settings(server.endpoint(), cache.path()) }).unwrap()
}

pub(crate) fn with_token(server: &Loopback, cache: &Scratch, value: &str) -> Hub {
    let token = Some(Token { value: value.into(), origin: Origin::Variable("HF_TOKEN") });
    Hub::new(Settings { token, ..settings(server.endpoint(), cache.path()) }).unwrap()
}

pub(crate) fn name(text: &str) -> ModelName {
    ModelName::parse(text).unwrap()
}

/// Fetches without looking at what happens.
pub(crate) fn fetch(hub: &Hub, text: &str) -> Result<PathBuf> {
    hub.snapshot(&name(text), &mut |_| ControlFlow::Continue(()))
}

/// Bytes without a pattern that a shift or a repetition could leave unchanged.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}
