//! A terminal with the program in it, and a person who types and reads.

use std::io::{Read, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};

/// Where a person sits.
pub(crate) struct Terminal {
    keyboard: Pty,
    child: Child,
    output: Receiver<Vec<u8>>,
    /// What was on the screen and was not looked at yet.
    unread: String,
}

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const UP: &str = "\x1b[A";

impl Terminal {
    /// Starts the program with these arguments, words separated by single spaces.
    pub(crate) fn start(words: &str, environment: &[(&str, &str)]) -> Terminal {
        let (keyboard, inside) = open().unwrap();
        keyboard.resize(pty_process::Size::new(40, 120)).unwrap();
        let command = Command::new(env!("CARGO_BIN_EXE_billfish")).args(words.split(' '));
        let command = command.current_dir(crate::repository()).env("TERM", "xterm").env_remove("NO_COLOR");
        let child = command.envs(environment.iter().copied()).spawn(inside).unwrap();
        let (sender, output) = channel();
        let screen: std::os::fd::OwnedFd = std::os::fd::AsFd::as_fd(&keyboard).try_clone_to_owned().unwrap();
        let mut screen = std::fs::File::from(screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when the program is gone.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { keyboard, child, output, unread: String::new() }
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line.
    pub(crate) fn line(&mut self, text: &str) {
        self.keys(text);
        self.keys("\r");
    }

    /// Waits until this is on the screen, and gives everything before it that was not looked at yet.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let begin = Instant::now();
        let mut bytes = std::mem::take(&mut self.unread).into_bytes();
        loop {
            let seen = String::from_utf8_lossy(&bytes).into_owned();
            if let Some(at) = seen.find(text) {
                self.unread = seen[at + text.len()..].to_owned();
                return seen[..at].to_owned();
            }
            let left = PATIENCE.saturating_sub(begin.elapsed());
            match self.output.recv_timeout(left) {
                Ok(more) => bytes.extend(more),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let _ = self.child.kill();
                    panic!("{text:?} is not on the screen after {:?}: {seen:?}", begin.elapsed());
                }
            }
        }
    }

    /// Waits for the next prompt, and gives everything before it.
    pub(crate) fn prompt(&mut self) -> String {
        // The editor asks for marked pastes when it begins, and writes the prompt anew with each change after that.
        let before = self.until("\x1b[?2004h");
        self.until(">>> ");
        before
    }

    /// Waits until the program ends, and gives its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        panic!("the program did not end: {:?}", self.unread);
    }
}
