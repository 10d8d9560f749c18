use std::collections::BTreeSet;
use std::path::PathBuf;

use base64ct::{Base64, Encoding as _};
use clap::Args;
use countersign_audit_log::{
    CallRecord, Checkpoint, LogNumber, MAX_RECEIPT_BYTES, Receipt, ReceiptError, Record, Verdict,
    VerifiedReceipt, WitnessKey,
};
use serde_json::{Value, json};

use super::choice::{LogChoice, only_one};
use super::describe::describe;
use super::log::{KeySource, LogArgs, VerifiedLog};
use crate::failure::{Exit, Failure};
use crate::files::{Replace, must_be_free, read_file, read_text_file, write_file};
use crate::output::{Output, internal};
use crate::shown::shown_tool;

/// The most decisions on one call id that are listed.
const MOST_CALLS: usize = 64;

/// One decision of several on a call id: its number, its log where the folder has several, time, tool and verdict.
fn row(log: Option<LogNumber>, seq: u64, record: &Record) -> String {
    let seq = log.map_or_else(|| seq.to_string(), |log| format!("{seq} of log {log}"));
    let Record::Decision(call) = record else { return seq };
    let verdict = match call.verdict {
        Verdict::Accept => "accept",
        Verdict::Reject => "reject",
    };
    format!("{seq} ({}, {}, {verdict})", call.time, shown_tool(&call.tool))
}

#[derive(Debug, Args)]
pub(crate) struct Make {
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    choice: LogChoice,
    /// The entry with this sequence number, from 1 on.
    #[arg(long, value_name = "N", required_unless_present = "call_id", conflicts_with = "call_id")]
    seq: Option<u64>,
    /// The decision on the call with this id. Ids are the caller's, and may repeat: where there are several decisions, they are listed.
    #[arg(long, value_name = "ID")]
    call_id: Option<String>,
    /// A checkpoint of the log that witnesses cosigned, to stand in the receipt in place of the log's last one.
    #[arg(long, value_name = "FILE")]
    cosigned: Option<PathBuf>,
    /// File to write the receipt to; standard output without it. It must not exist.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The receipt.
    file: PathBuf,
    /// The log's public key, `origin+id+key`, or a file that holds it.
    #[arg(long, value_name = "KEY")]
    key: KeySource,
    /// The public key of a witness that cosigned the checkpoint, `name+id+key`. May be used several times.
    #[arg(long, value_name = "KEY")]
    witness: Vec<WitnessKey>,
    /// How many of these witnesses have to have cosigned it; all of them without it.
    #[arg(long, value_name = "N", requires = "witness")]
    quorum: Option<usize>,
}

impl Make {
    /// What is printed without `--out` is the receipt itself, in either form of output.
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        if let Some(path) = &self.out {
            must_be_free(path, Replace::Never)?;
        }
        let (log, seq, receipt) = self.make()?;
        let Some(path) = &self.out else {
            out.bytes(receipt.to_json().as_bytes())?;
            return Ok(Exit::Done);
        };
        write_file(path, receipt.to_json().as_bytes(), Replace::Never)?;
        let mut report = json!({"ok": true, "seq": seq, "out": path.display().to_string()});
        if let (Some(name), Some(members)) = (log, report.as_object_mut()) {
            members.insert("log".to_owned(), json!(name.to_string()));
        }
        let of_log = log.map(|log| format!(" of log {log}")).unwrap_or_default();
        out.result(&report, &format!("receipt of entry {seq}{of_log} in {}", path.display()))?;
        Ok(Exit::Done)
    }

    /// Makes the receipt, and names the log where the folder has several.
    fn make(&self) -> Result<(Option<LogNumber>, u64, Receipt), Failure> {
        // The log goes on from the cosigned checkpoint, or there is no receipt under it.
        let cosigned: Vec<_> = self.cosigned.iter().map(|path| (None, path.clone())).collect();
        let mut logs = self.log.verify_chosen(self.choice, &cosigned)?;
        let note = self.cosigned.as_deref().map(read_text_file).transpose()?;
        if let Some(note) = &note {
            logs.retain(|log| Checkpoint::verify(note, &log.key).is_ok());
        }
        let size_of = |log: &VerifiedLog| match &note {
            None => log.summary.records,
            Some(note) => Checkpoint::verify(note, &log.key).map_or(0, |checkpoint| checkpoint.size()),
        };
        if let Some(seq) = self.seq {
            let has = |log: &VerifiedLog| (1..=size_of(log)).contains(&seq);
            logs = vec![only_one(logs, has, |log| log.no_such_size(seq, size_of(log)))?];
        }
        let mut found = None;
        let (mut count, mut rows) = (0_u64, Vec::new());
        for log in &logs {
            let (size, before) = (size_of(log), count);
            let mut line = None;
            let tree = log.tree(|entry| {
                if entry.seq() <= size && self.wants(entry.seq(), entry.record()) {
                    count = count.saturating_add(1);
                    if rows.len() < MOST_CALLS {
                        rows.push(row(log.name, entry.seq(), entry.record()));
                    }
                    line.get_or_insert_with(|| (entry.seq(), entry.line().to_vec()));
                }
                Ok(())
            })?;
            if let Some((seq, line)) = line.filter(|_| before == 0) {
                found = Some((log, size, tree, seq, line));
            }
        }
        let Some((log, size, tree, seq, line)) = found else {
            let text = "no call of that id was decided on, under that checkpoint";
            return Err(Failure::new("AUDIT_NO_SUCH_CALL", text));
        };
        if count > 1 {
            let more = count.saturating_sub(rows.len() as u64);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let choose = if log.name.is_some() { "--log and --seq" } else { "--seq" };
            let text = format!(
                "the id was decided on {count} times, choose one with {choose}: {}{more}",
                rows.join("; ")
            );
            return Err(Failure::new("AUDIT_SEVERAL_CALLS", text));
        }
        log.make_durable()?;
        let proof = tree
            .prove_inclusion_at(seq.saturating_sub(1), size)
            .map_err(|error| Failure::new(error.code(), error.to_string()))?;
        let note = note.as_ref().unwrap_or(&log.summary.note);
        Ok((log.name, seq, Receipt::new(&line, &proof, note)?))
    }

    fn wants(&self, seq: u64, record: &Record) -> bool {
        let Some(id) = &self.call_id else { return self.seq == Some(seq) };
        // Ids are in the record with what hides in them spelled out.
        matches!(record, Record::Decision(call) if call.call_id == id.as_str().into())
    }
}

