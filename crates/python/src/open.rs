//! Registry, record and approvals, from which a gate is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(unix)]
use countersign::action_proposal::EvidenceFolder;
use countersign::action_proposal::{EvidenceKeyring, Profile, ProposalPolicy, ProposalVerifier};
use countersign::approval_token::MemorySpentTokens;
use countersign::audit_log::{AuditSink, Durability, Log as RecordLog, LogOptions};
use countersign::core::{
    AgentId, Audience, Clock as _, Principal, RunId, SessionId, SpentTokens, SystemClock, Timestamp,
};
use countersign::keys::Keyring;
use countersign::keys::file::{read_log_key, read_server_secret};
use countersign::keys::trusted::read_trusted;
use countersign::tlog::note::KeyName;
use countersign::tool_gate::{ApprovalSettings, CheckedCall, ProposalSettings};
use countersign::{Countersign as Loaded, SessionBuilder};
use countersign_sqlite::SqliteStore;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::args::members_of;
use crate::errors::{coded, guarded, raise};
use crate::gate::{PyGate, seconds_or_text};

/// A verified registry, from which sessions are opened.
#[pyclass(name = "Countersign", frozen, module = "countersign")]
pub(crate) struct PyCountersign(Loaded);

/// The record: a signed log in a folder.
#[pyclass(name = "Log", frozen, module = "countersign")]
pub(crate) struct PyLog(Arc<RecordLog>);

/// Key, store and name with which approvals are verified and spent.
#[pyclass(name = "Approvals", frozen, module = "countersign")]
pub(crate) struct PyApprovals {
    keys: Keyring,
    store: Arc<SqliteStore>,
    audience: Audience,
}

/// Keys, evidence and policy by which action proposals are judged.
#[pyclass(name = "Proposals", frozen, module = "countersign")]
pub(crate) struct PyProposals(Arc<ProposalVerifier>);

/// Largest keyring or policy file, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

fn now(py: Python<'_>) -> PyResult<Timestamp> {
    let unavailable = |_| raise(py, "LoadError", "CLOCK_UNAVAILABLE", "clock unavailable");
    SystemClock::new().now().map_err(unavailable)
}

/// Returns an error for a name that breaks its grammar.
fn invalid(error: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymethods]
impl PyCountersign {
    /// Loads a registry that operators signed. `trust_root` lists their keys; `state` keeps the newest version seen, so that an
    /// older one is never loaded again. Raises `LoadError`.
    #[staticmethod]
    #[pyo3(signature = (registry, trust_root, *, state))]
    fn load(py: Python<'_>, registry: PathBuf, trust_root: PathBuf, state: PathBuf) -> PyResult<Self> {
        guarded(py, "?", || {
            let loaded = py.detach(|| Loaded::load(registry, trust_root, state));
            loaded.map(Self).map_err(|error| coded(py, "LoadError", &error))
        })
    }

    /// Opens the gate of a session of `agent` on behalf of `principal`. The host gives all names; none comes from the agent.
    /// Raises `SessionError`; there is no gate then.
    #[pyo3(signature = (agent, *, session, principal, goal=None, record, approvals=None, proposals=None, checks=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn session(
        &self,
        py: Python<'_>,
        agent: &str,
        session: &str,
        principal: &str,
        goal: Option<&str>,
        record: &PyLog,
        approvals: Option<&PyApprovals>,
        proposals: Option<&PyProposals>,
        checks: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyGate> {
        guarded(py, "?", || {
            let agent = AgentId::new(agent).map_err(|error| invalid(&error))?;
            let id = SessionId::new(session).map_err(|error| invalid(&error))?;
            let principal = Principal::new(principal).map_err(|error| invalid(&error))?;
            let mut opening = self.0.session(agent, id, principal);
            if let Some(goal) = goal {
                opening = opening.goal(goal);
            }
            let spent: Arc<dyn SpentTokens> = match approvals {
                Some(approvals) => Arc::clone(&approvals.store) as Arc<dyn SpentTokens>,
                None => Arc::new(MemorySpentTokens::since(now(py)?)),
            };
            if let Some(approvals) = approvals {
                opening = opening.approvals(approvals.settings(session)?);
            }
            if let Some(proposals) = proposals {
                opening = opening.proposals(proposals.settings(Arc::clone(&spent)));
            }
            opening = opening.gate(move |gate| gate.call_ids_once(spent));
            opening = with_checks(opening, checks)?;
            let sink = Arc::clone(&record.0);
            // The builder holds callables, which Python's threads share; it stays on this thread.
            let gate = opening.open(sink).map_err(|error| coded(py, "SessionError", &error))?;
            Ok(PyGate::from(gate))
        })
    }

