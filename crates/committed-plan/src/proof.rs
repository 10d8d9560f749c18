use countersign_canonical_json::{Canonical, Kind, Recipe, ValueRef, read};
use countersign_core::ToolId;
use countersign_merkle::{InclusionProof, TreeHead};

use crate::breach::PlanBreach;
use crate::error::{PlanError, PlanProblem, PlanUseError};
use crate::header::{PlanHeader, read_header};
use crate::json::{number, object};
use crate::limits::PlanLimits;
use crate::root::PlanRoot;
use crate::step::{Step, read_step};

/// A step with an unverified proof that it is in a plan. Only [`verify`](Self::verify) gives access to the step.
///
/// ```
/// # use countersign_committed_plan::{OpenPlace, Plan, PlanContext, PlanContract, PlanLimits, Step, StepProof};
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
/// let sent = plan.prove_step(1).map(|proof| proof.to_json()).unwrap_or_default();
///
/// // On another machine, which has only the root:
/// let proof = StepProof::from_json(sent.as_bytes(), &PlanLimits::default())?;
/// let verified = proof.verify(plan.root())?;
/// assert_eq!(verified.step().tool().name().as_str(), "search");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepProof {
    step: Step,
    proof: InclusionProof,
}

impl StepProof {
    pub(crate) const fn new(step: Step, proof: InclusionProof) -> Self {
        Self { step, proof }
    }

    /// Parses a proof: an object with the members `index`, `steps`, `step` and `path` (hashes in lower-case
    /// hexadecimal).
    ///
    /// # Errors
    /// [`PlanError`] if the bytes are anything else, or the index or the path is impossible for a plan.
    pub fn from_json(json: &[u8], limits: &PlanLimits) -> Result<Self, PlanError> {
        let canonical = read(json, Recipe::Jcs1, limits.json()).map_err(PlanProblem::from)?;
        let value = canonical.value();
        object(value, &["index", "path", "step", "steps"])?;
        let (index, steps) = (number(value, "index")?, number(value, "steps")?);
        let proof = read_path(value, index, steps)?;
        // Leaf 0 is the header, not a step.
        let step = value.get("step").filter(|_| index > 0).ok_or(PlanProblem::Shape)?;
        Ok(Self { step: read_step(&canonical, step)?, proof })
    }

    /// Writes the proof's canonical JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = format!("{{\"index\":{},\"path\":", self.proof.index());
        write_path(&mut text, &self.proof);
        text.push_str(",\"step\":");
        self.step.write(&mut text);
        text.push_str(&format!(",\"steps\":{}}}", self.steps()));
        text
    }

    /// Verifies that the step is in the plan with that root, at the claimed index among the claimed number of steps.
    ///
    /// # Errors
    /// [`PlanBreach::StepMismatch`] if the proof does not hold.
    pub fn verify(self, root: &PlanRoot) -> Result<VerifiedStep, PlanBreach> {
        self.holds(root, &mut String::new())?;
        Ok(VerifiedStep { root: *root, index: self.index(), steps: self.steps(), step: self.step })
    }

    /// As [`verify`](Self::verify), with a buffer for the step's leaf.
    pub(crate) fn holds(&self, root: &PlanRoot, text: &mut String) -> Result<(), PlanBreach> {
        let refused = PlanBreach::StepMismatch { reason: "leaf" };
        let leaf = self.step.leaf_hash(self.proof.index(), self.steps(), text);
        let head = TreeHead::new(self.proof.size(), *root.hash()).map_err(|_| refused)?;
        self.proof.verify(&leaf, &head).map_err(|_| refused)
    }

    /// The step. Call [`holds`](Self::holds) first.
    pub(crate) const fn proved(&self) -> &Step {
        &self.step
    }

    /// The claimed index, from 1.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.proof.index()
    }

    /// The claimed number of steps of the plan.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.proof.size().saturating_sub(1)
    }
}

/// A step that is in the plan with a root. Only [`StepProof::verify`] creates one. It does not show that the step is
/// the next one; a cursor does.
#[derive(Debug)]
#[must_use]
pub struct VerifiedStep {
    root: PlanRoot,
    index: u64,
    steps: u64,
    step: Step,
}

impl VerifiedStep {
    /// Checks that a call matches the step.
    ///
    /// # Errors
    /// [`PlanBreach::StepMismatch`] if the tool or a fixed argument differs, an open argument is missing or not
    /// filled in, or an argument was added.
    pub fn admits(&self, tool: &ToolId, args: &Canonical) -> Result<(), PlanBreach> {
        self.step.admit(tool, args)
    }

    /// The plan's root.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.root
    }

    /// The step's index, from 1.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Number of steps of the plan, as stated in the step's leaf. Compare it with the header: an attacker can build a
    /// root over leaves that disagree.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The step.
    #[must_use]
    pub const fn step(&self) -> &Step {
        &self.step
    }
}

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

/// Parses the path of a proof for leaf `index` of a plan with `steps` steps.
fn read_path(value: ValueRef<'_>, index: u64, steps: u64) -> Result<InclusionProof, PlanProblem> {
    let path = value.get("path").filter(|path| path.kind() == Kind::Array).ok_or(PlanProblem::Shape)?;
    let path = path.elements().map(|hash| hash.as_str().and_then(|hash| hash.parse().ok()));
    let path = path.collect::<Option<_>>().ok_or(PlanProblem::Shape)?;
    let size = steps.checked_add(1).ok_or(PlanProblem::Shape)?;
    InclusionProof::new(index, size, path).map_err(|_| PlanProblem::Shape)
}

fn write_path(text: &mut String, proof: &InclusionProof) {
    let mut before = "[";
    for hash in proof.path() {
        text.push_str(before);
        text.push_str(&format!("\"{hash}\""));
        before = ",";
    }
    text.push_str(if proof.path().is_empty() { "[]" } else { "]" });
}
