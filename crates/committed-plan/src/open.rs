//! Arguments with open places: two notations, one committed form.

use std::fmt;

use countersign_canonical_json::{Canonical, Kind, ValueRef, to_canonical};
use serde_json::Value;

use crate::error::PlanProblem;

/// Placeholder for an argument that a step leaves open. No argument can be fixed to this text.
pub const DYNAMIC: &str = "<DYNAMIC>";

/// Maximum number of open arguments of one step.
const MAX_OPEN: usize = 64;

/// Maximum length of a place, in bytes.
const MAX_PLACE_BYTES: usize = 256;

/// An open argument of a step: a JSON Pointer (RFC 6901) below the top.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenPlace(Box<str>);

impl OpenPlace {
    pub(crate) fn new(text: &str) -> Result<Self, PlanProblem> {
        let escapes_fit = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        let hidden = text.chars().any(countersign_core::is_hidden);
        if !text.starts_with('/') || text.len() > MAX_PLACE_BYTES || !escapes_fit || hidden {
            return Err(PlanProblem::OpenPlace);
        }
        Ok(Self(text.into()))
    }

    /// The pointer.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OpenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OpenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenPlace({:?})", &*self.0)
    }
}

/// Returns whether a planned value is the placeholder.
pub(crate) fn is_open(planned: ValueRef<'_>) -> bool {
    planned.as_str() == Some(DYNAMIC)
}

/// Converts arguments into the committed form, with [`DYNAMIC`] at each open place, and lists those places in the
/// order of the arguments, a value in `source`. Places in `listed` that the arguments lack are added.
pub(crate) fn settle(
    source: &Canonical,
    args: ValueRef<'_>,
    listed: &[OpenPlace],
) -> Result<(Canonical, Vec<OpenPlace>), PlanProblem> {
    if args.kind() != Kind::Object || !args.is_exact() {
        return Err(PlanProblem::Args);
    }
    if listed.len() > MAX_OPEN {
        return Err(PlanProblem::Limit);
    }
    let mut missing = Vec::new();
    for (at, place) in listed.iter().enumerate() {
        if listed.iter().skip(at.saturating_add(1)).any(|other| other == place) {
            return Err(PlanProblem::OpenPlace);
        }
        match args.pointer(place.as_str()) {
            Some(value) if is_open(value) => {}
            Some(_) => return Err(PlanProblem::FixedAndOpen),
            None => missing.push(place),
        }
    }
    let settled = if missing.is_empty() {
        source.subtree(args)
    } else {
        let mut value = serde_json::to_value(args).map_err(|_| PlanProblem::Args)?;
        missing.into_iter().try_for_each(|place| insert(&mut value, place))?;
        to_canonical(&value).map_err(|_| PlanProblem::Args)?
    };
    let mut open = Vec::new();
    // Its canonical text has no escapes, so arguments without it have no open place.
    if settled.as_str().contains(DYNAMIC) {
        collect(settled.value(), &mut String::new(), &mut open)?;
    }
    Ok((settled, open))
}

/// Adds an open member. Its parent must be an existing object: an array cannot get open elements, and an open place
/// has no inner places.
fn insert(args: &mut Value, place: &OpenPlace) -> Result<(), PlanProblem> {
    let (parent, name) = place.as_str().rsplit_once('/').ok_or(PlanProblem::OpenPlace)?;
    let Some(Value::Object(members)) = args.pointer_mut(parent) else {
        return Err(PlanProblem::OpenPlace);
    };
    members.insert(name.replace("~1", "/").replace("~0", "~"), DYNAMIC.into());
    Ok(())
}

/// Lists the open places. The reader's depth limit bounds the recursion.
fn collect(value: ValueRef<'_>, at: &mut String, open: &mut Vec<OpenPlace>) -> Result<(), PlanProblem> {
    if is_open(value) {
        if open.len() >= MAX_OPEN {
            return Err(PlanProblem::Limit);
        }
        open.push(OpenPlace::new(at)?);
        return Ok(());
    }
    let end = at.len();
    for (name, member) in value.members() {
        at.push('/');
        at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        collect(member, at, open)?;
        at.truncate(end);
    }
    for (index, element) in value.elements().enumerate() {
        at.push('/');
        at.push_str(&index.to_string());
        collect(element, at, open)?;
        at.truncate(end);
    }
    Ok(())
}
