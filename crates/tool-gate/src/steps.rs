//! The checks of a call. Each step reads [`Deciding`], then refuses the call or returns the input of later steps.
//! [`decide`](crate::decide::decide) holds their order.

use std::sync::Arc;

use countersign_canonical_json::Canonical;
use countersign_core::{CallFacts, ImpactClass, Timestamp};
use countersign_registry::{RegistryView, ToolRules};

pub(crate) use crate::approvals::GivenApprovals;
use crate::call::ToolCall;
use crate::findings::Findings;
use crate::plan::{HeldStep, ReadProof};
use crate::terms::{GateTerms, InForce};
use crate::user_check::CheckedCall;

pub(crate) mod approval;
pub(crate) mod args;
pub(crate) mod evidence;
pub(crate) mod grant;
pub(crate) mod intent;
pub(crate) mod read;
pub(crate) mod session;
pub(crate) mod spend;

/// Context of one decision. Contract, registry and time stay the same during all of its steps.
pub(crate) struct Deciding<'d> {
    pub(crate) terms: &'d GateTerms,
    pub(crate) in_force: &'d InForce,
    pub(crate) view: &'d RegistryView,
    pub(crate) now: Timestamp,
    pub(crate) call: &'d ToolCall<'d>,
    pub(crate) findings: &'d mut Findings,
}

/// The rest of a call that step 0 has read.
pub(crate) struct ParsedCall {
    /// The tool's own arguments, without the reserved members.
    pub(crate) args: Canonical,
    /// Canonical text of the proposal among the arguments. Its numbers were read like the arguments', which is stricter
    /// than PIC/1.0.
    pub(crate) reserved_proposal: Option<String>,
    /// Unverified proof of the plan's step.
    pub(crate) proof: Option<Arc<ReadProof>>,
}

/// A call to a disclosed tool, as far as steps 0 to 6 have read it.
pub(crate) struct Subject<'a> {
    pub(crate) facts: &'a CallFacts,
    pub(crate) args: &'a Canonical,
    pub(crate) rules: &'a ToolRules,
    /// The plan's step that the call is.
    pub(crate) step: Option<&'a HeldStep<'a>>,
    /// JSON text of the proposal.
    pub(crate) proposal: Option<&'a [u8]>,
}

impl<'a> Subject<'a> {
    /// The call as the embedder's checks see it.
    pub(crate) const fn checked(&self, terms: &'a GateTerms, impact: ImpactClass) -> CheckedCall<'a> {
        let (agent, session) = (&terms.agent, &terms.session);
        CheckedCall { facts: self.facts, args: self.args, impact, agent, session }
    }
}
