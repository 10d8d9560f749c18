//! Arguments that an approver put in the place of the agent's.

use countersign_canonical_json::{Canonical, Kind, Limits, read};
use countersign_core::{CallFacts, Digest};

use crate::error::PendingError;
use crate::pending::PendingApproval;

/// Longest edited arguments, in bytes.
const MAX_EDITED: usize = 256 * 1024;

impl PendingApproval {
    /// Puts a person's arguments beside those that the agent asked for. The token of their approval binds them
    /// ([`edited_binding`](Self::edited_binding)), so no others run in their place.
    ///
    /// # Errors
    /// [`PendingError::Edit`] for a plan or a step of one, a call that several persons have to approve, one that came with a
    /// proposal or lacks evidence, and for arguments that are no object, the agent's own, or longer than 256 KiB.
    pub fn edited(&self, args: &Canonical) -> Result<Self, PendingError> {
        let binding = self.binding();
        let fits = args.bytes().len() <= MAX_EDITED && args.value().kind() == Kind::Object;
        let is_other = args.digest() != binding.args && args.recipe() == binding.args_recipe;
        if !self.takes_edits() || !fits || !is_other {
            return Err(PendingError::Edit);
        }
        Ok(self.clone().with_edited(Some(args.as_str().into())))
    }

    /// Returns whether a person can approve the call with other arguments.
    #[must_use]
    pub fn takes_edits(&self) -> bool {
        let is_whole = self.binding().plan.is_none() && self.needed() == 1;
        is_whole && self.evidence().is_none() && self.proposal().is_none()
    }

    /// Returns the arguments of a person that take the place of the agent's.
    #[must_use]
    pub fn edited_args(&self) -> Option<Canonical> {
        read(self.edited_text()?.as_bytes(), self.binding().args_recipe, &Limits::hard_caps()).ok()
    }

    /// Binding of the call with the edited arguments, under the question's own id; without an edit, that of the question.
    #[must_use]
    pub fn edited_binding(&self) -> CallFacts {
        let mut binding = self.binding().clone();
        if let Some(args) = self.edited_args() {
            binding.args = args.digest();
        }
        binding
    }

    /// Digest of the edited arguments.
    #[must_use]
    pub fn edited_digest(&self) -> Option<Digest> {
        self.edited_args().map(|args| args.digest())
    }
}
