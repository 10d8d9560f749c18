//! Opens a session from a configuration: files, stores, log, registry watch, signals, exports, server process.
//!
//! A [`Config`](config::Config) comes from options, or from a file by [`ConfigFile`](config_file::ConfigFile). Its
//! [`prepare`](config::Config::prepare) reads and checks all inputs and negotiates the session, without creating a file.
//! [`PreparedSession::open`](session::PreparedSession::open) opens log, stores and the gate of the facade
//! [`countersign`].
//!
//! [`QuestionQueue`](questions::QuestionQueue) finds, shows and answers the questions that wait in the store of a configuration.
//!
//! This crate prints nothing and ends no process. It returns [`HostError`](error::HostError)s with stable codes, and
//! hands lines for the operator to a [`Reporter`](report::Reporter). It speaks no protocol to an agent, parses no
//! command line and makes no decision: the gate decides.

pub mod alive;
pub mod config;
pub mod config_file;
pub mod decision;
pub mod entries;
pub mod error;
pub mod escape;
pub mod export;
pub mod files;
mod high_water;
pub mod home;
pub mod hook;
pub mod hook_draft;
pub mod hook_event;
#[cfg(feature = "http")]
pub mod http;
pub mod inputs;
pub mod interrupt;
pub mod lines;
pub mod notices;
pub mod notify;
mod observe_part;
pub mod person;
pub mod plans;
pub mod proposals;
pub mod questions;
pub mod random;
pub mod receipt;
pub mod record;
pub mod recorded;
pub mod remote_part;
pub mod report;
pub mod serve_part;
pub mod server;
pub mod server_part;
pub mod session;
pub mod sign_command;
pub mod signals;
pub mod states;
pub mod time;
#[cfg(feature = "http")]
pub mod webhook;
