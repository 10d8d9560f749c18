use countersign_canonical_json::{Kind, ValueRef, write_string};

use crate::compose::Object;
use crate::fault::Fault;

/// Maximum length of a text id, in bytes: ids are kept while requests are outstanding.
const MAX_ID_BYTES: usize = 256;

/// The id of a JSON-RPC request. `1` and `"1"` are different ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RpcId {
    Number(i64),
    Text(Box<str>),
}

impl RpcId {
    /// Reads an id as MCP allows it: a string or an integer, never null.
    pub(crate) fn read(value: ValueRef<'_>) -> Option<Self> {
        if let Some(text) = value.as_str() {
            return Self::text(text);
        }
        // A number that was rounded on reading could name a request other than the intended one.
        if value.is_exact() { value.as_i64().map(Self::Number) } else { None }
    }

    pub(crate) fn text(text: &str) -> Option<Self> {
        (text.len() <= MAX_ID_BYTES).then(|| Self::Text(text.into()))
    }

    /// The id as JSON.
    pub(crate) fn json(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => {
                let mut out = String::new();
                write_string(&mut out, text);
                out
            }
        }
    }
}

/// One JSON-RPC 2.0 message, as MCP narrows it: `params` is an object if present, and unknown members are refused.
///
/// Some readers match names case-insensitively. To them, `{"result":..,"Method":"sampling/createMessage"}` is a
/// request, so an unknown top-level member is an error.
#[derive(Clone, Debug)]
pub(crate) enum Message<'a> {
    Request { id: RpcId, method: &'a str, params: Option<ValueRef<'a>> },
    Notification { method: &'a str, params: Option<ValueRef<'a>> },
    Answer { id: RpcId, body: Body<'a> },
}

/// Content of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    Result(ValueRef<'a>),
    Error,
}

/// The parts that were readable in a value that is not a message.
#[derive(Debug)]
pub(crate) struct NotAMessage<'a> {
    pub(crate) fault: Fault,
    /// The id of an apparent request; an error may be returned under it.
    pub(crate) id: Option<RpcId>,
    pub(crate) method: Option<&'a str>,
}

impl<'a> Message<'a> {
    /// Reads a message.
    pub(crate) fn read(value: ValueRef<'a>) -> Result<Self, NotAMessage<'a>> {
        let method = value.get("method").and_then(ValueRef::as_str);
        let id = method.and(value.get("id")).and_then(RpcId::read);
        read(value).map_err(|fault| NotAMessage { fault, id, method })
    }
}

fn read(value: ValueRef<'_>) -> Result<Message<'_>, Fault> {
    if value.kind() == Kind::Array {
        return Err(Fault::Batch);
    }
    if value.kind() != Kind::Object {
        return Err(Fault::NotAnObject);
    }
    if value.get("jsonrpc").and_then(ValueRef::as_str) != Some("2.0") {
        return Err(Fault::Version);
    }
    let id = match value.get("id") {
        Some(id) => Some(RpcId::read(id).ok_or(Fault::Id)?),
        None => None,
    };
    let (method, params) = (value.get("method"), value.get("params"));
    let (result, error) = (value.get("result"), value.get("error"));
    let known = [id.is_some(), method.is_some(), params.is_some(), result.is_some(), error.is_some()];
    if value.len() != known.into_iter().filter(|known| *known).count().saturating_add(1) {
        return Err(Fault::Member);
    }
    match (method, id, result, error) {
        (Some(method), id, None, None) => {
            let method = method.as_str().ok_or(Fault::Method)?;
            if params.is_some_and(|params| params.kind() != Kind::Object) {
                return Err(Fault::Params);
            }
            Ok(match id {
                Some(id) => Message::Request { id, method, params },
                None => Message::Notification { method, params },
            })
        }
        (None, Some(id), Some(result), None) if params.is_none() => {
            Ok(Message::Answer { id, body: Body::Result(result) })
        }
        (None, Some(id), None, Some(_)) if params.is_none() => Ok(Message::Answer { id, body: Body::Error }),
        (None, None, Some(_), None) | (None, None, None, Some(_)) => Err(Fault::Id),
        _ => Err(Fault::Member),
    }
}

/// Builds the error that answers a request. Without an id, the answer has `null` (JSON-RPC 2.0, section 5).
pub(crate) fn error_line(id: Option<&RpcId>, fault: Fault) -> String {
    error_line_with(id, fault, Object::new().string("code", fault.code()))
}

/// Builds the error that answers a request, with `data` as its data.
pub(crate) fn error_line_with(id: Option<&RpcId>, fault: Fault, data: Object) -> String {
    numbered_error_line(id, fault.rpc_code(), fault.reason(), data)
}

/// Builds the error that answers a request, with a number and a text.
pub(crate) fn numbered_error_line(id: Option<&RpcId>, number: i32, text: &str, data: Object) -> String {
    let error = Object::new()
        .raw("code", &number.to_string())
        .raw("data", &data.finish())
        .string("message", text)
        .finish();
    let id = id.map_or_else(|| String::from("null"), RpcId::json);
    Object::new().raw("error", &error).raw("id", &id).string("jsonrpc", "2.0").finish()
}

/// Builds the answer that carries a result.
pub(crate) fn result_line(id: &RpcId, result: &str) -> String {
    Object::new().raw("id", &id.json()).string("jsonrpc", "2.0").raw("result", result).finish()
}
