//! Models on the Hugging Face hub: a name such as `org/model-exl3@4.0bpw` becomes a folder of files.
//!
//! [`Hub::snapshot`] looks up what the revision is now, downloads what the cache lacks, and gives the folder;
//! [`Hub::cached`] says what the cache holds. The cache is the one that the hub's other clients use, in their
//! layout, so that a model is on the disk once whatever program fetched it. Nothing here reads the environment
//! or prints: [`Settings::from_variables`] is handed a function that knows the variables, and [`Watch`] is told
//! what happens.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//!
//! let settings = hub::Settings::from_variables(&|name| std::env::var(name).ok())?;
//! let hub = hub::Hub::new(settings)?;
//! let name = hub::ModelName::parse("org/model-exl3@4.0bpw")?;
//! let folder = hub.snapshot(&name, &mut |_event| ControlFlow::Continue(()))?;
//! # let _ = folder;
//! # Ok::<(), hub::Error>(())
//! ```
//!
//! # A download
//! The hub tells a revision's commit, then the commit's files with their sizes and hashes. What running the
//! model takes and is not there yet is added up and compared with the free space. Then file by file, under a
//! lock that other clients respect: the bytes go to `<hash>.incomplete` as they arrive; a connection that breaks
//! is taken up with a `Range` request from the last byte on, as is a file that an earlier process left; the
//! whole file's size (and SHA-256, where the hub has one: all large files) is checked; it gets its final name at
//! once; the snapshot links to it. Files come one after the other.
//!
//! # Why not the `hf-hub` crate
//! Version 0.5 with its `ureq` feature fetches one file and knows the cache's layout. It does not list
//! revisions, check space, size or hash, say what is missing offline, or tell a wrong token from a missing
//! model; if a server answers a `Range` request with the whole file it appends that to the part it has; its
//! retries are off by default. What it would save is one request and one loop, and those are where the trouble
//! is. Version 1 is asynchronous, and some 500 crates with `CMake` among them. So this crate speaks HTTP through
//! `ureq` itself (TLS by `rustls` with the certificates that the machine trusts), which with hashing and locking
//! makes fewer crates than `hf-hub` 0.5.
//!
//! | module | what it holds |
//! |---|---|
//! | `name` | what a model is called |
//! | `settings`, `token`, `proxy` | where the cache is, which hub is asked, as whom, and through what |
//! | `hub` | from a name to a folder |
//! | `api`, `refusal`, `retries` | the questions that a hub answers, and what it means if it does not |
//! | `listing` | the files of a commit, and which of them are needed |
//! | `download`, `partial` | one file, resumable |
//! | `repository`, `cached` | the cache's layout, and what is in it |
//! | `event` | what a download tells while it runs |
#![forbid(unsafe_code)]

mod api;
mod cached;
mod download;
mod error;
mod event;
mod hub;
mod listing;
mod name;
mod partial;
mod proxy;
mod refusal;
mod repository;
mod retries;
mod settings;
mod token;

pub use cached::CachedModel;
pub use error::{Error, Result};
pub use event::{Event, Watch};
pub use hub::Hub;
pub use name::ModelName;
pub use retries::TRIES;
pub use settings::{Network, Settings};
pub use token::{Origin, Token};
