use clap::{ArgGroup, Args};

use super::log::LogArgs;
use crate::command::merkle::{consistency, inclusion};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["seq", "from"]).required(true)))]
pub(crate) struct Prove {
    #[command(flatten)]
    log: LogArgs,
    /// Prove that the entry with this sequence number, from 1 on, is in the log.
    #[arg(long, value_name = "N")]
    seq: Option<u64>,
    /// Prove it of the log as it was when it had as many entries; of all under the last checkpoint without it.
    #[arg(long, value_name = "N", conflicts_with = "from")]
    size: Option<u64>,
    /// Prove that the log goes on from what it was when it had as many entries.
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Prove it of the log as it was when it had as many entries; of all under the last checkpoint without it.
    #[arg(long, value_name = "N", conflicts_with = "seq")]
    to: Option<u64>,
}

impl Prove {
    /// What is printed is what the verifying verbs of `merkle` read, in either form of output.
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let verified = self.log.verify_to_give_out(&[])?;
        let records = verified.summary.records;
        let size = self.size.or(self.to).unwrap_or(records);
        let least = self.seq.or(self.from).unwrap_or_default();
        for (asked, there) in [(size, records), (least, size)] {
            if asked > there {
                return Err(self.log.no_such_size(asked, there));
            }
        }
        if least == 0 {
            return Err(self.log.no_such_size(least, size));
        }
        let tree = self.log.tree(&verified, |_| Ok(()))?;
        let proof = match self.seq {
            Some(seq) => inclusion(&tree, seq.saturating_sub(1), size),
            None => consistency(&tree, least, size),
        };
        out.json(&proof.map_err(|error| Failure::new(error.code(), error.to_string()))?)?;
        Ok(Exit::Done)
    }
}
