use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use countersign_action_proposal::{HighImpacts, Profile, ProposalVerifier};
use countersign_approval_token::MemorySpentTokens;
use countersign_audit_log::{MemorySink, Record};
use countersign_committed_plan::{Plan, Step};
use countersign_core::{
    AgentId, Clock, ImpactClass, ManualClock, Millis, Principal, SessionId, Timestamp, ToolId,
};
use countersign_keys::trusted::write_public;
use countersign_keys::{SigningKey, TrustRoot};
use countersign_registry::{AgentClaims, RegistryDraft};
use countersign_tool_gate::{PlanSettings, ProposalSettings, RejectionCode, ToolCall, Window};

use crate::{Countersign, SessionBuilder};

fn start() -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000).unwrap()
}

/// Signs a version into `registry.json`, with `revoked` in it.
fn sign(folder: &Path, version: u64, revoked: &str) {
    let draft = format!(
        r#"{{"format": "countersign-registry-1", "version": {version},
            "agents": [{{"agent": "bot", "version": 1, "registered_by": "ops", "max_session": "1h", "output_tags": [],
                         "tools": [{{"server": "desk", "name": "search"}}]}}],
            "tools": [{{"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
                        "args_schema": {{"type": "object"}}}}],
            "revoked": {{"agents": [{revoked}], "keys": [], "snapshots": []}}}}"#
    );
    let operator = SigningKey::from_seed([7; 32]);
    let root = TrustRoot::new(1, 1, [operator.verifying_key()]).unwrap();
    let draft = RegistryDraft::from_json(draft.as_bytes()).unwrap();
    let signed = draft.sign(start(), start().checked_add(Millis::from_secs(86_400)).unwrap(), &[&operator]);
    write_public(&folder.join("root.json"), root.to_json().as_bytes()).unwrap();
    write_public(&folder.join("registry.json"), signed.unwrap().to_json().as_bytes()).unwrap();
}

fn load(folder: &Path) -> Result<Countersign, crate::LoadError> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(start()));
    let file = |name: &str| folder.join(name);
    Countersign::builder(file("registry.json"), file("root.json"), file("state")).clock(clock).load()
}

fn session_of(countersign: &Countersign, agent: &str, session: &str) -> SessionBuilder {
    let (agent, session) = (AgentId::new(agent).unwrap(), SessionId::new(session).unwrap());
    countersign.session(agent, session, Principal::new("ada").unwrap())
}

#[test]
fn a_session_of_development_says_so_on_record() {
    let draft = r#"{"agents": [{"agent": "bot", "version": 1, "registered_by": "dev", "max_session": "1h",
                                "tools": [{"server": "desk", "name": "search"}]}],
                    "tools": [{"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
                               "args_schema": {"type": "object"}}]}"#;
    let countersign =
        Countersign::dangerous_dev(&RegistryDraft::from_json(draft.as_bytes()).unwrap()).unwrap();
    assert_eq!(countersign.reload().unwrap(), 1, "no file is followed");
    let sink = Arc::new(MemorySink::new());
    let gate = session_of(&countersign, "bot", "s1").open(Arc::clone(&sink)).unwrap();
    gate.call("search", b"{}", |_| Ok::<_, ()>(())).unwrap();
    let records = sink.latest();
    let Record::Session(session) = &records[0].1 else { panic!("no session") };
    assert!(session.dev);
}

#[test]
fn a_registry_file_leads_to_a_gated_call() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let countersign = load(folder.path()).unwrap();
    let gate = session_of(&countersign, "bot", "s1").goal("Find it").open(MemorySink::new()).unwrap();
    let found = gate.call("search", br#"{"q":1}"#, |args| Ok::<_, ()>(args.as_str().to_owned())).unwrap();
    assert_eq!(found, r#"{"q":1}"#);
    assert_eq!(countersign.stats().overall().acceptance_rate(Window::All), Some(1.0));
}

#[test]
fn revocation_between_negotiation_and_opening_counts() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let countersign = load(folder.path()).unwrap();
    let session = session_of(&countersign, "bot", "s1").goal("Find it").negotiate().unwrap();
    assert_eq!(session.contract().session().as_str(), "s1");
    sign(folder.path(), 2, r#""bot""#);
    countersign.reload().unwrap();
    let gate = session.open(Arc::new(MemorySink::new())).unwrap();
    let call = ToolCall::new("c", "desk", "search", b"{}");
    assert_eq!(gate.check(&call).unwrap_err().code(), RejectionCode::AgentRevoked);
}

#[test]
fn answers_are_timed_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let file = |name: &str| folder.path().join(name);
    let builder = || {
        Countersign::builder(file("registry.json"), file("root.json"), file("state"))
            .clock(Arc::new(ManualClock::new(start())))
    };
    let timed = |countersign: Countersign| {
        let gate = session_of(&countersign, "bot", "s1").open(MemorySink::new()).unwrap();
        gate.call("search", b"{}", |_| Ok::<_, ()>(())).unwrap();
        countersign.stats().snapshot().answer_time
    };
    assert_eq!(timed(builder().load().unwrap()), None);
    let times = timed(builder().time_answers().load().unwrap()).unwrap();
    assert_eq!(times.count, 1);
    assert!(times.sum_seconds > 0.0, "the clock of the session stands still, this one does not");
}

