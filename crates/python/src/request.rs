//! The request for a person's approval.

use countersign::tool_gate::ApprovalRequest as Request;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::args::members_of;
use crate::errors::coded;

/// Request for a person's approval of one call. As JSON it outlives the process.
#[pyclass(name = "ApprovalRequest", frozen, module = "countersign")]
pub(crate) struct PyApprovalRequest(Request);

impl From<Request> for PyApprovalRequest {
    fn from(request: Request) -> Self {
        Self(request)
    }
}

impl PyApprovalRequest {
    pub(crate) const fn request(&self) -> &Request {
        &self.0
    }
}

#[pymethods]
impl PyApprovalRequest {
    /// Reads a request that `to_json` wrote. Raises `RequestError`.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Request::from_json(text.as_bytes()).map(Self).map_err(|error| coded(py, "RequestError", &error))
    }

    /// Returns the request as canonical JSON. It holds the arguments, and no key or token.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    #[getter]
    fn call_id(&self) -> &str {
        self.0.binding().call_id.as_str()
    }

    #[getter]
    fn server(&self) -> &str {
        self.0.binding().tool.server().as_str()
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.binding().tool.name().as_str()
    }

    #[getter]
    fn session(&self) -> Option<&str> {
        self.0.binding().session.as_ref().map(|session| session.as_str())
    }

    #[getter]
    fn principal(&self) -> &str {
        self.0.binding().principal.as_str()
    }

    /// The arguments, as a fresh dict.
    #[getter]
    fn args<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        members_of(py, self.0.args().value())
    }

    /// SHA-256 of the canonical arguments, in hexadecimal.
    #[getter]
    fn args_digest(&self) -> String {
        self.0.binding().args.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<ApprovalRequest {} {}>", self.call_id(), self.name())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json(),)))
    }
}
