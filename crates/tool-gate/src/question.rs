use crate::rejection::ApprovalRequest;

/// Asks a person for the approval that a call needs ([`ToolGate::check_asking`](crate::ToolGate::check_asking)).
///
/// The gate asks before it records the refusal, so that the record has the code that the agent gets.
pub trait ApprovalDesk {
    /// Files the question, where it is not filed already.
    ///
    /// # Errors
    /// [`NotFiled`], which decides the code of the refusal.
    fn file(&self, request: &ApprovalRequest) -> Result<(), NotFiled>;

    /// Takes the question back that was filed last: the refusal could not be recorded. One that was filed before stays.
    fn withdraw(&self, request: &ApprovalRequest);
}

/// Why a question is not filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFiled {
    /// So many questions wait that there is no room: `APPROVALS_FULL`.
    Full,
    /// A person denied it before: `APPROVAL_DENIED`.
    Denied,
    /// The call's id is that of another question. The code stays: another id helps.
    IdInUse,
    /// The store of questions failed: `STORE_UNAVAILABLE`.
    Unavailable,
}
