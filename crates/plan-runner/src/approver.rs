use std::fmt;

use countersign_tool_gate::ApprovalRequest;

/// An approver's decision about a plan or a call.
#[non_exhaustive]
pub enum Approval {
    /// A token over the request's binding. The gate verifies it.
    Token(String),
    /// No decision: there is no token, and a plan or call that needs one is refused.
    Abstain,
    /// Denial: the run ends, and the gate records the refusal.
    Deny,
    /// Denial by the named person. The gate records the name: at most 256 bytes, invisible characters escaped.
    DenyBy(String),
}

/// Shows the decision, but never the token.
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

/// Asks a person, or a service that approves on a person's behalf. A closure over the request is an approver of plans.
///
/// ```
/// use countersign_plan_runner::{Approval, Approver};
/// use countersign_tool_gate::ApprovalRequest;
/// fn approver() -> impl Approver {
///     |request: &ApprovalRequest| {
///         println!("{} {}", request.binding().tool, request.args().as_str());
///         Approval::Abstain
///     }
/// }
/// ```
pub trait Approver {
    /// Decides the whole plan. Called once, after the inspectors and before the start of the plan; the request's arguments are the
    /// plan.
    fn approve_plan(&mut self, request: &ApprovalRequest) -> Approval;

    /// Decides a call that the gate refused because it needs an approval of its own. If it abstains, the refusal stands.
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
