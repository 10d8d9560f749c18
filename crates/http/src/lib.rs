//! The decision service: sessions, decisions, outcomes and answers for other programs, over HTTP.
//!
//! A [`Service`] serves the sessions of one configuration. A caller is known by its bearer token or, on a Unix socket, by
//! its user, and has only the duties that the operator gave it. A caller that has calls decided never answers their
//! questions. Every body is read strictly, once: the arguments that are digested are the ones that the caller gets back.
//! Decisions are made on blocking threads. From the first byte on, everything that a peer can send is bounded in size and
//! time.
//!
//! This crate decides nothing: sessions, gate, record and answers are those of `countersign-host`. It runs no tool.

#![recursion_limit = "256"]

mod access;
mod answers;
mod app;
mod body;
mod calls;
mod check;
mod connection;
mod grants;
mod look;
mod mcp;
mod openapi;
mod opening;
mod origin;
mod page;
mod path_id;
mod people;
mod pic_bridge;
mod problem;
mod read_logs;
mod routes;
mod served;
mod service;
mod sessions;
mod slots;
mod status;
mod table;
mod timed_io;
mod tls;

pub use mcp::{McpCaller, McpService, OpenGateway, OpenMcpGateway, RunGateway};
pub use openapi::openapi;
pub use people::password_entry;
pub use service::{ServeOptions, Service};
