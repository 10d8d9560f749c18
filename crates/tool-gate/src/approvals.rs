//! The approvals of one call: one, or as many as the registry's list of approvers needs.

use countersign_approval_token::Approval;
use countersign_canonical_json::Canonical;
use countersign_core::{Approvers, CallFacts, Timestamp};
use countersign_registry::RegistryView;

use crate::code::RejectionCode;
use crate::rejection::Refusal;
use crate::settings::ApprovalSettings;
use crate::steps::grant::find_grant;

/// Verified approvals of one call, each of another person. Most calls need one, which takes no list.
#[derive(Debug, Default)]
pub(crate) struct GivenApprovals {
    first: Option<Approval>,
    others: Vec<Approval>,
}

impl GivenApprovals {
    /// Finds a grant that covers the call.
    pub(crate) fn by_grant(
        settings: &ApprovalSettings,
        call: &CallFacts,
        args: &Canonical,
        view: &RegistryView,
        now: Timestamp,
    ) -> Option<Self> {
        let first = find_grant(settings, call, args, view, now)?;
        Some(Self { first: Some(first), others: Vec::new() })
    }

    /// Adds an approval. Returns `true` once there are enough.
    ///
    /// # Errors
    /// [`Refusal`] if the approver is not listed, or has approved the call before.
    pub(crate) fn add(&mut self, approval: Approval, approvers: Option<&Approvers>) -> Result<bool, Refusal> {
        let Some(approvers) = approvers else {
            self.first = Some(approval);
            return Ok(true);
        };
        let invalid = |reason| Err(Refusal::new(RejectionCode::ApprovalInvalid, reason));
        if !approvers.lists(approval.approver()) {
            return invalid("the approver is not one of the tool's");
        }
        if self.iter().any(|other| other.approver() == approval.approver()) {
            return invalid("two approvals of one approver");
        }
        match &self.first {
            None => self.first = Some(approval),
            Some(_) => self.others.push(approval),
        }
        Ok(self.count() >= approvers.needed())
    }

    /// Notes in a refusal for want of approvals that some of them are valid.
    pub(crate) fn note_missing(&self, approvers: Option<&Approvers>, refusal: &mut Refusal) {
        if let (Some(approvers), RejectionCode::ApprovalRequired, 1..) =
            (approvers, refusal.code, self.count())
        {
            refusal.reason = format!("{} of {} approvals", self.count(), approvers.needed()).into();
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.iter().count()).unwrap_or(u32::MAX)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Approval> {
        self.first.iter().chain(&self.others)
    }

    /// Returns the first approval and the others.
    pub(crate) fn parts(&self) -> [&[Approval]; 2] {
        [self.first.as_slice(), &self.others]
    }

    /// All of them, the first one first.
    pub(crate) fn into_all(self) -> impl Iterator<Item = Approval> {
        self.first.into_iter().chain(self.others)
    }
}