#[test]
fn a_session_starts_with_a_plan_or_waits_for_one() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let countersign = load(folder.path()).unwrap();
    let session = || session_of(&countersign, "bot", "s1").goal("Find it");
    let call = ToolCall::new("c", "desk", "search", b"{}");

    let waiting = session().plan_first().open(MemorySink::new()).unwrap();
    assert_eq!(waiting.check(&call).unwrap_err().code(), RejectionCode::PlanRequired);
    let search = Step::new(ToolId::new("desk", "search").unwrap(), b"{}", &[]).unwrap();
    let plan = Plan::new(waiting.plan_context().unwrap(), vec![search]).unwrap();
    let gate = session().plan(PlanSettings::new(plan.clone())).open(MemorySink::new()).unwrap();
    gate.check(&call).unwrap().run_step(|_| Ok::<_, ()>(b"found".to_vec())).unwrap();
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 1);

    let elsewhere = session_of(&countersign, "bot", "s2").goal("Find it");
    let refused = elsewhere.plan(PlanSettings::new(plan)).open(MemorySink::new()).unwrap_err();
    assert_eq!(refused.code(), "PLAN_OTHER_SESSION");
}

#[test]
fn a_session_asks_for_the_proposals_that_its_settings_ask_for() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let high = HighImpacts::default().with(ImpactClass::Read);
    let verifier = ProposalVerifier::builder(Profile::Pic09).high(high).build().unwrap();
    let settings = ProposalSettings::new(Arc::new(verifier), Arc::new(MemorySpentTokens::new()));
    let session = session_of(&load(folder.path()).unwrap(), "bot", "s1");
    let gate = session.proposals(settings).open(MemorySink::new()).unwrap();
    let refused = gate.check(&ToolCall::new("c", "desk", "search", b"{}")).unwrap_err();
    assert_eq!(refused.code(), RejectionCode::PicInvalidRequest);
    assert_eq!(gate.call_log()[0].proposal.as_ref().unwrap().profile.as_str(), "pic-0.9");
}

#[test]
fn state_file_refuses_older_registry_at_the_next_load() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 2, "");
    load(folder.path()).unwrap();
    sign(folder.path(), 1, "");
    assert_eq!(load(folder.path()).unwrap_err().code(), "REGISTRY_ROLLBACK");
}

#[test]
fn a_missing_or_oversized_file_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let error = load(folder.path()).unwrap_err();
    assert_eq!(error.code(), "FILE_UNREADABLE");
    assert!(error.to_string().contains("root.json"), "{error}");
    sign(folder.path(), 1, "");
    fs::write(folder.path().join("root.json"), vec![b' '; 70_000]).unwrap();
    assert_eq!(load(folder.path()).unwrap_err().code(), "FILE_UNREADABLE");
    assert!(!folder.path().join("state").exists(), "nothing was remembered");
}

#[test]
#[cfg(unix)]
fn a_pipe_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let path = folder.path().join("root.json");
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(load(folder.path()).unwrap_err().code()));
    let code = receiver.recv_timeout(std::time::Duration::from_secs(10)).expect("nobody waits");
    assert_eq!(code, "FILE_UNREADABLE");
}

