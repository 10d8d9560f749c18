//! Common parts of the prompts. A model's whole input is one JSON object, so that no text in it can pass for the frame around it.

use crate::chat::{ChatMessage, ChatRole};

/// The instructions as the system message, and their subject as the user's.
pub(crate) fn messages(instructions: &str, about: String) -> [ChatMessage; 2] {
    [ChatMessage::new(ChatRole::System, instructions), ChatMessage::new(ChatRole::User, about)]
}

/// Writes a JSON array.
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
