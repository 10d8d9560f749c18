//! An accepted call.

use countersign::audit_log::OutcomeKind;
use countersign::canonical_json::Canonical;
use countersign::core::{CallId, ToolId};
use countersign::tool_gate::{AcceptedCall, InFlight};
use parking_lot::Mutex;
use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyType};

use crate::args::{members_of, to_python};
use crate::background::later;
use crate::errors::guarded;
use crate::rejected::rejected;

/// A call that the gate accepted and recorded. It runs at most once. If it is dropped, its outcome is recorded as unknown.
#[pyclass(name = "Call", frozen, module = "countersign")]
pub(crate) struct PyCall {
    call_id: CallId,
    tool: ToolId,
    sequence: u64,
    args: Canonical,
    state: Mutex<CallState>,
}

enum CallState {
    Accepted(Box<AcceptedCall>),
    Running(InFlight),
    Done,
}

impl From<AcceptedCall> for PyCall {
    fn from(call: AcceptedCall) -> Self {
        Self {
            call_id: call.call_id().clone(),
            tool: call.tool().clone(),
            sequence: call.sequence(),
            args: call.args().clone(),
            state: Mutex::new(CallState::Accepted(Box::new(call))),
        }
    }
}

impl PyCall {
    fn take(&self) -> CallState {
        std::mem::replace(&mut *self.state.lock(), CallState::Done)
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.take();
        let CallState::Accepted(call) = taken else {
            *self.state.lock() = taken;
            return Err(PyRuntimeError::new_err("the call has run, or is running"));
        };
        let (_, in_flight) = py.detach(|| call.dispatch()).map_err(|error| rejected(py, &error))?;
        *self.state.lock() = CallState::Running(in_flight);
        Ok(())
    }

    fn end(&self, py: Python<'_>, outcome: OutcomeKind) {
        if let CallState::Running(in_flight) = self.take() {
            py.detach(|| in_flight.finish(outcome));
        }
    }
}

/// Returns the outcome of a tool that raised: a cancelled or interrupted one may have run.
fn outcome_of(py: Python<'_>, error: &PyErr) -> OutcomeKind {
    if error.is_instance_of::<PyException>(py) { OutcomeKind::Failed } else { OutcomeKind::Unknown }
}

/// Whether a callable is an async function. why: most are plain functions or built-in ones, which tell it themselves.
fn is_async(py: Python<'_>, tool: &Bound<'_, PyAny>) -> PyResult<bool> {
    const CO_COROUTINE: u32 = 0x80;
    if tool.is_exact_instance_of::<PyType>() || tool.is_exact_instance_of::<PyCFunction>() {
        return Ok(false);
    }
    let flags = tool.getattr_opt("__code__")?.and_then(|code| code.getattr("co_flags").ok());
    if let Some(flags) = flags.and_then(|flags| flags.extract::<u32>().ok()) {
        let is_marked = || Ok::<_, PyErr>(tool.getattr_opt("_is_coroutine_mark")?.is_some());
        return Ok(flags & CO_COROUTINE != 0 || is_marked()?);
    }
    py.import("inspect")?.getattr("iscoroutinefunction")?.call1((tool,))?.is_truthy()
}

#[pymethods]
impl PyCall {
    #[getter]
    fn call_id(&self) -> &str {
        self.call_id.as_str()
    }

    #[getter]
    fn server(&self) -> &str {
        self.tool.server().as_str()
    }

    #[getter]
    fn name(&self) -> &str {
        self.tool.name().as_str()
    }

    /// Number of the decision in the record.
    #[getter]
    const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The arguments as they were decided: mappings and tuples that cannot be changed.
    #[getter]
    fn args<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let plain = to_python(py, self.args.value())?;
        py.import("countersign._frozen")?.getattr("freeze")?.call1((plain,))
    }

    /// SHA-256 of the canonical arguments, in hexadecimal.
    #[getter]
    fn args_digest(&self) -> String {
        self.args.digest().to_string()
    }

    /// Calls `fn(**args)` once, with a fresh copy of the decided arguments, and records whether it returned or raised.
    fn run<'py>(&self, py: Python<'py>, r#fn: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        guarded(py, self.call_id.as_str(), || {
            if is_async(py, r#fn)? {
                return Err(PyTypeError::new_err("`run` takes a plain function; `arun` takes an async one"));
            }
            let args = members_of(py, self.args.value())?;
            self.start(py)?;
            match r#fn.call((), Some(&args)) {
                Ok(result) => {
                    self.end(py, OutcomeKind::Returned);
                    Ok(result)
                }
                Err(error) => {
                    self.end(py, outcome_of(py, &error));
                    Err(error)
                }
            }
        })
    }

    /// As `run`, for an async function. The event loop is never blocked.
    fn arun<'py>(slf: &Bound<'py, Self>, r#fn: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("countersign._async")?.getattr("run")?.call1((slf, r#fn))
    }

    /// Checks once more that the call may run, and returns a fresh copy of its arguments. `_finish` records the outcome.
    fn _start<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        guarded(py, self.call_id.as_str(), || {
            let args = members_of(py, self.args.value())?;
            self.start(py)?;
            Ok(args)
        })
    }

    /// Records how a started call ended: `returned`, `failed`, or else unknown.
    fn _finish(&self, py: Python<'_>, outcome: &str) {
        self.end(
            py,
            match outcome {
                "returned" => OutcomeKind::Returned,
                "failed" => OutcomeKind::Failed,
                _ => OutcomeKind::Unknown,
            },
        );
    }

    /// Records the outcome of a started call as unknown, later and on another thread.
    fn _abandon(&self) {
        let left = self.take();
        later(move || drop(left));
    }

    fn __enter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self._start(py)
    }

    #[pyo3(signature = (kind, error, trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        error: Option<Bound<'_, PyAny>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) -> bool {
        let _ = (kind, trace);
        let outcome = error.map_or(OutcomeKind::Returned, |error| outcome_of(py, &PyErr::from_value(error)));
        self.end(py, outcome);
        false
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("countersign._async")?.getattr("enter")?.call1((slf,))
    }

    #[pyo3(signature = (*args))]
    fn __aexit__<'py>(slf: &Bound<'py, Self>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("countersign._async")?.getattr("leave")?.call1((slf, args))
    }

    fn __repr__(&self) -> String {
        format!("<Call {} {}>", self.call_id, self.tool.name())
    }
}

impl Drop for PyCall {
    fn drop(&mut self) {
        let left = self.take();
        if !matches!(left, CallState::Done) {
            later(move || drop(left));
        }
    }
}
