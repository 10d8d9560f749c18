//! The notice for the agent that a person edited its call.

use countersign_canonical_json::Canonical;
use countersign_core::escape_hidden;

use crate::compose::Object;
use crate::cut::{Edits, ValuePosition};
use crate::era_2025::{DECISION, is_ours};

/// Longest arguments that the notice repeats, in bytes.
const MAX_ARGS: usize = 4_096;

/// Parts of the result of a call that ran with a person's arguments.
#[derive(Debug)]
pub(crate) struct EditNotice {
    /// An item of the result's content. The result of a read has none.
    item: Option<String>,
    /// The gateway's own metadata.
    decision: String,
}

impl EditNotice {
    /// Takes the arguments with which the call or the read runs.
    pub(crate) fn new(args: &Canonical, is_read: bool) -> Self {
        let digest = args.digest().to_string();
        let ran = match args.as_str() {
            text if text.len() <= MAX_ARGS => escape_hidden(text),
            _ => format!("arguments that are too long to repeat (sha-256 {digest})"),
        };
        let text = format!("A person edited the arguments of this call before it ran. It ran with: {ran}");
        Self {
            item: (!is_read).then(|| Object::new().string("text", &text).string("type", "text").finish()),
            decision: Object::new().string("args_digest", &digest).raw("edited", "true").finish(),
        }
    }

    /// Adds the notice to the line of a result. An error stays as it is.
    pub(crate) fn add(&self, edits: &mut Edits<'_>, line: &ValuePosition<'_>) {
        let Some(result) = line.get("result") else { return };
        if let Some(item) = &self.item {
            let Some(content) = result.get("content") else {
                return edits.add_member(&result, "content", &format!("[{item}]"));
            };
            edits.add_element(&content, item);
        }
        match result.get("_meta") {
            None => edits.add_member(&result, "_meta", &Object::new().raw(DECISION, &self.decision).finish()),
            // A member of this name in a server's own metadata is cut, and this one would be cut with it.
            Some(meta) if meta.members().any(|(name, _)| is_ours(&name)) => {}
            Some(meta) => edits.add_member(&meta, DECISION, &self.decision),
        }
    }
}
