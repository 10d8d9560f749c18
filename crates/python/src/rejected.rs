//! A refusal as the exception that Python gets.

use countersign::tool_gate::Rejection;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors::MODULE;
use crate::request::PyApprovalRequest;

static REJECTED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static APPROVAL_REQUIRED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Returns an exception's class, which is looked up once.
fn class<'py>(
    py: Python<'py>,
    kept: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let class = || Ok::<_, PyErr>(py.import(MODULE)?.getattr(name)?.unbind());
    Ok(kept.get_or_try_init(py, class)?.bind(py))
}

/// Returns a refusal as the exception that the caller gets.
pub(crate) fn rejected(py: Python<'_>, rejection: &Rejection) -> PyErr {
    rejected_value(py, rejection).map_or_else(|error| error, PyErr::from_value)
}

/// Returns a refusal as an exception that is not raised.
pub(crate) fn rejected_value<'py>(py: Python<'py>, rejection: &Rejection) -> PyResult<Bound<'py, PyAny>> {
    let retry = rejection.retry().as_str();
    let (code, message, unlock) = (rejection.code().as_str(), rejection.message(), rejection.unlock());
    let (call_id, sequence) = (rejection.call_id(), rejection.sequence());
    match rejection.approval_request().filter(|_| sequence.is_some()) {
        Some(request) => {
            let request = PyApprovalRequest::from(request.clone());
            let args = (code, message, retry, unlock, call_id, sequence, request);
            class(py, &APPROVAL_REQUIRED, "ApprovalRequired")?.call1(args)
        }
        None => class(py, &REJECTED, "Rejected")?.call1((code, message, retry, unlock, call_id, sequence)),
    }
}
