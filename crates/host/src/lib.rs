//! Opens a session from a configuration: files, stores, log, registry watch, signals, exports, server process.
//!
//! A configuration comes from a file or from options. All inputs are read and checked before any file is created; then
//! the session of the facade [`countersign`] is opened over them.
//!
//! This crate prints nothing and ends no process. It returns [`HostError`](error::HostError)s with stable codes, and
//! hands lines for the operator to a [`Reporter`](report::Reporter). It speaks no protocol to an agent, parses no
//! command line and makes no decision: the gate decides.

pub mod alive;
pub mod config;
pub mod config_file;
pub mod entries;
pub mod error;
pub mod export;
pub mod files;
mod follow;
mod group;
#[cfg(feature = "http")]
pub mod http;
pub mod inputs;
pub mod interrupt;
pub mod lines;
mod marks;
pub mod plans;
pub mod proposals;
pub mod random;
pub mod record;
pub mod recorded;
pub mod report;
pub mod server;
pub mod session;
pub mod shown;
pub mod signals;
pub mod states;
pub mod time;
