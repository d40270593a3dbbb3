//! The command as its users meet it: what it prints where, and its exit codes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod bench_kernel;
mod chat;
mod checkpoints;
mod eval;
mod help;
mod hub;
mod inspect;
mod memory;
mod profile;
mod refusals;
mod run;
mod signals;
mod smollm2;
#[cfg(unix)]
mod terminal;
mod verify;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// What a finished command left.
struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The command with these arguments, words separated by single spaces. It cannot ask a hub and finds no cache.
fn command(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_billfish"));
    command.args(words.split(' ')).current_dir(repository());
    for name in
        ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"]
    {
        command.env_remove(name);
    }
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(name);
    }
    command.env("HF_HUB_OFFLINE", "1").env("HF_HOME", repository().join("target/no-home"));
    command
}

/// Runs a command to its end, with an empty stdin.
fn finish(command: &mut Command) -> Finished {
    Finished::from(command.stdin(std::process::Stdio::null()).output().unwrap())
}

/// Runs the command with these arguments, words separated by single spaces.
fn billfish(words: &str) -> Finished {
    finish(&mut command(words))
}

impl From<Output> for Finished {
    fn from(output: Output) -> Finished {
        Finished {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Finished {
    /// What it printed on stdout, if it was content.
    fn text(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }

    /// What it printed on stdout as JSON, if it was content.
    fn json(self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// Its one sentence on stderr, if it refused.
    fn refusal(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(1), ""), "{}", self.stderr);
        let sentence = self.stderr.strip_prefix("error: ").unwrap().strip_suffix('\n').unwrap();
        assert!(!sentence.contains('\n'), "{sentence}");
        sentence.to_owned()
    }
}

/// The root of the repository, where the model that ships lies in `models/tiny-glm`.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
