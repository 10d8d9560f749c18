//! What is on record of a plan itself.

use countersign_audit_log::{CallRecord, RecordedTool, Verdict};
use countersign_core::{Digest, Timestamp};

use crate::plan_approval::PLAN_TOOL;
use crate::terms::GateTerms;

/// The id of a plan that never came to have a root. One that has goes by its root.
const NO_ROOT: &str = "plan";

/// An entry about a plan and no call, with everything that is optional left out.
pub(crate) fn plan_entry(
    terms: &GateTerms,
    time: Timestamp,
    root: Option<Digest>,
    what: &str,
    verdict: Verdict,
    registry_version: u64,
) -> CallRecord {
    let id = root.map_or_else(|| NO_ROOT.to_owned(), |root| root.to_string());
    let tool = RecordedTool::new(PLAN_TOOL.0, what);
    let mut record = terms.entry(time, &id, tool, verdict, registry_version);
    record.plan = root;
    record.about_plan = true;
    record
}
