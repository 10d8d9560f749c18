//! The configuration files of MCP clients: which servers they start, and the gateway put in front of them.
//!
//! A file is edited at the bytes of one entry's command alone, so comments, order, indentation and unknown members stay, and
//! [`ClientFile::unwrap`] gives back the bytes of before. This crate reads and writes no file, and starts no server.

mod client;
mod edit;
mod error;
mod file;
mod hooks;
mod json;
mod json_entries;
mod server;
mod toml_entries;

pub use client::{ClientApp, ClientPlaces, ConfigScope};
pub use error::ClientFileError;
pub use file::{ClientFile, Wrapping};
pub use hooks::{HookApp, InstalledHook};
pub use server::{ClientServer, ServerStart, is_gateway_program};
