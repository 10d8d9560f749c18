use std::fmt;

use countersign_tool_gate::ApprovalRequest;

/// Says what an approver makes of a plan or a call.
#[non_exhaustive]
pub enum Approval {
    /// A token over the request's binding. The gate verifies it.
    Token(String),
    /// Neither yes nor no: there is no token, and what needs one is refused.
    Abstain,
    /// No: the run ends, and the gate puts the refusal on record.
    Deny,
    /// No, said by the person with that name, which goes on record: at most 256 bytes of it, hidden characters spelled out.
    DenyBy(String),
}

/// Shows what was said, and never the token.
impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token(..)"),
            Self::Abstain => f.write_str("Abstain"),
            Self::Deny => f.write_str("Deny"),
            Self::DenyBy(person) => f.debug_tuple("DenyBy").field(person).finish(),
        }
    }
}

/// Asks a person, or whoever approves on one's behalf. A closure over the request is an approver of plans.
///
/// ```
/// use countersign_plan_runner::{Approval, Approver};
/// use countersign_tool_gate::ApprovalRequest;
/// fn approver() -> impl Approver {
///     |request: &ApprovalRequest| {
///         println!("{} {}", request.binding().tool(), request.args().as_str());
///         Approval::Abstain
///     }
/// }
/// ```
pub trait Approver {
    /// Is asked once, for the whole plan, after the inspectors and before anything is started: the request's arguments are the
    /// plan.
    fn approve_plan(&mut self, request: &ApprovalRequest) -> Approval;

    /// Is asked for a call that the gate refused for want of an approval of its own. Not answered, the refusal stands.
    fn approve_call(&mut self, request: &ApprovalRequest) -> Approval {
        let _ = request;
        Approval::Abstain
    }
}

impl<F: FnMut(&ApprovalRequest) -> Approval> Approver for F {
    fn approve_plan(&mut self, request: &ApprovalRequest) -> Approval {
        self(request)
    }
}
