//! `ratios-fill FOLDER ORIGIN ENTRIES`: writes a log of decisions and outcomes into `FOLDER/log`, under the key
//! `FOLDER/log.key` and the state `FOLDER/record.state`, for the start of a gateway over it.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has to stop")]

use std::path::Path;

use countersign_audit_log::{
    AuditSink as _, CallRecord, Durability, Log, LogOptions, OutcomeKind, OutcomeRecord, Record,
    RecordedTool, Verdict,
};
use countersign_core::{AgentId, Principal, SessionId, Timestamp};
use countersign_keys::file::read_log_key;
use countersign_tlog::note::KeyName;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, origin, entries] = arguments.as_slice() else { return };
    let folder = Path::new(folder);
    let key = read_log_key(&folder.join("log.key")).unwrap();
    let options = LogOptions::new(KeyName::new(origin).unwrap(), key).state(folder.join("record.state"));
    let log = Log::open(folder.join("log"), options.durability(Durability::System)).unwrap();
    let session = SessionId::new("earlier").unwrap();
    let entries: u64 = entries.parse().unwrap();
    // why: each call has an outcome, so the start has none to record.
    for at in 0..entries / 2 {
        let (agent, principal) = (AgentId::new("bot").unwrap(), Principal::new("ada@example.com").unwrap());
        let (time, tool) = (Timestamp::from_millis(at).unwrap(), RecordedTool::new("s", "get"));
        let (id, session) = (format!("call-{at}"), session.clone());
        let call = CallRecord::new(time, session.clone(), agent, principal, &id, tool, Verdict::Accept, 1);
        let decision = log.record(&Record::Decision(call)).unwrap();
        log.record(&Record::Outcome(OutcomeRecord::new(time, session, &id, decision, OutcomeKind::Returned)))
            .unwrap();
    }
    log.close().unwrap();
}
