/// Defines a rule that is either required or not; two named variants, so that no bool can be passed the wrong way.
macro_rules! rule {
    ($(#[$doc:meta])* $name:ident, $(#[$not_required:meta])*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum $name {
            /// The call is refused without it.
            Required,
            $(#[$not_required])*
            NotRequired,
        }

        impl $name {
            /// Says whether a call without it is refused.
            #[must_use]
            pub const fn is_required(self) -> bool {
                matches!(self, Self::Required)
            }
        }
    };
}

/// Says whether a call of the tool needs an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalRule {
    /// The call is refused without an approval of exactly that call, or of the whole plan that it is a step of.
    Required,
    /// The call is refused without an approval of exactly that call, a plan's approval notwithstanding.
    EachCall,
    /// The call goes without it; an approval that comes with the call all the same is not looked at.
    NotRequired,
}

impl ApprovalRule {
    /// Says whether a call without any approval is refused.
    #[must_use]
    pub const fn is_required(self) -> bool {
        matches!(self, Self::Required | Self::EachCall)
    }
}

rule!(
/// Says whether a call of the tool must restate the pinned goal.
AskRule,
/// The call may go without it; where the goal is restated, it is still checked.
);
rule!(
/// Says whether a call of the tool needs a reason backed by evidence that verifies, whatever its impact. A gate that takes
/// no proposals refuses every call where it is required.
EvidenceRule,
/// The call goes without it.
);
rule!(
/// Says whether a call of the tool must be the next step of a committed plan. A gate that has no plan refuses every call
/// where it is required.
PlanRule,
/// The call may go without it; a gate that has a plan lets nothing through but the plan's next step all the same.
);

/// Defines what an entry gets that does not mention the rule. There is none for approvals: an entry must say.
macro_rules! not_required_by_default {
    ($($name:ident)*) => {
        $(impl Default for $name {
            fn default() -> Self {
                Self::NotRequired
            }
        })*
    };
}

not_required_by_default!(AskRule EvidenceRule PlanRule);
