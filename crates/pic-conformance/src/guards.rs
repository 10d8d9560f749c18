use serde::Deserialize;

use crate::manifest::{Mode, VectorEntry};
use crate::report::VectorFault;
use crate::vector::{Vector, invalid};

impl Vector<'_> {
    /// Applies the guards of the reference's runner: a vector must exercise its mode, and must not need anything
    /// outside of itself.
    pub(crate) fn check_shape(&self, entry: &VectorEntry) -> Result<(), VectorFault> {
        if !matches!(entry.mode, Mode::Evidence | Mode::TrustSanitization) {
            return Ok(());
        }
        if self.said.options.is_none() {
            return Err(invalid("the vector has no options"));
        }
        if entry.mode == Mode::Evidence && self.verify_evidence() != Some(true) {
            return Err(invalid("an evidence vector sets verify_evidence to true"));
        }
        let has_keyring = self.keyring()?.is_some();
        let (signatures, files) = self.kinds_of_evidence()?;
        if files && self.evidence_folder()?.is_none() {
            return Err(invalid("a vector with evidence files sets evidence_root_dir"));
        }
        if entry.mode == Mode::Evidence {
            return if signatures && !has_keyring {
                Err(invalid("a vector with signatures has a keyring"))
            } else {
                Ok(())
            };
        }
        if signatures || has_keyring {
            return Err(invalid("a vector of trust_sanitization has no signatures and no keyring"));
        }
        self.check_cell(entry)
    }

    /// Requires that a cell of the trust matrix is named after its coordinates.
    fn check_cell(&self, entry: &VectorEntry) -> Result<(), VectorFault> {
        let (Some(strict), Some(verify)) = (self.strict_trust(), self.verify_evidence()) else {
            return Err(invalid("a vector of trust_sanitization sets strict_trust and verify_evidence"));
        };
        let base = entry.matrix_id.as_deref().unwrap_or_default();
        let letter = |set: bool| if set { 't' } else { 'f' };
        let (strict, verify) = (letter(strict), letter(verify));
        if entry.id != format!("trust-{base}-strict-{strict}-verify-{verify}")
            || entry.file != format!("trust_sanitization/{base}__strict-{strict}__verify-{verify}.json")
        {
            return Err(invalid("the vector is not the cell that its id and file say"));
        }
        Ok(())
    }

    /// Returns whether the proposal has signatures, and whether it has files. An unreadable proposal has neither: it is refused
    /// before its evidence is verified.
    fn kinds_of_evidence(&self) -> Result<(bool, bool), VectorFault> {
        let Some(proposal) = self.proposal()? else {
            return Ok((false, false));
        };
        let Ok(proposal) = serde_json::from_slice::<Loose>(proposal) else {
            return Ok((false, false));
        };
        let entries = proposal.evidence;
        let signatures = entries.iter().any(|entry| entry.kind == "sig");
        let files =
            entries.iter().any(|entry| entry.kind == "hash" && entry.reference.starts_with("file://"));
        Ok((signatures, files))
    }
}

#[derive(Deserialize)]
struct Loose {
    #[serde(default)]
    evidence: Vec<LooseEntry>,
}

#[derive(Deserialize)]
struct LooseEntry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "ref")]
    reference: String,
}
