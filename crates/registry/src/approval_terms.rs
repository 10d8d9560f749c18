use std::fmt;

use countersign_canonical_json::{Canonical, ValueRef};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::constraint::Constraint;
use crate::content::{ApprovalTermsError, ContentError, ContentProblem};
use crate::fields::check_count;
use crate::place::ArgPlace;
use crate::rule::ApprovalRule;

/// Most branches of one rule.
const MAX_BRANCHES: usize = 16;

/// Most constraints of one branch.
const MAX_CONSTRAINTS: usize = 16;

/// Approval that calls of a tool need, unless their arguments match a branch.
///
/// A branch only removes the need for an approval. Every other check of the call stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalTerms {
    rule: ApprovalRule,
    unless: Vec<ApprovalBranch>,
}

/// Constraints that a call's arguments must all match to need no approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalBranch(Vec<Constraint>);

/// Effect of a changed rule on the calls that need an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApprovalChange {
    /// The same calls need the same approval.
    None,
    /// No call needs more than before.
    Loosens,
    /// No call needs less than before.
    Tightens,
    /// Some calls may need less, others more.
    Mixed,
}

impl ApprovalTerms {
    /// A rule for all calls.
    #[must_use]
    pub const fn always(rule: ApprovalRule) -> Self {
        Self { rule, unless: Vec::new() }
    }

    /// Adds a branch.
    pub(crate) fn push(&mut self, branch: Vec<Constraint>) {
        self.unless.push(ApprovalBranch(branch));
    }

    /// Rule of a call that matches no branch.
    #[must_use]
    pub const fn rule(&self) -> ApprovalRule {
        self.rule
    }

    /// Branches: a call that matches one of them needs no approval.
    #[must_use]
    pub fn unless(&self) -> &[ApprovalBranch] {
        &self.unless
    }

    /// Returns the approval that a call with these arguments needs. The `open` places of a planned call have no value yet,
    /// so a branch that constrains one of them does not match.
    #[must_use]
    pub fn of_call(&self, args: &Canonical, open: &[ArgPlace]) -> ApprovalRule {
        if self.unless.iter().any(|branch| branch.holds(args.value(), open)) {
            return ApprovalRule::NotRequired;
        }
        self.rule
    }

    /// Returns the effect of replacing these terms by others, as far as it can be determined from the constraints.
    #[must_use]
    pub fn change_to(&self, new: &Self) -> ApprovalChange {
        match (self.covers(new), new.covers(self)) {
            (true, true) => ApprovalChange::None,
            (true, false) => ApprovalChange::Loosens,
            (false, true) => ApprovalChange::Tightens,
            (false, false) => ApprovalChange::Mixed,
        }
    }

    /// Returns `true` if each call needs no more under `other` than under these terms.
    fn covers(&self, other: &Self) -> bool {
        let is_exempt = |branch: &ApprovalBranch| other.unless.iter().any(|wider| branch.implies(wider));
        other.rule == ApprovalRule::NotRequired
            || (other.rule.strength() <= self.rule.strength() && self.unless.iter().all(is_exempt))
    }

    pub(crate) fn check(&self) -> Result<(), ContentError> {
        let wrong = |place: String, error| Err(ContentError::new(place, ContentProblem::Approval(error)));
        if !self.unless.is_empty() && !self.rule.is_required() {
            return wrong("/approval/rule".to_owned(), ApprovalTermsError::NothingToExempt);
        }
        check_count("/approval/unless", "branches of one approval rule", self.unless.len(), MAX_BRANCHES)?;
        for (index, branch) in self.unless.iter().enumerate() {
            let place = format!("/approval/unless/{index}");
            if branch.0.is_empty() {
                return wrong(place, ApprovalTermsError::EmptyBranch);
            }
            check_count(&place, "constraints of one branch", branch.0.len(), MAX_CONSTRAINTS)?;
        }
        Ok(())
    }
}

impl ApprovalBranch {
    /// Constraints of the branch.
    #[must_use]
    pub fn constraints(&self) -> &[Constraint] {
        &self.0
    }

    fn holds(&self, args: ValueRef<'_>, open: &[ArgPlace]) -> bool {
        let is_known = |at: &ArgPlace| !open.iter().any(|open| open.covers(at) || at.covers(open));
        !self.0.is_empty()
            && self.0.iter().all(|constraint| is_known(constraint.at()) && constraint.holds(args))
    }

    /// Returns `true` if every call that matches this branch clearly matches `wider`.
    pub(crate) fn implies(&self, wider: &Self) -> bool {
        wider.0.iter().all(|wider| self.0.iter().any(|constraint| constraint.implies(wider)))
    }
}

/// In words: `/amount is at most 20 and /to has only addresses at example.com`.
impl fmt::Display for ApprovalBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, constraint) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " and " })?;
            constraint.fmt(f)?;
        }
        Ok(())
    }
}

/// The form of terms with branches.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionalFields<B> {
    rule: ApprovalRule,
    unless: B,
}

/// Terms without branches are written as their rule alone.
impl Serialize for ApprovalTerms {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.unless.is_empty() {
            return self.rule.serialize(s);
        }
        ConditionalFields { rule: self.rule, unless: &self.unless }.serialize(s)
    }
}

impl<'de> Deserialize<'de> for ApprovalTerms {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(TermsVisitor)
    }
}

struct TermsVisitor;

impl<'de> Visitor<'de> for TermsVisitor {
    type Value = ApprovalTerms;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an approval rule, or an object with `rule` and `unless`")
    }

    fn visit_str<E: serde::de::Error>(self, rule: &str) -> Result<ApprovalTerms, E> {
        ApprovalRule::deserialize(StrDeserializer::new(rule)).map(ApprovalTerms::always)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ApprovalTerms, A::Error> {
        let fields: ConditionalFields<Vec<ApprovalBranch>> =
            Deserialize::deserialize(MapAccessDeserializer::new(map))?;
        if fields.unless.is_empty() {
            return Err(serde::de::Error::custom("an approval rule without branches is written as its name"));
        }
        Ok(ApprovalTerms { rule: fields.rule, unless: fields.unless })
    }
}
