//! The gate of one session.

use std::collections::VecDeque;
use std::process;
use std::str::FromStr as _;

use countersign::approval_token::ApprovalToken;
use countersign::audit_log::{EndReason, Verdict};
use countersign::core::{Millis, OperatorId};
use countersign::tool_gate::{Observed, RejectionCode, ToolCall, ToolGate, Window};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::args::text_of;
use crate::call::PyCall;
use crate::errors::{coded, guarded, undecided};
use crate::rejected::{rejected, rejected_value};
use crate::request::PyApprovalRequest;

/// Number of tokens that wait for their call.
const MAX_PRESENTED: usize = 1_024;

/// Decides about every tool call of one session.
#[pyclass(name = "Gate", frozen, weakref, module = "countersign")]
pub(crate) struct PyGate {
    gate: ToolGate,
    process: u32,
    presented: Mutex<VecDeque<(String, String)>>,
}

impl From<ToolGate> for PyGate {
    fn from(gate: ToolGate) -> Self {
        Self { gate, process: process::id(), presented: Mutex::default() }
    }
}

impl PyGate {
    pub(crate) const fn gate(&self) -> &ToolGate {
        &self.gate
    }

    /// Refuses in a forked process: the record and its locks belong to the parent.
    fn check_process(&self, py: Python<'_>, call_id: &str) -> PyResult<()> {
        if self.process == process::id() {
            return Ok(());
        }
        Err(undecided(py, RejectionCode::AuditUnavailable, call_id))
    }

    fn malformed(&self, py: Python<'_>, call_id: &str, reason: &str) -> PyErr {
        let rejection = py.detach(|| self.gate.refuse_malformed(call_id, reason));
        rejected(py, &rejection)
    }

    /// Takes the tokens that were presented for a call.
    fn take_presented(&self, call_id: &str) -> Vec<String> {
        let mut presented = self.presented.lock();
        if presented.is_empty() {
            return Vec::new();
        }
        let (own, others) = presented.drain(..).partition(|(id, _)| id == call_id);
        *presented = others;
        let own: VecDeque<(String, String)> = own;
        own.into_iter().map(|(_, token)| token).collect()
    }
}

/// Returns the text of a `str`; `None` for any other value.
fn text<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.cast::<PyString>().ok()?.to_str().ok()
}

pub(crate) fn seconds_or_text(value: &Bound<'_, PyAny>) -> PyResult<Millis> {
    let invalid = || PyValueError::new_err("not a span of time: seconds, or a text such as \"5m\"");
    if let Some(text) = text(value) {
        return Millis::from_str(text).map_err(|_| invalid());
    }
    let seconds: f64 = value.extract().map_err(|_| invalid())?;
    let span = std::time::Duration::try_from_secs_f64(seconds).map_err(|_| invalid())?;
    Millis::try_from(span).map_err(|_| invalid())
}

