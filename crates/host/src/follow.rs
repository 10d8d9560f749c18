//! Reloads the registry while its session runs.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_audit_log::{AuditSink, Direction, GatewayRecord, Record};
use countersign_core::{SessionId, Timestamp};
use countersign_registry::CapabilityRegistry;

use crate::error::{HostError, chain};
use crate::report::Reporter;
use crate::time::now;

/// Follows the registry file during a session. Failures are reported and recorded.
pub(crate) fn follow(
    registry: &CapabilityRegistry,
    path: PathBuf,
    session: SessionId,
    sink: Arc<dyn AuditSink>,
    reporter: Reporter,
) {
    let about = path.display().to_string();
    registry.follow(path, move |error| {
        let failure = HostError::new(error.code(), chain(error)).about(&about);
        let text = |why: &str| format!("the registry was not loaded again: {why}");
        reporter.warn(failure.code(), &text(&failure.line()));
        let time = now().unwrap_or(Timestamp::EPOCH);
        let mut record = GatewayRecord::new(time, Direction::ToServer, failure.code());
        record.session = Some(session.clone());
        record.reason = Some(text(failure.message()).as_str().into());
        // The gate notices a failing sink itself and refuses the call.
        let _ = sink.record(&Record::Gateway(record));
    });
}
