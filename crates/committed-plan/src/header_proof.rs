use countersign_canonical_json::{Recipe, read};
use countersign_merkle::InclusionProof;

use crate::cursor_error::PlanUseError;
use crate::error::{PlanError, PlanProblem};
use crate::header::PlanHeader;
use crate::limits::PlanLimits;
use crate::proof::{read_path, write_path};
use crate::read::{number, object, read_header};
use crate::root::PlanRoot;

/// A plan's header with an unverified proof that it is leaf 0 of the plan's tree.
///
/// ```
/// # use countersign_committed_plan::{HeaderProof, OpenPlace, Plan, PlanContext, PlanContract, PlanLimits, Step};
/// # use countersign_core::{Digest, SessionId, ToolId};
/// # struct All;
/// # impl PlanContract for All {
/// #     fn discloses(&self, _: &ToolId) -> bool { true }
/// #     fn is_data(&self, _: &ToolId, _: &OpenPlace) -> bool { true }
/// #     fn fits(&self, _: &Step) -> bool { true }
/// # }
/// # let context = PlanContext::new(Digest::of(b"goal"), SessionId::new("s-1")?, 7)?;
/// let step = Step::new(ToolId::new("web", "search")?, br#"{"query":"weather"}"#, &[])?;
/// let plan = Plan::new(context, vec![step])?.commit(&All)?;
/// let sent = plan.header_proof().map(|proof| proof.to_json()).unwrap_or_default();
///
/// // On another machine, which has only the root:
/// let proof = HeaderProof::from_json(sent.as_bytes(), &PlanLimits::default())?;
/// let verified = proof.verify(plan.root())?;
/// assert_eq!(verified.header().steps(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderProof {
    header: PlanHeader,
    proof: InclusionProof,
}

impl HeaderProof {
    /// Combines a header and its proof, unverified.
    ///
    /// # Errors
    /// [`PlanUseError::Header`] if the proof is not for leaf 0, or its tree size does not match the header.
    pub fn new(header: PlanHeader, proof: InclusionProof) -> Result<Self, PlanUseError> {
        let fits = proof.index() == 0 && header.steps().checked_add(1) == Some(proof.size());
        if fits { Ok(Self { header, proof }) } else { Err(PlanUseError::Header) }
    }

    /// Parses a header with its proof: an object with the members `header` and `path` (hashes in lower-case
    /// hexadecimal).
    ///
    /// # Errors
    /// [`PlanError`] if the bytes are anything else, or the path is impossible for a plan.
    pub fn from_json(json: &[u8], limits: &PlanLimits) -> Result<Self, PlanError> {
        let canonical = read(json, Recipe::Jcs1, limits.json()).map_err(PlanProblem::from)?;
        let value = canonical.value();
        object(value, &["header", "path"])?;
        let header = value.get("header").ok_or(PlanProblem::Shape)?;
        let steps = number(header, "steps")?;
        if steps == 0 {
            return Err(PlanProblem::Empty.into());
        }
        Ok(Self { header: read_header(header, steps)?, proof: read_path(value, 0, steps)? })
    }

    /// Writes the canonical JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = format!("{{\"header\":{},\"path\":", self.header.to_json());
        write_path(&mut text, &self.proof);
        text.push('}');
        text
    }

    /// The unverified header.
    #[must_use]
    pub const fn header(&self) -> &PlanHeader {
        &self.header
    }

    /// Verifies that the plan with that root has this header.
    ///
    /// # Errors
    /// [`PlanUseError::Header`] if the proof does not hold.
    pub fn verify(self, root: &PlanRoot) -> Result<VerifiedHeader, PlanUseError> {
        self.header.verify(root, &self.proof).map_err(|_| PlanUseError::Header)?;
        Ok(VerifiedHeader { root: *root, header: self.header })
    }
}

/// The verified header of the plan with a root. Only [`HeaderProof::verify`] creates one.
#[derive(Clone, Debug)]
#[must_use]
pub struct VerifiedHeader {
    root: PlanRoot,
    header: PlanHeader,
}

impl VerifiedHeader {
    /// The plan's root.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.root
    }

    /// The plan's header.
    #[must_use]
    pub const fn header(&self) -> &PlanHeader {
        &self.header
    }
}
