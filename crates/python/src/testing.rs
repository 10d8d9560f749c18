//! A gate whose registry, keys and record are in memory, for the tests of hosts.

use std::sync::Arc;

use countersign::SessionBuilder;
use countersign::approval_token::MemorySpentTokens;
use countersign::audit_log::MemorySink;
use countersign::core::{
    AgentId, Audience, Clock, KeyId, Millis, Principal, RunId, SessionId, SpentTokens, SystemClock,
};
use countersign::keys::{Keyring, ServerSecret, SigningKey, TrustRoot};
use countersign::registry::{
    CapabilityRegistry, LoadOptions, MemoryHighWater, NegotiationRequest, RegistryDraft,
};
use countersign::tool_gate::{ApprovalSettings, CheckedCall, ToolCall};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::gate::PyGate;
use crate::open::{PyProposals, with_checks};

/// Lifetime of the registry and of the session.
const DAY: Millis = Millis::from_secs(86_400);

/// Opens a gate over the JSON text of a registry draft, with its first agent. `fault="check"` adds a check that panics.
#[pyfunction]
#[pyo3(signature = (draft, agent, *, session, principal, goal=None, proposals=None, checks=None, fault=None))]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
pub(crate) fn testing_gate(
    draft: &str,
    agent: &str,
    session: &str,
    principal: &str,
    goal: Option<&str>,
    proposals: Option<&PyProposals>,
    checks: Option<&Bound<'_, PyDict>>,
    fault: Option<&str>,
) -> PyResult<PyGate> {
    let invalid = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let clock = Arc::new(SystemClock::new());
    let now = clock.now().map_err(|error| invalid(&error))?;
    let mut seeds = [[0_u8; 32]; 2];
    for seed in &mut seeds {
        getrandom::fill(seed).map_err(|error| invalid(&error))?;
    }
    let [operator, secret] = seeds;
    let operator = SigningKey::from_seed(operator);
    let draft = RegistryDraft::from_json(draft.as_bytes()).map_err(|error| invalid(&error))?;
    let expires = now.checked_add(DAY).map_err(|error| invalid(&error))?;
    let signed = draft.sign(now, expires, &[&operator]).map_err(|error| invalid(&error))?;
    let root = TrustRoot::new(1, 1, [operator.verifying_key()]).map_err(|error| invalid(&error))?;
    let (bytes, marks) = (signed.to_json().into_bytes(), Arc::new(MemoryHighWater::new()));
    let registry = CapabilityRegistry::load(&bytes, &root, marks, LoadOptions::default(), now);
    let registry = Arc::new(registry.map_err(|error| invalid(&error))?);
    let secret = KeyId::new("test")
        .map_err(|error| invalid(&error))
        .and_then(|id| ServerSecret::new(id, &secret).map_err(|error| invalid(&error)))?;
    let run = RunId::new(session).map_err(|error| invalid(&error))?;
    let audience = Audience::new("test").map_err(|error| invalid(&error))?;
    let spent = Arc::new(MemorySpentTokens::since(now));
    let approvals = ApprovalSettings::new(Keyring::new(secret).for_run(&run), spent, audience);
    let agent = AgentId::new(agent).map_err(|error| invalid(&error))?;
    let session = SessionId::new(session).map_err(|error| invalid(&error))?;
    let principal = Principal::new(principal).map_err(|error| invalid(&error))?;
    let request = NegotiationRequest::new(session, agent);
    let clock: Arc<dyn Clock> = clock;
    let ids: Arc<dyn SpentTokens> = Arc::new(MemorySpentTokens::since(now));
    let once = Arc::clone(&ids);
    let mut opening = SessionBuilder::over(registry, clock, request, principal)
        .approvals(approvals)
        .gate(move |gate| gate.call_ids_once(once));
    if let Some(goal) = goal {
        opening = opening.goal(goal);
    }
    if let Some(proposals) = proposals {
        opening = opening.proposals(proposals.settings(ids));
    }
    opening = with_checks(opening, checks)?;
    match fault {
        None => {}
        Some("check") => opening = opening.gate(|gate| gate.user_check("fault", fail)),
        Some(_) => return Err(PyValueError::new_err("`fault` is \"check\" or None")),
    }
    let gate = opening.open(MemorySink::new()).map_err(|error| invalid(&error))?;
    Ok(PyGate::from(gate))
}

#[expect(clippy::panic, reason = "the fault that a test asks for")]
fn fail(_: &CheckedCall<'_>) -> Result<(), String> {
    panic!("a fault that a test asked for")
}

/// Checks and runs calls in Rust, to measure the cost of the Python layer. Their ids begin with `prefix`.
#[pyfunction]
#[pyo3(signature = (gate, prefix, name, args, count))]
pub(crate) fn testing_rust_calls(
    py: Python<'_>,
    gate: &PyGate,
    prefix: &str,
    name: &str,
    args: &[u8],
    count: u32,
) {
    py.detach(|| {
        for number in 0..count {
            let id = format!("{prefix}{number}");
            let decided = gate.gate().check(&ToolCall::by_name(&id, name, args));
            let _ = decided.map(|call| call.run(|_| Ok::<(), ()>(())));
        }
    });
}
