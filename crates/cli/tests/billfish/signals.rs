//! What ends an answer from outside.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::checkpoints::llama_shape;
use crate::command;

/// An answer under way that would not end by itself within minutes.
fn endless() -> (tempfile::TempDir, Child) {
    let (folder, shape) = llama_shape();
    let mut command = command("run -c 1000000 -n 1000000 --temperature 1 --seed 3 -p a --shape");
    let child = command.arg(shape).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (folder, child)
}

#[test]
fn ctrl_c_ends_the_answer_cleanly() {
    let (_folder, mut child) = endless();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert!(!stdout.fill_buf().unwrap().is_empty());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    assert!(text.ends_with('\n'));
}

#[test]
fn a_reader_that_goes_away_ends_the_answer_quietly() {
    let (_folder, mut child) = endless();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}
