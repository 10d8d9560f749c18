use std::collections::BTreeSet;

use countersign_canonical_json::{Kind, ValueRef};
use countersign_core::{Digest, look_alike};

use super::EndorsementError;

/// The most places that one entry binds.
const MAX_BOUNDS: usize = 64;

/// The most members of an object on the way to a bound place.
const MAX_BESIDE: usize = 256;

/// Arguments that an endorsement is for.
///
/// Only [`Exact`](Self::Exact) binds everything. Under [`Within`](Self::Within) the agent chooses freely what no bound
/// names: other members, and members of other objects. A member whose name looks like a bound one's, and an object of more
/// than 256 members on the way to a bound place, meet no bound.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BoundArgs {
    /// The arguments with this digest: SHA-256 over their canonical form, as approvals bind it.
    Exact(Digest),
    /// Arguments that meet every bound.
    Within(Vec<ArgBound>),
}

/// One place in the arguments, and the rule for the value there. A missing place breaks the rule.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgBound {
    pointer: Box<str>,
    rule: ArgRule,
}

/// What the value at a bound place has to be.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ArgRule {
    /// The value with this canonical text (RFC 8785). So `1` and `1.0` are one number, and the text `"1"` is not one.
    Equals(Box<str>),
    /// A number from `min` to `max`, both included; at least one of them is stated.
    Range {
        /// The least.
        min: Option<f64>,
        /// The most.
        max: Option<f64>,
    },
}

impl BoundArgs {
    /// Reads the `args` or the `bounds` of an entry; none where it states neither.
    pub(super) fn of_entry(entry: ValueRef<'_>) -> Result<Option<Self>, EndorsementError> {
        match (entry.get("args"), entry.get("bounds")) {
            (None, None) => Ok(None),
            (Some(args), None) => {
                let digest = args.as_str().and_then(|text| text.parse().ok());
                digest.map(|digest| Some(Self::Exact(digest))).ok_or(EndorsementError::Malformed)
            }
            (None, Some(bounds)) => read_bounds(bounds).map(|bounds| Some(Self::Within(bounds))),
            (Some(_), Some(_)) => Err(EndorsementError::Bounds),
        }
    }

    /// Returns whether a call's arguments, with this digest, are among those that it binds.
    pub(super) fn allows(&self, args: ValueRef<'_>, digest: Digest) -> bool {
        match self {
            Self::Exact(bound) => *bound == digest,
            Self::Within(bounds) => bounds.iter().all(|bound| bound.allows(args)),
        }
    }
}

impl ArgBound {
    /// The place, as a JSON Pointer (RFC 6901) into the arguments.
    #[must_use]
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The rule for the value there.
    #[must_use]
    pub const fn rule(&self) -> &ArgRule {
        &self.rule
    }

    fn allows(&self, args: ValueRef<'_>) -> bool {
        if has_look_alike(args, &self.pointer) {
            return false;
        }
        // why: a number that was rounded when it was read is another one than was written.
        let Some(value) = args.pointer(&self.pointer).filter(|value| value.is_exact()) else {
            return false;
        };
        match &self.rule {
            ArgRule::Equals(text) => value.canonical_text() == **text,
            ArgRule::Range { min, max } => value.as_f64().is_some_and(|number| {
                min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
            }),
        }
    }

    fn read(bound: ValueRef<'_>) -> Result<Self, EndorsementError> {
        let known = |name| ["pointer", "equals", "min", "max"].contains(&name);
        if bound.kind() != Kind::Object || !bound.members().all(|(name, _)| known(name)) {
            return Err(EndorsementError::Malformed);
        }
        let pointer = bound.get("pointer").and_then(ValueRef::as_str).ok_or(EndorsementError::Malformed)?;
        if !is_pointer(pointer) {
            return Err(EndorsementError::Bounds);
        }
        let number = |name| {
            let value = bound.get(name);
            value.map(|value| value.as_f64().ok_or(EndorsementError::Malformed)).transpose()
        };
        let rule = match (bound.get("equals"), number("min")?, number("max")?) {
            (Some(value), None, None) => ArgRule::Equals(value.canonical_text().into()),
            (None, Some(min), Some(max)) if min > max => return Err(EndorsementError::Bounds),
            (None, min, max) if min.or(max).is_some() => ArgRule::Range { min, max },
            _ => return Err(EndorsementError::Bounds),
        };
        Ok(Self { pointer: pointer.into(), rule })
    }
}

/// Returns whether a member stands beside the place, or on the way to it, whose name a reader could take for the bound one's:
/// some match names without regard to case, and the last one counts. So it does for an object of too many members.
fn has_look_alike(args: ValueRef<'_>, pointer: &str) -> bool {
    let mut object = Some(args);
    for token in pointer.split('/').skip(1) {
        let name = token.replace("~1", "/").replace("~0", "~");
        if object.is_some_and(|object| object.kind() == Kind::Object && object.len() > MAX_BESIDE) {
            return true;
        }
        let beside = object.into_iter().flat_map(ValueRef::members);
        if beside.filter(|(other, _)| *other != name).any(|(other, _)| look_alike(other, &name)) {
            return true;
        }
        object = object.and_then(|object| object.pointer(&format!("/{token}")));
    }
    false
}

fn read_bounds(bounds: ValueRef<'_>) -> Result<Vec<ArgBound>, EndorsementError> {
    if bounds.kind() != Kind::Array {
        return Err(EndorsementError::Malformed);
    }
    if bounds.is_empty() || bounds.len() > MAX_BOUNDS {
        return Err(EndorsementError::Bounds);
    }
    let bounds = bounds.elements().map(ArgBound::read).collect::<Result<Vec<_>, _>>()?;
    // A pointer has one spelling, so two bounds of one place have one text.
    let places: BTreeSet<&str> = bounds.iter().map(ArgBound::pointer).collect();
    if places.len() < bounds.len() { Err(EndorsementError::Bounds) } else { Ok(bounds) }
}

/// Returns whether a text is a JSON Pointer (RFC 6901, section 3): another one would never be there.
fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes
}
