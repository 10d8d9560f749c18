//! Wire format of chat completions: the request, and the part of the answer that is read.

use countersign_canonical_json::{Limits, Recipe, ValueRef, read, write_string};

use crate::chat::ChatMessage;
use crate::chat_error::ChatError;

/// Writes a request's body.
pub(crate) fn request(model: &str, messages: &[ChatMessage]) -> String {
    let mut body = String::from("{\"messages\":");
    crate::prompt::list(&mut body, messages, |out, message| {
        out.push_str("{\"content\":");
        write_string(out, message.content());
        out.push_str(",\"role\":");
        write_string(out, message.role().as_str());
        out.push('}');
    });
    body.push_str(",\"model\":");
    write_string(&mut body, model);
    body.push_str(",\"stream\":false}");
    body
}

/// Reads the model's text from the server's answer. Numbers are read as in `RFC 8785`, since servers write statistics that no
/// double holds exactly, and none of them is used.
pub(crate) fn answer(body: &[u8]) -> Result<String, ChatError> {
    let limits = Limits::default();
    let limits = limits.with_max_bytes(body.len()).unwrap_or(limits);
    let json = read(body, Recipe::Rfc8785, &limits).map_err(ChatError::Json)?;
    let choices = json.value().get("choices").ok_or(ChatError::Shape)?;
    let choice = choices.elements().next().filter(|_| choices.len() == 1).ok_or(ChatError::Shape)?;
    let ended = choice.get("finish_reason").and_then(ValueRef::as_str);
    if ended.is_some_and(|reason| reason != "stop") {
        return Err(ChatError::Unfinished);
    }
    let content = choice.get("message").and_then(|message| message.get("content"));
    content.and_then(ValueRef::as_str).map(str::to_owned).ok_or(ChatError::Shape)
}