    fn __repr__(&self) -> &'static str {
        "<Countersign>"
    }
}

/// Adds a host's own checks: each gets the tool's name and its arguments, and returns a text to refuse the call.
pub(crate) fn with_checks(
    mut opening: SessionBuilder,
    checks: Option<&Bound<'_, PyDict>>,
) -> PyResult<SessionBuilder> {
    for (name, check) in checks.into_iter().flatten() {
        let (name, check) = (name.extract::<String>()?, check.unbind());
        opening =
            opening.gate(move |gate| gate.user_check(&name, move |call: &CheckedCall<'_>| ask(&check, call)));
    }
    Ok(opening)
}

/// Asks one check. Only `None` and `True` agree; an exception refuses.
fn ask(check: &Py<PyAny>, call: &CheckedCall<'_>) -> Result<(), String> {
    Python::attach(|py| {
        let raised = |error: PyErr| format!("the check raised {}", error.get_type(py));
        let args = members_of(py, call.args().value()).map_err(raised)?;
        let answer = check.call1(py, (call.tool().name().as_str(), args)).map_err(raised)?;
        let answer = answer.bind(py);
        if answer.is_none() || answer.is(pyo3::types::PyBool::new(py, true)) {
            return Ok(());
        }
        Err(answer.extract::<String>().unwrap_or_else(|_| "the check did not agree".to_owned()))
    })
}

#[pymethods]
impl PyLog {
    /// Opens the log in `folder`, or begins one. `key` is a file of `countersign keys generate --kind log`. `durability` is
    /// `group`, `every` or `system`. Raises `LoadError`.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "a path of Python is extracted as an owned one")]
    #[pyo3(signature = (folder, *, key, origin, durability="group"))]
    fn new(py: Python<'_>, folder: PathBuf, key: PathBuf, origin: &str, durability: &str) -> PyResult<Self> {
        guarded(py, "?", || {
            let durability = match durability {
                "group" => Durability::Group,
                "every" => Durability::Every,
                "system" => Durability::System,
                _ => return Err(PyValueError::new_err("durability is `group`, `every` or `system`")),
            };
            let origin = KeyName::new(origin).map_err(|error| invalid(&error))?;
            let key = read_log_key(&key).map_err(|error| coded(py, "LoadError", &error))?;
            let options = LogOptions::new(origin, key).durability(durability).opened_at(now(py)?);
            let opened = py.detach(|| RecordLog::open(folder, options));
            opened.map(|log| Self(Arc::new(log))).map_err(|error| coded(py, "LoadError", &error))
        })
    }

    /// Writes and syncs all records under a checkpoint, and returns its signed note, to be kept elsewhere.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<String> {
        let note = py.detach(|| self.0.flush().and_then(|()| self.0.checkpoint()));
        note.map_err(|error| coded(py, "SessionError", &error))
    }

    fn __repr__(&self) -> &'static str {
        "<Log>"
    }
}

