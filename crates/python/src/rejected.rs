//! A refusal as the exception that Python gets.

use countersign::tool_gate::Rejection;
use pyo3::prelude::*;

use crate::errors::MODULE;
use crate::request::PyApprovalRequest;

/// Returns a refusal as the exception that the caller gets.
pub(crate) fn rejected(py: Python<'_>, rejection: &Rejection) -> PyErr {
    rejected_value(py, rejection).map_or_else(|error| error, PyErr::from_value)
}

/// Returns a refusal as an exception that is not raised.
pub(crate) fn rejected_value<'py>(py: Python<'py>, rejection: &Rejection) -> PyResult<Bound<'py, PyAny>> {
    let retry = rejection.retry().as_str();
    let (code, message, unlock) = (rejection.code().as_str(), rejection.message(), rejection.unlock());
    let (call_id, sequence) = (rejection.call_id(), rejection.sequence());
    let module = py.import(MODULE)?;
    match rejection.approval_request().filter(|_| sequence.is_some()) {
        Some(request) => {
            let request = PyApprovalRequest::from(request.clone());
            let args = (code, message, retry, unlock, call_id, sequence, request);
            module.getattr("ApprovalRequired")?.call1(args)
        }
        None => module.getattr("Rejected")?.call1((code, message, retry, unlock, call_id, sequence)),
    }
}