#[pymethods]
impl PyGate {
    /// Decides about a call. Returns an accepted `Call`; raises `Rejected`.
    #[pyo3(signature = (call_id, name, args, server=None, ask=None, approval=None, proposal=None, rerun=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn check(
        &self,
        py: Python<'_>,
        call_id: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        args: &Bound<'_, PyAny>,
        server: Option<&Bound<'_, PyAny>>,
        ask: Option<&Bound<'_, PyAny>>,
        approval: Option<&Bound<'_, PyAny>>,
        proposal: Option<&Bound<'_, PyAny>>,
        rerun: bool,
    ) -> PyResult<PyCall> {
        let id = text(call_id).unwrap_or("?");
        guarded(py, id, || {
            self.check_process(py, id)?;
            let wrong = |reason| self.malformed(py, id, reason);
            if text(call_id).is_none() {
                return Err(wrong("the call's id is not a str"));
            }
            let name = text(name).ok_or_else(|| wrong("the tool's name is not a str"))?;
            let optional = |value: Option<&Bound<'_, PyAny>>| match value {
                None => Ok(None),
                Some(value) => text(value).map(|it| Some(it.to_owned())).ok_or(()),
            };
            let server = optional(server).map_err(|()| wrong("the server is not a str"))?;
            let ask = optional(ask).map_err(|()| wrong("the goal is not a str"))?;
            let mut tokens = self.take_presented(id);
            match approval {
                None => {}
                Some(token) => {
                    let more = tokens_of(token).ok_or_else(|| wrong("the approval is not a str"))?;
                    tokens.extend(more);
                }
            }
            let proposal = match proposal {
                None => None,
                Some(json) => Some(text_of(json).map_err(wrong)?),
            };
            let args = text_of(args).map_err(wrong)?;
            let mut call = match &server {
                Some(server) => ToolCall::new(id, server, name, args.bytes()),
                None => ToolCall::by_name(id, name, args.bytes()),
            };
            if let Some(ask) = &ask {
                call = call.ask(ask);
            }
            if let Some(proposal) = &proposal {
                call = call.proposal(proposal.bytes());
            }
            for token in &tokens {
                call = call.approval(token);
            }
            let call = call.runs_again(rerun);
            let decided = py.detach(|| self.gate.check(&call));
            decided.map(PyCall::from).map_err(|rejection| rejected(py, &rejection))
        })
    }

    /// As `check`, without blocking the event loop.
    #[pyo3(signature = (*args, **kwargs))]
    fn acheck<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("countersign._async")?.getattr("check")?.call1((slf, args, kwargs))
    }

    /// Records the refusal of a call that a framework's adapter does not bring to the gate: `CALL_ID_REUSED` if its id is in
    /// use, and otherwise `MALFORMED_CALL`. Returns its `Rejected`.
    #[pyo3(signature = (call_id, name, reason, *, is_reused))]
    fn _refuse<'py>(
        &self,
        py: Python<'py>,
        call_id: &str,
        name: &str,
        reason: &str,
        is_reused: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded(py, call_id, || {
            self.check_process(py, call_id)?;
            let refused = py.detach(|| match is_reused {
                true => self.gate.refuse_reused(call_id, name, reason),
                false => self.gate.refuse_malformed(call_id, reason),
            });
            rejected_value(py, &refused)
        })
    }

    /// Approves one call in the name of a person whom the host has authenticated, and returns the token. `ttl` is in seconds,
    /// or a text such as `"5m"`. Raises `AnswerError`.
    fn approve(
        &self,
        py: Python<'_>,
        request: &PyApprovalRequest,
        operator: &str,
        ttl: &Bound<'_, PyAny>,
    ) -> PyResult<String> {
        let ttl = seconds_or_text(ttl)?;
        let operator = OperatorId::new(operator).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let id = request.request().binding().call_id.as_str();
        guarded(py, id, || {
            self.check_process(py, id)?;
            let token = py.detach(|| self.gate.approve(request.request(), &operator, ttl));
            token.map(|token| token.as_str().to_owned()).map_err(|error| coded(py, "AnswerError", &error))
        })
    }

    /// Denies one call in the name of a person. Returns the recorded refusal for the agent. Raises `AnswerError`.
    fn deny<'py>(
        &self,
        py: Python<'py>,
        request: &PyApprovalRequest,
        person: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let id = request.request().binding().call_id.as_str();
        guarded(py, id, || {
            self.check_process(py, id)?;
            match py.detach(|| self.gate.deny(request.request(), person)) {
                Ok(rejection) => rejected_value(py, &rejection),
                Err(error) => Err(coded(py, "AnswerError", &error)),
            }
        })
    }

    /// Keeps a token for the next check of its call. Raises `ValueError` for a text that is no token.
    fn present(&self, token: &str) -> PyResult<()> {
        let invalid = || PyValueError::new_err("not an approval token");
        let read: ApprovalToken = token.parse().map_err(|_| invalid())?;
        let call_id = read.claimed_call_id().ok_or_else(invalid)?;
        let mut presented = self.presented.lock();
        if presented.len() >= MAX_PRESENTED {
            presented.pop_front();
        }
        presented.push_back((call_id.as_str().to_owned(), token.to_owned()));
        Ok(())
    }

    /// Looks at a model's tool call before dispatch. An unknown name is recorded as an undisclosed call. Returns its
    /// `Rejected`, or `None` for a name that the session discloses.
    fn observe<'py>(&self, py: Python<'py>, raw: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        guarded(py, "?", || {
            self.check_process(py, "?")?;
            let seen = match text_of(raw) {
                Ok(raw) => py.detach(|| self.gate.observe(raw.bytes())),
                Err(reason) => return Err(self.malformed(py, "?", reason)),
            };
            match seen {
                Observed::Undisclosed(rejection) | Observed::Malformed(rejection) => {
                    rejected_value(py, &rejection).map(Some)
                }
                Observed::Disclosed | _ => Ok(None),
            }
        })
    }

    /// Share of accepted calls, or `None` before the first decision.
    fn acceptance_rate(&self) -> Option<f64> {
        self.gate.acceptance_rate(Window::All)
    }

    /// Whether the gate judges action proposals.
    #[getter]
    fn takes_proposals(&self) -> bool {
        self.gate.takes_proposals()
    }

    /// Number of calls to tools that the session does not disclose.
    fn attempted_undisclosed(&self) -> u64 {
        self.gate.attempted_undisclosed().count()
    }

    /// The last decisions, oldest first, without arguments.
    fn decisions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = PyList::empty(py);
        for record in self.gate.call_log() {
            let decision = PyDict::new(py);
            let is_accepted = record.verdict == Verdict::Accept;
            decision.set_item("call_id", record.call_id.as_str())?;
            decision.set_item("server", record.tool.server.as_str())?;
            decision.set_item("name", record.tool.name.as_str())?;
            decision.set_item("verdict", if is_accepted { "accepted" } else { "rejected" })?;
            decision.set_item("code", record.code.as_ref().map(|code| code.as_str()))?;
            decision.set_item("args_digest", record.args.map(|digest| digest.to_string()))?;
            all.append(decision)?;
        }
        Ok(all)
    }

    /// Notes the current definition of a tool, by the JSON text of the tool as its server lists it.
    fn note_definition(&self, server: &str, definition: &Bound<'_, PyAny>) -> PyResult<()> {
        let text = text_of(definition).map_err(PyValueError::new_err)?;
        let invalid = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
        let (name, digest) = definition_of(text.bytes()).map_err(|error| invalid(&error))?;
        let tool = countersign::core::ToolId::new(server, &name).map_err(|error| invalid(&error))?;
        self.gate.note_definition(&tool, digest);
        Ok(())
    }

    /// Ends the session. Every later call is refused.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process(py, "?")?;
        let ended = py.detach(|| self.gate.end_session(EndReason::Client));
        ended.map_err(|error| coded(py, "SessionError", &error))
    }

    fn __repr__(&self) -> String {
        format!("<Gate {}>", self.gate.contract().session())
    }
}

/// Returns the tokens of a `str`, or of a list or tuple of them.
fn tokens_of(value: &Bound<'_, PyAny>) -> Option<Vec<String>> {
    if let Some(token) = text(value) {
        return Some(vec![token.to_owned()]);
    }
    value.try_iter().ok()?.map(|token| text(&token.ok()?).map(str::to_owned)).collect()
}

/// Returns name and digest of a tool's definition.
fn definition_of(text: &[u8]) -> Result<(String, countersign::core::Digest), String> {
    use countersign::canonical_json::{Limits, read};
    let definition =
        read(text, countersign::core::Recipe::Jcs1, &Limits::default()).map_err(|error| error.to_string())?;
    let name = definition
        .value()
        .get("name")
        .and_then(|name| name.as_str())
        .ok_or("the tool has no name")?
        .to_owned();
    let digest =
        countersign::registry::definition_digest(definition.value()).map_err(|error| error.to_string())?;
    Ok((name, digest))
}