#[pymethods]
impl PyApprovals {
    /// Reads the HMAC key of `countersign keys generate --kind hmac`, and opens the store of spent tokens, or creates it.
    /// `audience` is this gate's name, which tokens bind. Raises `LoadError`.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "a path of Python is extracted as an owned one")]
    #[pyo3(signature = (*, key, store, audience))]
    fn new(py: Python<'_>, key: PathBuf, store: PathBuf, audience: &str) -> PyResult<Self> {
        guarded(py, "?", || {
            let audience = Audience::new(audience).map_err(|error| invalid(&error))?;
            let secret = read_server_secret(&key).map_err(|error| coded(py, "LoadError", &error))?;
            let now = now(py)?;
            let store = py.detach(|| SqliteStore::open(store, now));
            let store = Arc::new(store.map_err(|error| coded(py, "LoadError", &error))?);
            Ok(Self { keys: Keyring::new(secret), store, audience })
        })
    }

    fn __repr__(&self) -> &'static str {
        "<Approvals>"
    }
}

impl PyApprovals {
    /// Returns the settings of one session. Its id is that of the run, as for the gateway.
    fn settings(&self, session: &str) -> PyResult<ApprovalSettings> {
        let run = RunId::new(session).map_err(|error| invalid(&error))?;
        let store = Arc::clone(&self.store);
        Ok(ApprovalSettings::new(self.keys.for_run(&run), store, self.audience.clone()))
    }
}

/// Reads a file that only its owner may have written.
fn read_text(py: Python<'_>, path: &Path) -> PyResult<Vec<u8>> {
    read_trusted(path, MAX_TEXT_BYTES)
        .map_err(|error| raise(py, "LoadError", "FILE_UNREADABLE", &format!("`{}`: {error}", path.display())))
}

#[pymethods]
impl PyProposals {
    /// Takes this gate's name, which attestations bind; the keyring of evidence signers; the folder of evidence
    /// files; and PIC's policy file. Without a keyring no signature counts, and without a folder no file is read.
    /// `profile` is `strict`, `pic-0.9` or `pic-0.8`; evidence is verified under each. Raises `LoadError`.
    #[new]
    #[pyo3(signature = (*, audience, keys=None, folder=None, policy=None, profile="strict", max_attestation_age=None))]
    fn new(
        py: Python<'_>,
        audience: &str,
        keys: Option<PathBuf>,
        folder: Option<PathBuf>,
        policy: Option<PathBuf>,
        profile: &str,
        max_attestation_age: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        guarded(py, "?", || {
            let audience = Audience::new(audience).map_err(|error| invalid(&error))?;
            let profile: Profile = profile.parse().map_err(|error| invalid(&error))?;
            let mut verifier =
                ProposalVerifier::builder(profile).verify_evidence().sanitize_trust().audience(audience);
            if let Some(path) = keys {
                let keyring = EvidenceKeyring::from_json_at(&read_text(py, &path)?, now(py)?);
                verifier = verifier.keyring(keyring.map_err(|error| coded(py, "LoadError", &error))?);
            }
            if let Some(path) = folder {
                verifier = verifier.resolver(open_folder(py, &path)?);
            }
            if let Some(path) = policy {
                let policy = ProposalPolicy::from_json(&read_text(py, &path)?);
                verifier = verifier.policy(policy.map_err(|error| coded(py, "LoadError", &error))?);
            }
            if let Some(age) = max_attestation_age {
                verifier = verifier.max_attestation_age(seconds_or_text(age)?);
            }
            let built = verifier.build().map_err(|error| coded(py, "LoadError", &error))?;
            Ok(Self(Arc::new(built)))
        })
    }

    fn __repr__(&self) -> &'static str {
        "<Proposals>"
    }
}

#[cfg(unix)]
fn open_folder(py: Python<'_>, path: &Path) -> PyResult<Arc<EvidenceFolder>> {
    EvidenceFolder::open(path).map(Arc::new).map_err(|error| coded(py, "LoadError", &error))
}

impl PyProposals {
    /// Returns the settings of one session: attestations are used up in `spent`.
    pub(crate) fn settings(&self, spent: Arc<dyn SpentTokens>) -> ProposalSettings {
        ProposalSettings::new(Arc::clone(&self.0), spent)
    }
}
