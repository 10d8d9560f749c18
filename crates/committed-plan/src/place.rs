use std::fmt;

use crate::error::PlanProblem;

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
