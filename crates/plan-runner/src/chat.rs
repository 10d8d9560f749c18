use std::fmt;

use crate::model::ModelError;

/// Names who speaks in a message to a chat model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChatRole {
    /// The host's instructions.
    System,
    /// What the model is to work on.
    User,
}

impl ChatRole {
    /// The word that stands for the role in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
        }
    }
}

/// Holds one message to a chat model.
#[derive(Clone, PartialEq, Eq)]
pub struct ChatMessage {
    role: ChatRole,
    content: String,
}

impl ChatMessage {
    /// Puts a message together.
    #[must_use]
    pub fn new(role: ChatRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }

    /// Who speaks.
    #[must_use]
    pub const fn role(&self) -> ChatRole {
        self.role
    }

    /// What is said.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }
}

/// Shows who speaks and how much, and nothing of what is said.
impl fmt::Debug for ChatMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatMessage").field("role", &self.role).field("bytes", &self.content.len()).finish()
    }
}

/// Asks a chat model for one text. What [`ModelPlanner`](crate::ModelPlanner), [`ModelResponder`](crate::ModelResponder) and
/// [`ModelInspector`](crate::ModelInspector) need of a model; each call stands for itself.
pub trait Chat {
    /// Gives the model's answer to the messages.
    ///
    /// # Errors
    /// [`ModelError`] when there is none, or not a whole one.
    fn complete(&mut self, messages: &[ChatMessage]) -> Result<String, ModelError>;
}

impl<C: Chat + ?Sized> Chat for &mut C {
    fn complete(&mut self, messages: &[ChatMessage]) -> Result<String, ModelError> {
        (**self).complete(messages)
    }
}
