use std::collections::BTreeSet;

use countersign_canonical_json::{Kind, ValueRef};
use countersign_core::{Digest, look_alike};

use super::error::EndorsementError;

/// Most bound places of one entry.
const MAX_BOUNDS: usize = 64;

/// Most members of an object on the way to a bound place.
const MAX_BESIDE: usize = 256;

/// Arguments that an endorsement binds.
///
/// Only [`Exact`](Self::Exact) binds everything. Under [`Within`](Self::Within) the agent chooses the rest freely:
/// other members, and members of other objects. A member whose name looks like a bound one, and an object of more
/// than 256 members on the way to a bound place, fail every bound.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BoundArgs {
    /// Arguments with this digest: SHA-256 of their canonical form, as approvals bind it.
    Exact(Digest),
    /// Arguments that meet every bound.
    Within(Vec<ArgBound>),
}

/// Place in the arguments, and the rule for the value there. A missing place breaks the rule.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgBound {
    pointer: Box<str>,
    rule: ArgRule,
}

/// Rule for the value at a bound place.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ArgRule {
    /// Equal to this canonical text (RFC 8785): `1` and `1.0` are equal, the string `"1"` differs.
    Equals(Box<str>),
    /// Number from `min` to `max`, both included; at least one is stated.
    Range {
        /// Least value.
        min: Option<f64>,
        /// Largest value.
        max: Option<f64>,
    },
}

impl BoundArgs {
    /// Reads the `args` or the `bounds` of an entry; `None` if it states neither.
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

    /// Returns whether it allows a call's arguments, which have this digest.
    pub(super) fn allows(&self, args: ValueRef<'_>, digest: Digest) -> bool {
        match self {
            Self::Exact(bound) => *bound == digest,
            Self::Within(bounds) => bounds.iter().all(|bound| bound.allows(args)),
        }
    }
}

impl ArgBound {
    /// Place, as a JSON Pointer (RFC 6901) into the arguments.
    #[must_use]
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Rule for the value there.
    #[must_use]
    pub const fn rule(&self) -> &ArgRule {
        &self.rule
    }

    fn allows(&self, args: ValueRef<'_>) -> bool {
        if has_look_alike(args, &self.pointer) {
            return false;
        }
        // why: a number that was rounded in parsing differs from the written one.
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

/// Returns whether a member beside the place, or on the way to it, has a name that a reader could take for the bound
/// one. why: some parsers match names without regard to case, and the last match wins. Also returns `true` for an
/// object of too many members.
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
    // A pointer has one spelling, so two bounds of one place have equal texts.
    let places: BTreeSet<&str> = bounds.iter().map(ArgBound::pointer).collect();
    if places.len() < bounds.len() { Err(EndorsementError::Bounds) } else { Ok(bounds) }
}

/// Returns whether a text is a JSON Pointer (RFC 6901, section 3). Another text would match no place.
fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes
}
