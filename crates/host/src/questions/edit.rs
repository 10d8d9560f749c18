//! Edited arguments: an approver's own in place of the agent's, held to the registry before they are approved.

use countersign_approval_token::{PendingApproval, PendingApprovals as _, PendingError};
use countersign_canonical_json::{Limits, read};
use countersign_registry::ArgsError;
use countersign_tool_gate::{RejectionCode, own_arguments};

use super::find::QuestionQueue;
use crate::error::HostError;
use crate::time::now;

impl QuestionQueue<'_> {
    /// Puts a person's arguments beside the agent's, for an approval of them. They are a JSON object.
    ///
    /// # Errors
    /// `PENDING_EDIT` for a question that takes no edited arguments, and for arguments that are the agent's own; `JSON_*` for
    /// a text that is not strict JSON; `EDIT_REGISTRY` if another registry is in force; `ARGS_SCHEMA` and `ARGS_CONSTRAINT` if the
    /// gate would refuse them; `PENDING_DENIED` if the call with these arguments was denied before; a store that fails.
    pub fn edit(&self, pending: &PendingApproval, text: &str) -> Result<PendingApproval, HostError> {
        let binding = pending.binding();
        let args = read(text.as_bytes(), binding.args_recipe, &Limits::default())?;
        if own_arguments(args.clone()).digest() != args.digest() {
            return Err(PendingError::Edit.into());
        }
        let edited = pending.edited(&args)?;
        let registry = self.config.current_registry()?;
        let view = registry.view();
        if binding.registry_version != Some(view.snapshot().version()) {
            let text =
                "the call was made under another registry than the one in force: the client must call again";
            return Err(HostError::refused("EDIT_REGISTRY", text));
        }
        let rules = view.snapshot().tool(&binding.tool);
        let unlisted =
            || HostError::refused(RejectionCode::UndisclosedTool.as_str(), "the tool is not listed");
        rules.ok_or_else(unlisted)?.check_args(&args).map_err(|error| {
            let code = match error {
                ArgsError::Schema { .. } => RejectionCode::ArgsSchema,
                ArgsError::Constraint { .. } => RejectionCode::ArgsConstraint,
                _ => RejectionCode::Internal,
            };
            HostError::refused(code.as_str(), error.to_string())
        })?;
        if self.store.find_denied(&edited.edited_binding(), now()?)?.is_some() {
            return Err(PendingError::Denied.into());
        }
        Ok(edited)
    }
}
