//! Runs PIC/1.0 conformance suites: a folder with `manifest.json`, the vectors that it lists, and `artifacts`.
//!
//! [`run_suite`] judges each vector with `countersign-action-proposal` and compares the verdict with the manifest.
//! The [`Report`] serialises with the members of the reference's runner. `countersign proposal conformance` prints it.
//!
//! ```
//! use countersign_action_proposal::Profile;
//! use countersign_pic_conformance::{Filter, run_suite};
//!
//! let report = run_suite("no-such-suite".as_ref(), Profile::Strict, &Filter::default());
//! let (reason, _) = report.diagnostic().unwrap();
//! assert_eq!(reason, "manifest_invalid");
//! assert_eq!(report.failed(), 0);
//! ```

mod call;
mod guards;
mod manifest;
mod report;
mod run;
mod spans;
mod vector;

pub use manifest::{Mode, ModeError};
pub use report::{Filter, Outcome, Report};
pub use run::run_suite;
