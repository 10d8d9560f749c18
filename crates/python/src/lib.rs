//! The native module of the Python package `countersign`. It converts values and errors, and decides nothing itself.

mod args;
mod background;
mod call;
mod errors;
mod gate;
mod open;
mod prepared;
mod rejected;
mod request;
mod testing;

use pyo3::prelude::*;

/// Native part of the package `countersign`.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::args::digest;
    #[pymodule_export]
    use crate::background::settle;
    #[pymodule_export]
    use crate::call::PyCall;
    #[pymodule_export]
    use crate::gate::PyGate;
    #[pymodule_export]
    use crate::open::{PyApprovals, PyCountersign, PyLog, PyProposals};
    #[pymodule_export]
    use crate::request::PyApprovalRequest;
    #[pymodule_export]
    use crate::testing::testing_gate;
    #[pymodule_export]
    use crate::testing::testing_rust_calls;
}
