use std::fmt;

use countersign_committed_plan::{HeaderProof, Plan, PlanRoot};

#[cfg(doc)]
use crate::{call::ToolCall, gate::ToolGate};

/// A plan to start, or an amendment to apply, with the approval of the whole of it if it has one.
#[derive(Clone)]
pub struct PlanSettings {
    plan: Plan,
    approval: Option<String>,
}

impl PlanSettings {
    /// Takes a plan without an approval of the whole: each call needs the approval that its tool's rule requires.
    #[must_use]
    pub const fn new(plan: Plan) -> Self {
        Self { plan, approval: None }
    }

    /// Adds an approval token for the whole plan ([`ToolGate::plan_approval_request`]). It is verified and spent when
    /// the plan is started. After that, a step needs an approval of its own only if its tool's rule requires an
    /// approval of each call, or if the tool's definition has changed since.
    #[must_use]
    pub fn approval(mut self, token: &str) -> Self {
        self.approval = Some(token.to_owned());
        self
    }
}

/// Shows the plan, never the token.
impl fmt::Debug for PlanSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.approval.as_ref().map(|_| "token(..)");
        f.debug_struct("PlanSettings").field("plan", &self.plan).field("approval", &token).finish()
    }
}

/// A plan as a gate on another machine knows it: its root, and its header with the proof that it belongs to the root.
/// Calls bring the rest ([`ToolCall::plan_proof`]).
#[derive(Clone)]
pub struct PlanRootSettings {
    root: PlanRoot,
    header: HeaderProof,
    approval: Option<String>,
}

impl PlanRootSettings {
    /// Takes a plan without an approval of the whole for this gate: each call needs the approval that its tool's rule
    /// requires.
    #[must_use]
    pub const fn new(root: PlanRoot, header: HeaderProof) -> Self {
        Self { root, header, approval: None }
    }

    /// Adds an approval token over the root ([`ToolGate::plan_root_approval_request`]). It is verified and spent like
    /// that of a whole plan ([`PlanSettings::approval`]). A token is valid at one gate and once, so each gate of a plan
    /// has its own.
    #[must_use]
    pub fn approval(mut self, token: &str) -> Self {
        self.approval = Some(token.to_owned());
        self
    }
}

/// Shows root and header, never the token.
impl fmt::Debug for PlanRootSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.approval.as_ref().map(|_| "token(..)");
        f.debug_struct("PlanRootSettings")
            .field("root", &self.root)
            .field("header", &self.header)
            .field("approval", &token)
            .finish()
    }
}

/// An offered plan. No part of it has been checked.
#[derive(Clone)]
pub(crate) enum Offer {
    Whole(Plan),
    Root(PlanRoot, HeaderProof),
}

/// An offer with its approval, if one came.
#[derive(Clone)]
pub(crate) struct Offered {
    pub(crate) offer: Offer,
    pub(crate) approval: Option<String>,
}

impl From<PlanSettings> for Offered {
    fn from(PlanSettings { plan, approval }: PlanSettings) -> Self {
        Self { offer: Offer::Whole(plan), approval }
    }
}

impl From<PlanRootSettings> for Offered {
    fn from(PlanRootSettings { root, header, approval }: PlanRootSettings) -> Self {
        Self { offer: Offer::Root(root, header), approval }
    }
}
