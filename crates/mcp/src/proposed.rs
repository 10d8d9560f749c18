//! Proposals that came ahead of their calls.

use std::collections::VecDeque;

use countersign_core::{Digest, ToolName};
use parking_lot::Mutex;

/// Most proposals that wait for their calls. One more takes the place of the oldest.
const MAX_KEPT: usize = 64;

/// Proposals that wait for their calls, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ProposedCalls {
    kept: Mutex<VecDeque<KeptProposal>>,
}

#[derive(Debug)]
pub(crate) struct KeptProposal {
    pub(crate) tool: ToolName,
    pub(crate) args: Digest,
    pub(crate) text: String,
}

impl ProposedCalls {
    pub(crate) fn keep(&self, proposal: KeptProposal) {
        let mut kept = self.kept.lock();
        kept.retain(|other| !(other.tool == proposal.tool && other.args == proposal.args));
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(proposal);
    }

    /// Returns the proposal of a call of this tool with these arguments.
    pub(crate) fn find(&self, tool: &str, args: Digest) -> Option<String> {
        let kept = self.kept.lock();
        let found = kept.iter().find(|kept| kept.tool.as_str() == tool && kept.args == args);
        found.map(|kept| kept.text.clone())
    }

    /// Removes a proposal that was judged: it serves one call.
    pub(crate) fn take(&self, tool: &str, args: Digest) {
        self.kept.lock().retain(|kept| !(kept.tool.as_str() == tool && kept.args == args));
    }
}
