//! Errors as the exceptions of `countersign._errors`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign::core::{Coded, error_chain};
use countersign::tool_gate::RejectionCode;
use pyo3::prelude::*;

pub(crate) const MODULE: &str = "countersign._errors";

/// Returns a refusal by a code that no decision of the gate stands behind: the gate could not be asked.
pub(crate) fn undecided(py: Python<'_>, code: RejectionCode, call_id: &str) -> PyErr {
    let made = py.import(MODULE).and_then(|module| {
        let args =
            (code.as_str(), code.message(), code.retry().as_str(), code.unlock(), call_id, None::<u64>);
        module.getattr("Rejected")?.call1(args)
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Returns an error of loading or opening as the named exception, with its code.
pub(crate) fn coded<E: Coded + std::error::Error>(py: Python<'_>, class: &str, error: &E) -> PyErr {
    raise(py, class, error.code(), &error_chain(error))
}

/// Returns the named exception with a code and a text.
pub(crate) fn raise(py: Python<'_>, class: &str, code: &str, text: &str) -> PyErr {
    let made = py.import(MODULE).and_then(|module| module.getattr(class)?.call1((code, text)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Runs code that must not unwind into Python: a panic is a refusal.
pub(crate) fn guarded<T>(py: Python<'_>, call_id: &str, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(undecided(py, RejectionCode::Internal, call_id)))
}