#[test]
fn refused_session_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, r#""bot""#);
    let countersign = load(folder.path()).unwrap();
    let claims = AgentClaims::from_json(br#"{"tools":["desk/everything"]}"#);
    let other = ToolId::new("desk", "everything").unwrap();
    for (agent, expected) in [("bot", "AGENT_REVOKED"), ("nobody", "AGENT_NOT_REGISTERED")] {
        let sink = Arc::new(MemorySink::new());
        let session = session_of(&countersign, agent, "s1");
        let session = session.tools([other.clone()]).claims(claims.clone());
        assert_eq!(session.open(Arc::clone(&sink)).unwrap_err().code(), expected);
        let records = sink.latest();
        let [(1, Record::Session(record))] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!(record.code.as_ref().unwrap().as_str(), expected);
        assert!(record.tools.is_empty());
        assert_eq!(record.claims.as_ref().unwrap().differing()[0].as_str(), "desk/everything");
    }
}

#[test]
fn a_revocation_counts_from_the_next_call_without_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let countersign = load(folder.path()).unwrap();
    let gate = session_of(&countersign, "bot", "s1").open(MemorySink::new()).unwrap();
    gate.call("search", b"{}", |_| Ok::<_, ()>(())).unwrap();
    sign(folder.path(), 2, r#""bot""#);
    gate.call("search", b"{}", |_| -> Result<(), ()> { panic!("the tool is not touched") }).unwrap_err();
    assert_eq!(gate.call_log().last().unwrap().code.as_ref().unwrap().as_str(), "AGENT_REVOKED");
    let refused = session_of(&countersign, "bot", "s2").open(MemorySink::new()).unwrap_err();
    assert_eq!(refused.code(), "AGENT_REVOKED", "nor is a session opened");
}

#[test]
fn a_revocation_counts_while_its_mark_cannot_be_stored() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let clock = Arc::new(ManualClock::new(start()));
    let codes = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&codes);
    let file = |name: &str| folder.path().join(name);
    let countersign = Countersign::builder(file("registry.json"), file("root.json"), file("state"))
        .clock(clock.clone())
        .on_refresh_error(move |error| reported.lock().unwrap().push(error.code()))
        .load()
        .unwrap();
    let gate = session_of(&countersign, "bot", "s1").open(MemorySink::new()).unwrap();
    let code = || gate.check(&ToolCall::new("c", "desk", "search", b"{}")).err().map(|no| no.code());
    assert_eq!(code(), None);
    let lock = fs::File::open(file("state.lock")).unwrap();
    lock.lock().unwrap();
    sign(folder.path(), 2, r#""bot""#);
    assert_eq!(code(), Some(RejectionCode::AgentRevoked));
    sign(folder.path(), 3, "");
    assert_eq!(code(), Some(RejectionCode::RegistryStale));
    drop(lock);
    clock.advance(Millis::from_secs(5)).unwrap();
    assert_eq!(code(), None);
    assert_eq!(*codes.lock().unwrap(), ["REGISTRY_MARK_UNAVAILABLE"; 2]);
}

#[test]
fn a_call_with_an_id_of_its_own_is_checked_and_run() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let gate = session_of(&load(folder.path()).unwrap(), "bot", "s1").open(MemorySink::new()).unwrap();
    let call = ToolCall::new("call-7", "desk", "search", b"{}").request_id("r-1");
    assert_eq!(gate.call_with(&call, |_| Ok::<_, ()>("found")).unwrap(), "found");
    let log = gate.call_log();
    assert_eq!(log.last().unwrap().call_id.as_str(), "call-7");
}

#[test]
fn a_revocation_that_is_loaded_counts_from_the_next_call_on() {
    let folder = tempfile::tempdir().unwrap();
    sign(folder.path(), 1, "");
    let countersign = load(folder.path()).unwrap();
    let gate = session_of(&countersign, "bot", "s1").open(MemorySink::new()).unwrap();
    gate.call("search", b"{}", |_| Ok::<_, ()>(())).unwrap();
    sign(folder.path(), 2, r#""bot""#);
    assert_eq!(countersign.reload().unwrap(), 2);
    assert!(gate.call("search", b"{}", |_| Ok::<_, ()>(())).is_err());
    assert_eq!(gate.call_log().last().unwrap().code.as_ref().unwrap().as_str(), "AGENT_REVOKED");
}

#[test]
#[cfg(unix)]
fn a_file_that_others_may_write_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    for name in ["registry.json", "root.json", "state"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        sign(folder.path(), 1, "");
        load(folder.path()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(load(folder.path()).unwrap_err().code(), "FILE_TOO_OPEN", "{name}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        load(folder.path()).unwrap();
        // Only root may give a file away.
        if chown(&path, Some(65_534), None).is_ok() {
            assert_eq!(load(folder.path()).unwrap_err().code(), "FILE_OWNER", "{name}");
        }
    }
}
