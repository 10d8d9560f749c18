use crate::code::RejectionCode;

impl RejectionCode {
    /// Whether the refusal says something of what the agent does, so that an [`Alarm`](crate::Alarm) takes it for a decision
    /// about the agent.
    ///
    /// Step 1 is about whether it may call anything at all, and so is a goal that has expired; a call that waits is not decided;
    /// a definition that changed is the server's doing, and a full disk or a panic the host's: neither an outage nor a
    /// server must put every agent into quarantine.
    ///
    /// ```
    /// use countersign_tool_gate::RejectionCode;
    /// assert!(RejectionCode::UndisclosedTool.is_conduct());
    /// assert!(!RejectionCode::StoreUnavailable.is_conduct());
    /// ```
    #[must_use]
    pub const fn is_conduct(self) -> bool {
        self.step() != 1
            && !matches!(
                self,
                Self::ToolDefinitionChanged
                    | Self::AskExpired
                    | Self::ApprovalRequired
                    | Self::StoreUnavailable
                    | Self::AuditUnavailable
                    | Self::Internal
            )
    }
}
