//! Opens a session from a configuration: files, stores, log, registry watch, signals, exports, server process.
//!
//! A [`Config`](config::Config) comes from options, or from a file by [`ConfigFile`](config_file::ConfigFile). Its
//! [`prepare`](config::Config::prepare) reads and checks all inputs and negotiates the session, without creating a file.
//! [`PreparedSession::open`](session::PreparedSession::open) opens log, stores and the gate of the facade
//! [`countersign`].
//!
//! This crate prints nothing and ends no process. It returns [`HostError`](error::HostError)s with stable codes, and
//! hands lines for the operator to a [`Reporter`](report::Reporter). It speaks no protocol to an agent, parses no
//! command line and makes no decision: the gate decides.

pub mod alive;
pub mod config;
pub mod config_file;
pub mod entries;
pub mod error;
pub mod escape;
pub mod export;
pub mod files;
mod high_water;
#[cfg(feature = "http")]
pub mod http;
pub mod inputs;
pub mod interrupt;
pub mod lines;
pub mod notify;
pub mod plans;
pub mod proposals;
pub mod random;
pub mod record;
pub mod recorded;
pub mod report;
pub mod server;
pub mod session;
pub mod signals;
pub mod states;
pub mod time;
