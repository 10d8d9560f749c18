mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use countersign_audit_log::Record;
use countersign_core::{AgentId, Millis, Timestamp};
use countersign_keys::dsse::Envelope;
use countersign_registry::{CapabilityRegistry, LoadOptions, MemoryHighWater, RegistryDraft, RegistryView};
use countersign_simulate::{HostChecks, Simulation};

use self::report::SimulationReport;
use super::audit::{KeySource, unverified, verified};
use crate::failure::{Exit, Failure};
use crate::files::{REGISTRY_BYTES, read_trusted_file};
use crate::look::ProgressLine;
use crate::output::{Output, note};
use countersign_host::config::DEFAULT_MAX_AGE;
use countersign_host::entries::Entry;
use countersign_host::inputs::read_trust_root;
use countersign_host::session::registry_failure;

/// Decide the recorded calls again under another registry, before it is signed into force.
///
/// Every decision of the log is decided again, in its session and in order, by the gate's own checks. A fact that the record lacks is
/// carried over from the recorded answer where nothing differs that it depends on, and otherwise undetermined: give the
/// registries that were in force with --was, and have arguments recorded ([record.arguments] of the configuration). It does not
/// guess what an agent would have done after another answer.
///
/// The other registry is taken to be in force all the time, whenever it was issued. With --key, the log is verified first, and
/// only what its last checkpoint speaks for is used; without it nothing of the log is verified, and a writer of its
/// folder can forge any answer. The exit code is 0, whatever changes, unless --fail-on-change or --fail-on-undetermined
/// is given; 3 where a registry or the log does not verify; and 1 where no call is recorded, or no call of --agent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    countersign simulate log/ --registry next.json --trust-root root.json --was reg.json\n  \
    countersign simulate log/ --registry next.json --trust-root root.json --key log.vkey \\\n    \
    --fail-on-change --fail-on-undetermined --json")]
pub(crate) struct Simulate {
    /// The log's folder. Where several logs lie in it, all are read, merged by time.
    folder: PathBuf,
    /// The other registry, signed.
    #[arg(long, value_name = "FILE")]
    registry: PathBuf,
    /// The trust root: the operators' keys whose signatures count.
    #[arg(long, value_name = "FILE")]
    trust_root: PathBuf,
    /// A registry that was in force, signed. May be used several times, once for each version.
    #[arg(long, value_name = "FILE")]
    was: Vec<PathBuf>,
    /// How old a registry could be at the gates. It counts for calls that were decided under the very version.
    #[arg(long, value_name = "SPAN", default_value = DEFAULT_MAX_AGE)]
    max_age: Millis,
    /// The gates had checks of their host's own, which `countersign` itself has none of: a call that they were not asked
    /// about is undetermined.
    #[arg(long)]
    host_checks: bool,
    /// The log's public key, `origin+id+key`, or a file that holds it. Without it, nothing is verified.
    #[arg(long, value_name = "KEY")]
    key: Option<KeySource>,
    /// A checkpoint of the log that was kept elsewhere: the log must extend it. May be given several times.
    #[arg(long, value_name = "FILE", requires = "key")]
    checkpoint: Vec<PathBuf>,
    /// Count and show only this agent's calls. At least one must be recorded.
    #[arg(long)]
    agent: Option<AgentId>,
    /// How many of the calls with another answer are shown, the first ones.
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(..=10_000))]
    changes: u16,
    /// Exit with code 3 if any call has another answer. Undetermined ones do not count. Give --key as well: nothing is
    /// verified without it.
    #[arg(long)]
    fail_on_change: bool,
    /// Exit with code 3 if any call's answer is undetermined. Give --key as well: nothing is verified without it.
    #[arg(long)]
    fail_on_undetermined: bool,
}

impl Simulate {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let registry = self.load(&self.registry)?;
        let was = self.was.iter().map(|path| self.load(path)).collect::<Result<Vec<_>, _>>()?;
        let mut versions = BTreeMap::new();
        for snapshot in was.iter().chain([&registry]).map(|view| view.snapshot()) {
            if *versions.entry(snapshot.version()).or_insert(snapshot.digest()) != snapshot.digest() {
                return Err(Failure::usage("two different registries have the same version"));
            }
        }
        let checks = if self.host_checks { HostChecks::Perhaps } else { HostChecks::None };
        let simulation = Simulation::new(Arc::clone(&registry)).host_checks(checks);
        let mut simulation = was.iter().fold(simulation, |simulation, view| simulation.was(Arc::clone(view)));
        let mut report = SimulationReport::new(registry, was, usize::from(self.changes));
        let progress = ProgressLine::begin("deciding again");
        self.each(|seq, record| {
            let simulated = simulation.feed(record);
            let is_wanted = |agent| self.agent.as_ref().is_none_or(|wanted| wanted == agent);
            match (simulated, record) {
                (Some(simulated), Record::Decision(call)) if is_wanted(&call.agent) => {
                    report.add(seq, call, simulated);
                }
                (Some(simulated), Record::Refused(sum)) => {
                    for (agent, row) in
                        sum.agent.iter().flat_map(|agent| sum.rows.iter().map(move |row| (agent, row)))
                    {
                        if is_wanted(agent) {
                            report.add_row(agent, row, simulated);
                        }
                    }
                }
                _ => {}
            }
        })?;
        drop(progress);
        if report.is_empty() {
            return Err(self.no_calls());
        }
        if self.key.is_none() {
            note("note: log not verified; give its public key with --key");
        }
        out.result(&report.to_json(self.key.is_some()), &report.table())?;
        let failed = (self.fail_on_change && report.has_changes())
            || (self.fail_on_undetermined && report.has_undetermined());
        Ok(if failed { Exit::Refused } else { Exit::Done })
    }

    /// Failure for a record without calls. why: an empty result must not pass for a result without changes.
    fn no_calls(&self) -> Failure {
        let of = self.agent.as_ref().map(|agent| format!(" of agent `{agent}`")).unwrap_or_default();
        Failure::new("NO_CALLS_ON_RECORD", format!("no call{of} is recorded")).about(self.folder.display())
    }

    /// Loads a registry as of its time of issue: it may have expired since.
    fn load(&self, path: &Path) -> Result<Arc<RegistryView>, Failure> {
        let root = read_trust_root(&self.trust_root)?;
        let bytes = read_trusted_file(path, REGISTRY_BYTES)?;
        let mut options = LoadOptions::default();
        options.max_age = self.max_age;
        let marks = Arc::new(MemoryHighWater::new());
        CapabilityRegistry::load(&bytes, &root, marks, options, issued(&bytes))
            .map(|registry| registry.view())
            .map_err(|error| registry_failure(error).about(path.display()).into())
    }

    /// Passes every entry to `take`. With a key, the entries are known to be verified only after the last one.
    fn each(&self, mut take: impl FnMut(u64, &Record)) -> Result<(), Failure> {
        let entries = match &self.key {
            Some(key) => verified(&self.folder, &key.read()?, &self.checkpoint)?,
            None => unverified(&self.folder)?,
        };
        for read in entries {
            let Entry { seq, record, .. } = read?;
            take(seq, &record);
        }
        Ok(())
    }
}

/// Returns the claimed time of issue of an unverified registry. A registry that cannot be read fails to load at any
/// time.
fn issued(bytes: &[u8]) -> Timestamp {
    let envelope = Envelope::from_json(bytes, bytes.len()).ok();
    envelope
        .and_then(|envelope| RegistryDraft::from_payload(envelope.unverified_payload()).ok())
        .map_or(Timestamp::EPOCH, |(_, issued, _)| issued)
}
