//! A proposal in the signer's words, for a call that came without a usable one.

use countersign_action_proposal::EvidenceBudget;
use countersign_canonical_json::write_string;
use countersign_core::{Millis, SystemClock};

use super::attest::AttestableCall;
use crate::error::{HostError, chain};
use crate::proposals::open_folder;

/// Input that the attestation of such a proposal raises.
const INPUT: &str = "attestation";

/// Scheme of every reference to an evidence file.
const SCHEME: &str = "file://";

/// Limits of the files, those of a verifier: bytes of one, bytes of all, and enough time for a slow disk.
const FILE_BYTES: u64 = 5 << 20;
const TOTAL_BYTES: u64 = 16 << 20;
const TIME: Millis = Millis::from_secs(30);

impl AttestableCall {
    /// Writes the smallest proposal for the call: tool, arguments and impact as the operator's side knows them, the signer's
    /// intent as its only claim, and these files of the evidence folder. No word of the agent is in it.
    ///
    /// # Errors
    /// `EVIDENCE_ROOT_MISSING`, `EVIDENCE_FOLDER`, and `PIC_EVIDENCE_FAILED` for a file that cannot be read.
    pub fn own_proposal(&self, intent: &str, files: &[String]) -> Result<String, HostError> {
        let quoted = |text: &str| {
            let mut quoted = String::new();
            write_string(&mut quoted, text);
            quoted
        };
        let (pending, intent) = (self.pending(), quoted(intent));
        let entries = self.file_entries(files)?.into_iter().zip(1..).map(|((reference, digest), number)| {
            let reference = quoted(&reference);
            format!(r#"{{"id":"file-{number}","ref":{reference},"sha256":"{digest}","type":"hash"}}"#)
        });
        let entries: Vec<_> = entries.collect();
        Ok(format!(
            r#"{{"action":{{"args":{},"tool":{}}},"claims":[{{"evidence":["{INPUT}"],"text":{intent}}}],"evidence":[{}],"impact":"{}","intent":{intent},"protocol":"PIC/1.0","provenance":[{{"id":"{INPUT}","trust":"untrusted"}}]}}"#,
            pending.args(),
            quoted(pending.binding().tool.name().as_str()),
            entries.join(","),
            self.impact(),
        ))
    }

    /// Reads the files, and returns the reference and the digest of each.
    fn file_entries(&self, files: &[String]) -> Result<Vec<(String, String)>, HostError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let root = self.evidence_root.as_ref().ok_or_else(|| {
            HostError::new(
                "EVIDENCE_ROOT_MISSING",
                "`evidence_root` missing in `proposals` of the configuration",
            )
        })?;
        let folder = open_folder(root)?;
        let clock = SystemClock::new();
        let failed = |error: &dyn std::error::Error| HostError::refused("PIC_EVIDENCE_FAILED", chain(error));
        let mut budget =
            EvidenceBudget::start(&clock, FILE_BYTES, TOTAL_BYTES, TIME).map_err(|error| failed(&error))?;
        let mut entry = |name: &String| {
            let reference = if name.starts_with(SCHEME) { name.clone() } else { format!("{SCHEME}{name}") };
            let file = folder.resolve(&reference, &mut budget).map_err(|error| failed(&error).about(name))?;
            Ok((reference, file.digest().to_string()))
        };
        files.iter().map(&mut entry).collect()
    }
}
