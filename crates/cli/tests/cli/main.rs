//! Runs the built binary from the command line, verb by verb.

// The widest record has more members than the macro takes by default.
#![recursion_limit = "256"]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    reason = "a helper of tests fails by panicking"
)]

mod alarm_state;
mod answers;
mod archive;
mod ask;
mod attest;
mod audit;
mod audit_attacks;
mod audit_follow;
mod audit_log;
mod audit_log_gateway;
mod audit_log_proofs;
#[cfg(feature = "witness")]
mod audit_witness;
mod bench;
mod check;
mod check_plan;
mod check_proposals;
mod conformance;
mod demo;
mod desk;
mod doctor;
mod edits;
mod endorsements;
mod exports;
mod file_modes;
mod folder_kills;
mod general;
mod grants;
mod hook;
mod interrupt;
mod json;
mod keys;
mod mcp;
mod mcp_faults;
mod mcp_listed;
mod mcp_plan_start;
mod mcp_plans;
mod mcp_proposals;
mod mcp_record;
mod mcp_renew;
mod mcp_serve;
mod merkle;
mod plan;
mod plan_answers;
mod plan_approvals;
mod plan_proofs;
mod plan_questions;
mod plan_run;
mod profiles;
mod proposal;
mod quarantine;
mod quarantine_sessions;
mod readme;
mod record_state;
mod recorded;
mod registry;
mod retire;
#[cfg(feature = "serve")]
mod serve;
mod several;
mod several_approvers;
mod several_proofs;
mod several_servers;
mod simulate;
mod stats;
mod store;
#[cfg(unix)]
mod surfaces;
mod tighten;
mod token;
mod vectors;
mod wrap;
