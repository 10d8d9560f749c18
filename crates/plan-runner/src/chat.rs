use std::fmt;

use crate::model::ModelError;

/// Role of a message to a chat model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChatRole {
    /// The host's instructions.
    System,
    /// The input that the model works on.
    User,
}

impl ChatRole {
    /// The role's name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
        }
    }
}

/// One message to a chat model.
#[derive(Clone, PartialEq, Eq)]
pub struct ChatMessage {
    role: ChatRole,
    content: String,
}

impl ChatMessage {
    /// Creates a message.
    #[must_use]
    pub fn new(role: ChatRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }

    /// The role.
    #[must_use]
    pub const fn role(&self) -> ChatRole {
        self.role
    }

    /// The text.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }
}

/// Shows the role and the size of the text, but not the text.
impl fmt::Debug for ChatMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatMessage").field("role", &self.role).field("bytes", &self.content.len()).finish()
    }
}

/// A chat model that returns one text. [`ModelPlanner`](crate::ModelPlanner), [`ModelResponder`](crate::ModelResponder) and
/// [`ModelInspector`](crate::ModelInspector) use it; each request is independent.
pub trait Chat {
    /// Returns the model's answer to the messages.
    ///
    /// # Errors
    /// [`ModelError`] if there is no answer, or not a complete one.
    fn complete(&mut self, messages: &[ChatMessage]) -> Result<String, ModelError>;
}

impl<C: Chat + ?Sized> Chat for &mut C {
    fn complete(&mut self, messages: &[ChatMessage]) -> Result<String, ModelError> {
        (**self).complete(messages)
    }
}
