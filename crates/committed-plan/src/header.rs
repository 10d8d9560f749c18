use countersign_canonical_json::{Recipe, ValueRef, read, write_string};
use countersign_core::{Digest, SessionId};
use countersign_merkle::{InclusionProof, LeafHash, TreeHead};

use crate::breach::PlanBreach;
use crate::error::{PlanError, PlanProblem, PlanUseError};
use crate::json::{number, object, text};
use crate::root::PlanRoot;

/// Recipe of the header: its members and their meaning.
pub(crate) const RECIPE: &str = "plan-1";

/// Maximum registry version: 2^53 - 1, up to which JSON numbers are exact.
pub(crate) const MAX_VERSION: u64 = (1 << 53) - 1;

/// Maximum number of amendments of one plan. Each needs an approval, so real plans stay far below.
pub(crate) const MAX_AMENDMENTS: usize = 64;

/// The context of a plan: the pinned goal, the session, and the registry under which it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanContext {
    goal: Digest,
    session: SessionId,
    registry_version: u64,
}

impl PlanContext {
    /// Creates a context. `goal` is the digest of the pinned ask.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_REGISTRY_VERSION` above 2^53 - 1, which is not exact in JSON.
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

/// The plan that an amendment continues, and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amends {
    root: PlanRoot,
    position: u64,
}

impl Amends {
    pub(crate) const fn new(root: PlanRoot, position: u64) -> Self {
        Self { root, position }
    }

    /// The root of the amended plan.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.root
    }

    /// Number of its steps that have run. The amendment replaces the steps after them.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }
}

/// The header of a plan, which is leaf 0 of its tree.
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

    /// Parses a header from its leaf.
    ///
    /// # Errors
    /// [`PlanError`] if the bytes are not strict JSON with exactly the members of a header.
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

    /// Verifies, by a proof for leaf 0, that the plan with that root has this header.
    ///
    /// # Errors
    /// [`PlanBreach::StepMismatch`] if the proof does not hold.
    pub fn verify(&self, root: &PlanRoot, proof: &InclusionProof) -> Result<(), PlanBreach> {
        let refused = PlanBreach::StepMismatch { reason: "header" };
        let size = self.steps.checked_add(1).ok_or(refused)?;
        let head = TreeHead::new(size, *root.hash()).map_err(|_| refused)?;
        if proof.index() != 0 {
            return Err(refused);
        }
        proof.verify(&LeafHash::of(self.to_json().as_bytes()), &head).map_err(|_| refused)
    }

    /// Checks that the plan is for this session, goal and registry.
    ///
    /// # Errors
    /// [`PlanUseError`] for the first of them that differs.
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

    /// The context of the plan.
    #[must_use]
    pub const fn context(&self) -> &PlanContext {
        &self.context
    }

    /// The plan that this one amends, if it is an amendment.
    #[must_use]
    pub const fn amends(&self) -> Option<&Amends> {
        self.amends.as_ref()
    }

    /// Number of steps.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn amending(self, amends: Amends) -> Self {
        Self { amends: Some(amends), ..self }
    }
}

/// Parses the header of a plan or of its leaf. The member `steps` differs between them, so the caller passes its value.
pub(crate) fn read_header(value: ValueRef<'_>, steps: u64) -> Result<PlanHeader, PlanProblem> {
    object(value, &["amends", "goal", "recipe", "registry_version", "session", "steps"])?;
    if text(value, "recipe")? != RECIPE {
        return Err(PlanProblem::Recipe);
    }
    let goal = text(value, "goal")?.parse().map_err(|_| PlanProblem::Id)?;
    let session = SessionId::new(text(value, "session")?).map_err(|_| PlanProblem::Id)?;
    let version = number(value, "registry_version")?;
    let context = PlanContext::new(goal, session, version).map_err(|error| error.problem())?;
    let amends = value.get("amends").map(read_amends).transpose()?;
    Ok(PlanHeader::new(context, amends, steps))
}

fn read_amends(value: ValueRef<'_>) -> Result<Amends, PlanProblem> {
    object(value, &["position", "root"])?;
    let root = text(value, "root")?.parse().map_err(|_| PlanProblem::Id)?;
    Ok(Amends::new(root, number(value, "position")?))
}

/// Checks that a plan is for the session and the goal of the one before it, under its registry or a later one.
pub(crate) fn check_continues(old: &PlanHeader, new: &PlanHeader) -> Result<(), PlanUseError> {
    let (old, new) = (old.context(), new.context());
    if new.session() != old.session() {
        return Err(PlanUseError::OtherSession);
    }
    if new.goal() != old.goal() {
        return Err(PlanUseError::OtherGoal);
    }
    if new.registry_version() < old.registry_version() {
        return Err(PlanUseError::OtherRegistry);
    }
    Ok(())
}

/// Returns whether a plan amends the one with that root after `position` of its steps.
pub(crate) fn is_linked(amendment: &PlanHeader, root: &PlanRoot, position: u64) -> bool {
    let amends = amendment.amends();
    amends.is_some_and(|amends| amends.root() == root && amends.position() == position)
}
