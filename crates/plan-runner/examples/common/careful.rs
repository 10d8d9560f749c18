// A model that follows its instructions.

use countersign_plan_runner::{Chat, ChatMessage, ModelError};

/// Answers by the example's rules.
pub(crate) struct Careful;

impl Chat for Careful {
    fn complete(&mut self, messages: &[ChatMessage]) -> Result<String, ModelError> {
        let [instructions, about] = messages else {
            return Err(ModelError::new("MODEL_CONFUSED", "two messages were expected"));
        };
        crate::thinking::think(instructions.content(), about.content())
            .ok_or_else(|| ModelError::new("MODEL_CONFUSED", "nothing came to mind"))
    }
}
