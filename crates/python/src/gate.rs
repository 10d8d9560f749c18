//! The gate of one session.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::str::FromStr as _;

use countersign::approval_token::ApprovalToken;
use countersign::audit_log::{EndReason, Verdict};
use countersign::core::{Millis, OperatorId};
use countersign::tool_gate::{AcceptedCall, Observed, Rejection, RejectionCode, ToolCall, ToolGate, Window};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::args::text_of;
use crate::call::PyCall;
use crate::errors::{coded, guarded, undecided};
use crate::prepared::{PreparedCall, PyPrepared, text};
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

    fn decide(&self, call: &PreparedCall<'_>) -> Result<AcceptedCall, Rejection> {
        let presented = self.take_presented(call);
        self.gate.check(&self.readable(call, &presented)?)
    }

    /// Decides about calls, whose records share a sync.
    fn decide_all(&self, calls: &[&PreparedCall<'_>]) -> Vec<Result<AcceptedCall, Rejection>> {
        let presented: Vec<_> = calls.iter().map(|call| self.take_presented(call)).collect();
        let read = calls.iter().zip(&presented).map(|(call, presented)| self.readable(call, presented));
        let read: Vec<_> = read.collect();
        let readable: Vec<_> = read.iter().filter_map(|call| call.as_ref().ok().cloned()).collect();
        let mut decided = self.gate.check_many(&readable).into_iter();
        read.into_iter()
            .filter_map(|call| call.map_or_else(|why| Some(Err(why)), |_| decided.next()))
            .collect()
    }

    /// Returns the call; refuses one that could not be read.
    fn readable<'a>(
        &self,
        call: &'a PreparedCall<'_>,
        presented: &'a [String],
    ) -> Result<ToolCall<'a>, Rejection> {
        call.as_call(presented).map_err(|reason| self.gate.refuse_malformed(call.id(), reason))
    }

    fn malformed(&self, py: Python<'_>, call_id: &str, reason: &str) -> PyErr {
        let rejection = py.detach(|| self.gate.refuse_malformed(call_id, reason));
        rejected(py, &rejection)
    }

    /// Takes the tokens that were presented for a call.
    fn take_presented(&self, call: &PreparedCall<'_>) -> Vec<String> {
        let mut presented = self.presented.lock();
        if presented.is_empty() || !call.is_readable() {
            return Vec::new();
        }
        let (own, others) = presented.drain(..).partition(|(id, _)| id == call.id());
        *presented = others;
        let own: VecDeque<(String, String)> = own;
        own.into_iter().map(|(_, token)| token).collect()
    }
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
            let call = PreparedCall::read(id, call_id, name, args, [server, ask], approval, proposal, rerun);
            let decided = py.detach(|| self.decide(&call));
            decided.map(PyCall::from).map_err(|rejection| rejected(py, &rejection))
        })
    }

    /// Reads the parameters of `check` for a later `_decide`.
    #[staticmethod]
    #[pyo3(signature = (call_id, name, args, server=None, ask=None, approval=None, proposal=None, rerun=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn _prepare(
        py: Python<'_>,
        call_id: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        args: &Bound<'_, PyAny>,
        server: Option<&Bound<'_, PyAny>>,
        ask: Option<&Bound<'_, PyAny>>,
        approval: Option<&Bound<'_, PyAny>>,
        proposal: Option<&Bound<'_, PyAny>>,
        rerun: bool,
    ) -> PyResult<PyPrepared> {
        let id = text(call_id).unwrap_or("?");
        let read = || PreparedCall::read(id, call_id, name, args, [server, ask], approval, proposal, rerun);
        guarded(py, id, || Ok(PyPrepared(read().into_owned())))
    }

    /// Decides about prepared calls, whose records share a sync. Returns a `Call` or the exception for each, in their order.
    #[expect(clippy::needless_pass_by_value, reason = "a list of Python's is extracted by value")]
    fn _decide<'py>(
        &self,
        py: Python<'py>,
        prepared: Vec<PyRef<'py, PyPrepared>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let calls: Vec<&PreparedCall<'_>> = prepared.iter().map(|call| &call.0).collect();
        let each = |code| {
            let refused =
                |call: &&PreparedCall<'_>| undecided(py, code, call.id()).into_value(py).into_bound(py);
            Ok(calls.iter().map(|call| refused(call).into_any()).collect())
        };
        if self.process != process::id() {
            return each(RejectionCode::AuditUnavailable);
        }
        let decided = catch_unwind(AssertUnwindSafe(|| py.detach(|| self.decide_all(&calls))));
        let Ok(decided) = decided else { return each(RejectionCode::Internal) };
        let answer = |decided: Result<AcceptedCall, Rejection>| match decided {
            Ok(call) => Ok(Bound::new(py, PyCall::from(call))?.into_any()),
            Err(rejection) => rejected_value(py, &rejection),
        };
        decided.into_iter().map(answer).collect()
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
                Ok(raw) => py.detach(|| self.gate.observe(&raw)),
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
        let (name, digest) = definition_of(&text).map_err(|error| invalid(&error))?;
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
