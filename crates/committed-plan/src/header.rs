use countersign_canonical_json::{Recipe, read, write_string};
use countersign_core::{Digest, SessionId};
use countersign_merkle::{InclusionProof, LeafHash, TreeHead};

use crate::breach::PlanBreach;
use crate::cursor_error::PlanUseError;
use crate::error::{PlanError, PlanProblem};
use crate::read::read_header;
use crate::root::PlanRoot;

/// The recipe of the header: which members there are and what they mean.
pub(crate) const RECIPE: &str = "plan-1";

/// The last registry version that JSON numbers name exactly.
pub(crate) const MAX_VERSION: u64 = (1 << 53) - 1;

/// Holds what a plan is made for: the pinned goal, the session, and the registry that it was checked under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanContext {
    goal: Digest,
    session: SessionId,
    registry_version: u64,
}

impl PlanContext {
    /// Puts a context together. `goal` is the digest of the pinned ask.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_REGISTRY_VERSION` above 2^53 - 1, which JSON does not tell exactly.
    pub fn new(goal: Digest, session: SessionId, registry_version: u64) -> Result<Self, PlanError> {
        if registry_version > MAX_VERSION {
            return Err(PlanProblem::RegistryVersion.into());
        }
        Ok(Self { goal, session, registry_version })
    }

    /// The digest of the pinned ask.
    #[must_use]
    pub const fn goal(&self) -> &Digest {
        &self.goal
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// The registry's version.
    #[must_use]
    pub const fn registry_version(&self) -> u64 {
        self.registry_version
    }
}

/// Says which plan an amendment goes on from, and after which of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amends {
    root: PlanRoot,
    position: u64,
}

impl Amends {
    pub(crate) const fn new(root: PlanRoot, position: u64) -> Self {
        Self { root, position }
    }

    /// The root of the plan that is amended.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.root
    }

    /// How many of its steps have run and stay as they are; those after them are replaced.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }
}

/// Holds what a plan says of itself, which is leaf 0 of its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanHeader {
    context: PlanContext,
    amends: Option<Amends>,
    steps: u64,
}

impl PlanHeader {
    pub(crate) const fn new(context: PlanContext, amends: Option<Amends>, steps: u64) -> Self {
        Self { context, amends, steps }
    }

    /// Reads a header from its leaf.
    ///
    /// # Errors
    /// [`PlanError`] when it is not strict JSON of just the members that a header has.
    pub fn from_json(json: &[u8]) -> Result<Self, PlanError> {
        let limits = countersign_canonical_json::Limits::default();
        let canonical = read(json, Recipe::Jcs1, &limits).map_err(PlanProblem::from)?;
        let value = canonical.value();
        let steps = value.get("steps").and_then(|steps| steps.as_u64()).ok_or(PlanProblem::Shape)?;
        if steps == 0 {
            return Err(PlanProblem::Empty.into());
        }
        Ok(read_header(value, steps)?)
    }

    /// The bytes of the header's leaf (recipe `plan-1`): its canonical JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = self.opened();
        text.push_str(&self.steps.to_string());
        text.push('}');
        text
    }

    /// The members of the header up to the value of `steps`.
    pub(crate) fn opened(&self) -> String {
        let mut text = String::from("{");
        if let Some(Amends { root, position }) = &self.amends {
            text.push_str(&format!(r#""amends":{{"position":{position},"root":"{root}"}},"#));
        }
        let PlanContext { goal, session, registry_version } = &self.context;
        text.push_str(&format!(
            r#""goal":"{goal}","recipe":"{RECIPE}","registry_version":{registry_version},"session":"#
        ));
        write_string(&mut text, session.as_str());
        text.push_str(",\"steps\":");
        text
    }

    /// Says whether the plan with that root has this header, from the proof for leaf 0 alone.
    ///
    /// # Errors
    /// [`PlanBreach::StepMismatch`] when it has not.
    pub fn verify(&self, root: &PlanRoot, proof: &InclusionProof) -> Result<(), PlanBreach> {
        let refused = PlanBreach::StepMismatch { reason: "header" };
        let size = self.steps.checked_add(1).ok_or(refused)?;
        let head = TreeHead::new(size, *root.hash()).map_err(|_| refused)?;
        if proof.index() != 0 {
            return Err(refused);
        }
        proof.verify(&LeafHash::of(self.to_json().as_bytes()), &head).map_err(|_| refused)
    }

    /// Says whether the plan was made for this session, this goal and this registry.
    ///
    /// # Errors
    /// [`PlanUseError`] naming the first of them that it was not made for.
    pub fn check(&self, context: &PlanContext) -> Result<(), PlanUseError> {
        if self.context.session != context.session {
            return Err(PlanUseError::OtherSession);
        }
        if self.context.goal != context.goal {
            return Err(PlanUseError::OtherGoal);
        }
        if self.context.registry_version != context.registry_version {
            return Err(PlanUseError::OtherRegistry);
        }
        Ok(())
    }

    /// What the plan was made for.
    #[must_use]
    pub const fn context(&self) -> &PlanContext {
        &self.context
    }

    /// The plan that this one goes on from, if it is an amendment.
    #[must_use]
    pub const fn amends(&self) -> Option<&Amends> {
        self.amends.as_ref()
    }

    /// How many steps the plan has.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn amending(self, amends: Amends) -> Self {
        Self { amends: Some(amends), ..self }
    }
}
