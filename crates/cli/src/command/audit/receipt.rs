use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding as _};
use clap::Args;
use countersign_audit_log::{
    CallRecord, Checkpoint, LogNumber, MAX_RECEIPT_BYTES, Receipt, ReceiptError, Record, Verdict,
    VerifiedReceipt, WitnessKey,
};
use serde_json::{Value, json};

use super::describe::describe;
use super::log::{KeySource, LogArgs, LogChoice, ProvableLog, only_one};
use crate::failure::{Exit, Failure};
use crate::files::{Replace, must_be_free, read_file, read_text_file, write_file};
use crate::output::{Output, internal};
use countersign_host::escape::{shown_id, shown_tool};

/// Most decisions on one call id that are listed.
const MOST_CALLS: usize = 64;

/// Describes one of several decisions on a call id: number, log (if the folder has several), time, tool and verdict.
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
    /// May be used several times: the receipts follow on each other, one a line.
    #[arg(long, value_name = "ID")]
    call_id: Vec<String>,
    /// A cosigned checkpoint of the log, used in the receipt instead of the log's last one.
    #[arg(long, value_name = "FILE")]
    cosigned: Option<PathBuf>,
    /// File to write the receipt to; standard output without it. It must not exist.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A receipt, the number of its entry, and its log if the folder has several.
struct IssuedReceipt {
    log: Option<LogNumber>,
    seq: u64,
    receipt: Receipt,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiptVerifyArgs {
    /// The receipt.
    file: PathBuf,
    /// The log's public key, `origin+id+key`, or a file that holds it.
    #[arg(long, value_name = "KEY")]
    key: KeySource,
    /// The public key of a witness that cosigned the checkpoint, `name+id+key`. May be used several times.
    #[arg(long, value_name = "KEY")]
    witness: Vec<WitnessKey>,
    /// Required number of cosignatures by these witnesses; without it, all of them.
    #[arg(long, value_name = "N", requires = "witness")]
    quorum: Option<usize>,
}

impl Make {
    /// Without `--out`, prints the receipt itself in either output format.
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        if let Some(path) = &self.out {
            must_be_free(path, Replace::Never)?;
        }
        let made = self.make()?;
        let text: String = made.iter().map(|made| made.receipt.to_json()).collect();
        let Some(path) = &self.out else {
            out.bytes(text.as_bytes())?;
            return Ok(Exit::Done);
        };
        write_file(path, text.as_bytes(), Replace::Never)?;
        if out.is_json() {
            out.json(&Self::report(&made, path))?;
        } else {
            for IssuedReceipt { log, seq, .. } in &made {
                let of_log = log.map(|log| format!(" of log {log}")).unwrap_or_default();
                out.line(&format!("receipt of entry {seq}{of_log} in {}", path.display()))?;
            }
        }
        Ok(Exit::Done)
    }

    fn report(made: &[IssuedReceipt], path: &Path) -> Value {
        let mut rows = made.iter().map(|IssuedReceipt { log, seq, .. }| match log {
            Some(name) => json!({"seq": seq, "log": name.to_string()}),
            None => json!({"seq": seq}),
        });
        let row = if made.len() == 1 { rows.next() } else { None };
        let mut report = row.unwrap_or_else(|| json!({"receipts": rows.collect::<Vec<_>>()}));
        if let Some(members) = report.as_object_mut() {
            members.insert("ok".to_owned(), json!(true));
            members.insert("out".to_owned(), json!(path.display().to_string()));
        }
        report
    }

    /// Makes the receipts; each names its log if the folder has several.
    fn make(&self) -> Result<Vec<IssuedReceipt>, Failure> {
        // The log must extend the cosigned checkpoint; otherwise it has no receipt under it.
        let cosigned: Vec<_> = self.cosigned.iter().map(|path| (None, path.clone())).collect();
        let mut logs = self.log.provable(self.choice, &cosigned)?;
        let note = self.cosigned.as_deref().map(read_text_file).transpose()?;
        if let Some(note) = &note {
            logs.retain(|log| Checkpoint::verify(note, &log.key).is_ok());
        }
        let note = note.as_deref();
        let Some(seq) = self.seq else {
            let several = self.call_id.len() > 1;
            let each = self.call_id.iter().map(|id| {
                let made = decision_on(&mut logs, id, note);
                made.map_err(|failure| if several { failure.about(shown_id(id)) } else { failure })
            });
            return each.collect();
        };
        let has = |log: &ProvableLog| (1..=size_of(log, note)).contains(&seq);
        let mut log = only_one(logs, has, |log| log.no_such_size(seq, size_of(log, note)))?;
        Ok(vec![receipt_of(&mut log, seq, note)?])
    }
}