impl Verify {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let (key, quorum) = (self.key.read()?, quorum(self.quorum, &self.witness)?);
        let most = u64::try_from(MAX_RECEIPT_BYTES).map_err(|_| internal("a receipt has no end"))?;
        let bytes = read_file(&self.file, most)?;
        let refused = |error: ReceiptError| {
            let failure = Failure::from(error).about(self.file.display());
            // A receipt that was formatted anew is no forgery.
            if error == ReceiptError::Spelling { failure } else { failure.into_refusal() }
        };
        let receipt = Receipt::from_json(&bytes).map_err(refused)?;
        // The key may be that of the first log of a folder, and the receipt of another.
        let key = LogNumber::of_note(receipt.unverified_checkpoint(), key.origin()).key(&key)?;
        let verified = receipt.verify_witnessed(&key, &self.witness, quorum).map_err(refused)?;
        if out.is_json() {
            out.json(&report(&verified)?)?;
        } else {
            tell(out, &verified)?;
        }
        Ok(Exit::Done)
    }
}

/// How many of these witnesses have to have cosigned: all of them, if it is not said. Those that share a key are one.
pub(super) fn quorum(said: Option<usize>, witnesses: &[WitnessKey]) -> Result<usize, Failure> {
    let keys = witnesses.iter().map(|witness| witness.verifier_key().verifying_key());
    let all = keys.collect::<BTreeSet<_>>().len();
    match said {
        Some(quorum) if quorum == 0 || quorum > all => {
            Err(Failure::usage("--quorum is a number from 1 to that of the witnesses"))
        }
        said => Ok(said.unwrap_or(all)),
    }
}

fn report(receipt: &VerifiedReceipt) -> Result<Value, Failure> {
    let checkpoint = receipt.checkpoint();
    let cosigned: Vec<_> = receipt
        .cosignatures()
        .iter()
        .map(|one| json!({"witness": one.witness.name().as_str(), "seconds": one.seconds}))
        .collect();
    Ok(json!({
        "ok": true,
        "origin": checkpoint.origin().as_str(),
        "size": checkpoint.size(),
        "root": Base64::encode_string(checkpoint.root().as_bytes()),
        "cosigned": cosigned,
        "seq": receipt.sequence(),
        "record": serde_json::to_value(receipt.record()).map_err(|_| internal("a record is not JSON"))?,
    }))
}

fn tell(out: &mut Output, receipt: &VerifiedReceipt) -> Result<(), Failure> {
    let checkpoint = receipt.checkpoint();
    out.line(&format!(
        "entry {} of {}, under its checkpoint of {}",
        receipt.sequence(),
        checkpoint.origin(),
        checkpoint.size()
    ))?;
    for one in receipt.cosignatures() {
        out.line(&format!("cosigned by {}", one.witness.name()))?;
    }
    out.line(&describe(receipt.sequence(), receipt.record()))?;
    receipt.decision().map_or(Ok(()), |call| details(out, call))
}

/// What a decision was bound to, as far as it was to anything.
fn details(out: &mut Output, call: &CallRecord) -> Result<(), Failure> {
    let text = |value: Option<&dyn std::fmt::Display>| value.map(ToString::to_string);
    let proposal = call.proposal.as_deref();
    let rows = [
        ("session", Some(call.session.to_string())),
        ("principal", Some(call.principal.to_string())),
        ("registry", Some(call.registry_version.to_string())),
        ("arguments", text(call.args.as_ref().map(|it| it as _))),
        ("definition", text(call.definition.as_ref().map(|it| it as _))),
        ("goal", text(call.ask.as_ref().map(|it| it as _))),
        ("plan", text(call.plan.as_ref().map(|it| it as _))),
        ("approval", text(call.approval.as_ref().map(|it| it as _))),
        ("approver", text(call.approver.as_ref().map(|it| it as _))),
        ("proposal", text(proposal.and_then(|it| it.digest.as_ref()).map(|it| it as _))),
    ];
    for (what, value) in rows {
        if let Some(value) = value {
            out.line(&format!("  {what:<10} {value}"))?;
        }
    }
    for piece in proposal.into_iter().flat_map(|proposal| proposal.evidence()) {
        out.line(&format!("  {:<10} {} {}", "evidence", piece.digest, piece.id))?;
    }
    Ok(())
}
