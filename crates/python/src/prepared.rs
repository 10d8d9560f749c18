//! A call as Python passed it, read once: it may be decided on another thread.

use std::borrow::Cow;

use countersign::tool_gate::ToolCall;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::args::text_of;

/// Parameters of `Gate.check`, or the reason why they are no call.
pub(crate) struct PreparedCall<'py> {
    id: Cow<'py, str>,
    read: Result<Parameters<'py>, &'static str>,
}

struct Parameters<'py> {
    server: Option<Cow<'py, str>>,
    name: Cow<'py, str>,
    args: Cow<'py, [u8]>,
    ask: Option<Cow<'py, str>>,
    tokens: Vec<String>,
    proposal: Option<Cow<'py, [u8]>>,
    is_again: bool,
}

/// A call between `Gate._prepare` and `Gate._decide`.
#[pyclass(name = "_Prepared", frozen, module = "countersign")]
pub(crate) struct PyPrepared(pub(crate) PreparedCall<'static>);

impl<'py> PreparedCall<'py> {
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    pub(crate) fn read(
        id: &'py str,
        call_id: &Bound<'py, PyAny>,
        name: &'py Bound<'py, PyAny>,
        args: &'py Bound<'py, PyAny>,
        [server, ask]: [Option<&'py Bound<'py, PyAny>>; 2],
        approval: Option<&Bound<'py, PyAny>>,
        proposal: Option<&'py Bound<'py, PyAny>>,
        is_again: bool,
    ) -> Self {
        let read = || {
            text(call_id).ok_or("the call's id is not a str")?;
            let name = text(name).ok_or("the tool's name is not a str")?.into();
            let optional = |value: Option<&'py Bound<'py, PyAny>>, wrong| match value {
                None => Ok(None),
                Some(value) => text(value).map(|text| Some(Cow::from(text))).ok_or(wrong),
            };
            Ok(Parameters {
                server: optional(server, "the server is not a str")?,
                name,
                ask: optional(ask, "the goal is not a str")?,
                tokens: approval.map_or(Some(Vec::new()), tokens_of).ok_or("the approval is not a str")?,
                proposal: proposal.map(text_of).transpose()?,
                args: text_of(args)?,
                is_again,
            })
        };
        Self { id: id.into(), read: read() }
    }

    /// Copies what the call borrows from Python.
    pub(crate) fn into_owned(self) -> PreparedCall<'static> {
        fn owned<T: ToOwned + ?Sized>(part: Cow<'_, T>) -> Cow<'static, T> {
            Cow::Owned(part.into_owned())
        }
        let read = self.read.map(|read| Parameters {
            server: read.server.map(owned),
            name: owned(read.name),
            args: owned(read.args),
            ask: read.ask.map(owned),
            tokens: read.tokens,
            proposal: read.proposal.map(owned),
            is_again: read.is_again,
        });
        PreparedCall { id: owned(self.id), read }
    }

    pub(crate) const fn is_readable(&self) -> bool {
        self.read.is_ok()
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the call with the tokens that were presented for it, or the reason why it cannot be read.
    pub(crate) fn as_call<'a>(&'a self, presented: &'a [String]) -> Result<ToolCall<'a>, &'static str> {
        let read = self.read.as_ref().map_err(|reason| *reason)?;
        let mut call = match &read.server {
            Some(server) => ToolCall::new(&self.id, server, &read.name, &read.args),
            None => ToolCall::by_name(&self.id, &read.name, &read.args),
        };
        if let Some(ask) = &read.ask {
            call = call.ask(ask);
        }
        if let Some(proposal) = &read.proposal {
            call = call.proposal(proposal);
        }
        for token in presented.iter().chain(&read.tokens) {
            call = call.approval(token);
        }
        Ok(call.runs_again(read.is_again))
    }
}

/// Returns the text of a `str`; `None` for any other value.
pub(crate) fn text<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.cast::<PyString>().ok()?.to_str().ok()
}

/// Returns the tokens of a `str`, or of a list or tuple of them.
fn tokens_of(value: &Bound<'_, PyAny>) -> Option<Vec<String>> {
    if let Some(token) = text(value) {
        return Some(vec![token.to_owned()]);
    }
    value.try_iter().ok()?.map(|token| text(&token.ok()?).map(str::to_owned)).collect()
}