/// Returns the size of the checkpoint that the receipt contains.
fn size_of(log: &ProvableLog, note: Option<&str>) -> u64 {
    let signed = note.map(|note| Checkpoint::verify(note, &log.key));
    signed.map_or_else(|| log.records(), |signed| signed.map_or(0, |checkpoint| checkpoint.size()))
}

fn receipt_of(log: &mut ProvableLog, seq: u64, note: Option<&str>) -> Result<IssuedReceipt, Failure> {
    log.make_durable()?;
    let size = size_of(log, note);
    let entry = log.prover.entry(seq).map_err(|error| log.failure(error))?;
    let proof = log.prover.prove_inclusion(seq, size).map_err(|error| log.failure(error))?;
    let receipt = Receipt::new(entry.line(), &proof, note.unwrap_or_else(|| log.prover.note()))?;
    Ok(IssuedReceipt { log: log.name, seq, receipt })
}

/// Makes the receipt of the only decision on a call id.
fn decision_on(logs: &mut [ProvableLog], id: &str, note: Option<&str>) -> Result<IssuedReceipt, Failure> {
    let (mut count, mut rows, mut found) = (0_usize, Vec::new(), None);
    let is_several = logs.iter().any(|log| log.name.is_some());
    for log in logs {
        let size = size_of(log, note);
        let decisions = log.prover.decisions_on(id, size).map_err(|error| log.failure(error))?;
        count = count.saturating_add(decisions.len());
        for seq in decisions.iter().take(MOST_CALLS.saturating_sub(rows.len())) {
            let entry = log.prover.entry(*seq).map_err(|error| log.failure(error))?;
            rows.push(row(log.name, *seq, entry.record()));
        }
        found = decisions.first().map(|seq| (*seq, log)).or(found);
    }
    let Some((seq, log)) = found else {
        let text = "no decision on that call id under the checkpoint";
        return Err(Failure::new("AUDIT_NO_SUCH_CALL", text));
    };
    if count > 1 {
        let more = count.saturating_sub(rows.len());
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let choose = if is_several { "--log and --seq" } else { "--seq" };
        let rows = rows.join("; ");
        let text = format!("{count} decisions on the call id, choose one with {choose}: {rows}{more}");
        return Err(Failure::new("AUDIT_SEVERAL_CALLS", text));
    }
    receipt_of(log, seq, note)
}

impl ReceiptVerifyArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let (key, quorum) = (self.key.read()?, quorum(self.quorum, &self.witness)?);
        let most = u64::try_from(MAX_RECEIPT_BYTES).map_err(|_| internal("a receipt has no end"))?;
        let bytes = read_file(&self.file, most)?;
        let refused = |error: ReceiptError| {
            let failure = Failure::from(error).about(self.file.display());
            // A reformatted receipt is malformed, not forged.
            if error == ReceiptError::Spelling { failure } else { failure.into_refusal() }
        };
        let receipt = Receipt::from_json(&bytes).map_err(refused)?;
        // The key may be that of the folder's first log, and the receipt of another log.
        let key = LogNumber::of_note(receipt.unverified_checkpoint(), key.origin()).key(&key)?;
        let verified = receipt.verify_witnessed(&key, &self.witness, quorum).map_err(refused)?;
        if out.is_json() {
            out.json(&report(&verified)?)?;
        } else {
            print_result(out, &verified)?;
        }
        Ok(Exit::Done)
    }
}

/// Returns the number of cosignatures required: by default, one of every witness. Witnesses that share a key count
/// once.
pub(super) fn quorum(said: Option<usize>, witnesses: &[WitnessKey]) -> Result<usize, Failure> {
    let keys = witnesses.iter().map(|witness| witness.verifier_key().verifying_key());
    let all = keys.collect::<BTreeSet<_>>().len();
    match said {
        Some(quorum) if quorum == 0 || quorum > all => {
            Err(Failure::usage("--quorum out of range: 1 to the number of witnesses expected"))
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

fn print_result(out: &mut Output, receipt: &VerifiedReceipt) -> Result<(), Failure> {
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

/// Prints the values that the decision was bound to.
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
    if let Some(observed) = &call.observed {
        out.line(&format!("  {:<10} yes{}", "observed", super::describe::overlooked(observed)))?;
    }
    for other in &call.co_approvals {
        out.line(&format!("  {:<10} {} {}", "and", other.approval, other.approver))?;
    }
    for piece in proposal.into_iter().flat_map(|proposal| proposal.evidence()) {
        out.line(&format!("  {:<10} {} {}", "evidence", piece.digest, piece.id))?;
    }
    Ok(())
}
