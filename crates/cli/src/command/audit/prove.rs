use clap::{ArgGroup, Args};
use countersign_audit_log::{LogError, LogProver};
use serde_json::{Value, json};

use super::log::{LogArgs, LogChoice, ProvableLog, only_one};
use crate::command::merkle::{consistency_report, inclusion_report};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["seq", "from"]).required(true)))]
pub(crate) struct AuditProveArgs {
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    choice: LogChoice,
    /// Prove that the entry with this sequence number, from 1 on, is in the log.
    #[arg(long, value_name = "N")]
    seq: Option<u64>,
    /// Prove it for the log at this number of entries; without it, for all entries under the last checkpoint.
    #[arg(long, value_name = "N", conflicts_with = "from")]
    size: Option<u64>,
    /// Prove consistency with the log at this earlier number of entries.
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Prove it for the log at this number of entries; without it, for all entries under the last checkpoint.
    #[arg(long, value_name = "N", conflicts_with = "seq")]
    to: Option<u64>,
}

impl AuditProveArgs {
    /// Prints the proof as JSON in either output format: the verifying verbs of `merkle` read it.
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let logs = self.log.provable(self.choice, &[])?;
        let mut log = only_one(
            logs,
            |log| self.excess(log).is_none(),
            |log| {
                let (asked, there) = self.excess(log).unwrap_or_default();
                log.no_such_size(asked, there)
            },
        )?;
        log.make_durable()?;
        let (size, least) = self.sizes(&log);
        let proof = self.prove(&mut log.prover, least, size);
        let mut proof = proof.map_err(|error| log.failure(error))?;
        if let (Some(name), Some(members)) = (log.name, proof.as_object_mut()) {
            members.insert("desc".to_owned(), json!(format!("log {name}, {}", log.key.origin())));
        }
        out.json(&proof)?;
        Ok(Exit::Done)
    }

    fn prove(&self, prover: &mut LogProver, least: u64, size: u64) -> Result<Value, LogError> {
        let head = prover.head_at(size)?;
        if self.seq.is_some() {
            let proof = prover.prove_inclusion(least, size)?;
            return Ok(inclusion_report(&proof, &prover.entry(least)?.leaf(), &head));
        }
        let proof = prover.prove_consistency(least, size)?;
        Ok(consistency_report(&proof, &prover.head_at(least)?, &head))
    }

    /// Returns the size of the tree, and the entry or the older size.
    fn sizes(&self, log: &ProvableLog) -> (u64, u64) {
        let size = self.size.or(self.to).unwrap_or(log.records());
        (size, self.seq.or(self.from).unwrap_or_default())
    }

    /// Returns a requested number that the log does not reach, and the largest valid one.
    fn excess(&self, log: &ProvableLog) -> Option<(u64, u64)> {
        let (size, least) = self.sizes(log);
        let pairs = [(size, log.records()), (least, size)];
        pairs.into_iter().find(|(asked, there)| asked > there).or((least == 0).then_some((0, size)))
    }
}
