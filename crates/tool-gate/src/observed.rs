//! Observe mode: the gate decides and records every call, and lets a call through that only lacks an approval, a rate or a
//! constraint. It ends at a stated time; from then on the gate enforces.

use countersign_audit_log::Escaped;
use countersign_core::Timestamp;

use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::rejection::Refusal;

/// Codes that observe mode overlooks. All others refuse: an undisclosed tool, a revoked agent, a changed definition, a
/// malformed call, a person's denial, missing evidence, the plan, the host's own checks.
const OVERLOOKED: [RejectionCode; 3] =
    [RejectionCode::ArgsConstraint, RejectionCode::RateLimit, RejectionCode::ApprovalRequired];

/// Returns the list for the overlooked codes of one decision; `None` once the mode has ended.
pub(crate) fn begin(until: Option<Timestamp>, now: Timestamp) -> Option<Vec<Escaped<64>>> {
    until.filter(|until| now < *until).map(|_| Vec::new())
}

/// Passes the result of a check on. In observe mode a refusal that is overlooked becomes `instead`, and is noted.
pub(crate) fn overlook<T>(
    observed: &mut Option<Vec<Escaped<64>>>,
    call: &ToolCall<'_>,
    checked: Result<T, Refusal>,
    instead: T,
) -> Result<T, Refusal> {
    let Err(refusal) = checked else { return checked };
    // An edited call runs once: without an approval to spend, it could run again.
    match observed {
        Some(observed) if OVERLOOKED.contains(&refusal.code) && call.edited_from.is_none() => {
            observed.push(Escaped::fixed(refusal.code.as_str()));
            Ok(instead)
        }
        Some(_) | None => Err(refusal),
    }
}

/// End of an accepted call's time to run: that of its contract, or of the mode if that let the call through.
pub(crate) fn ends(
    observed: Option<&[Escaped<64>]>,
    until: Option<Timestamp>,
    contract: Timestamp,
) -> Timestamp {
    let overlooked = observed.is_some_and(|observed| !observed.is_empty());
    until.filter(|_| overlooked).map_or(contract, |until| until.min(contract))
}
