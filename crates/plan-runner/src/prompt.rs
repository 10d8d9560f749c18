//! What the prompts share. All that a model works on is one JSON object, so that no text in it can pass for the frame around it.

use crate::chat::{ChatMessage, ChatRole};

/// The instructions, and what they are about.
pub(crate) fn messages(instructions: &str, about: String) -> [ChatMessage; 2] {
    [ChatMessage::new(ChatRole::System, instructions), ChatMessage::new(ChatRole::User, about)]
}

/// Writes a JSON list.
pub(crate) fn list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}
