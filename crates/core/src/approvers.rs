use crate::{OperatorId, look_alike};

/// Most names of one list.
const MAX_NAMES: usize = 32;

/// Longest name, in bytes. An entry of the log has room for the names of all approvals.
const MAX_NAME_BYTES: usize = 64;

/// Most approvals of one call. The record names each.
const MAX_NEEDED: u32 = 4;

/// The list of approvers is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApproversError {
    /// The list is empty or too long, or one of its names is too long.
    #[error("1 to 32 names of approvers expected, of at most 64 bytes each")]
    Names,
    /// Two names look alike.
    #[error("two names of approvers look alike")]
    LookAlike,
    /// The number of approvals is 0, above 4, or above the number of names.
    #[error("number of approvals out of range: 1 to the number of approvers expected, at most 4")]
    Needed,
}

/// Persons who may approve a call of one tool, and the number of them that a call needs.
///
/// Two names are two persons. No two names of a list look alike, so a name that is listed is one person.
///
/// ```
/// use countersign_core::{Approvers, OperatorId};
/// let names = ["ada", "bob", "cy"].map(|name| OperatorId::new(name).unwrap());
/// let two = Approvers::new(names, 2)?;
/// assert!(two.lists(&OperatorId::new("ada").unwrap()) && !two.lists(&OperatorId::new("Ada").unwrap()));
/// # Ok::<(), countersign_core::ApproversError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "ApproversFields", into = "ApproversFields")]
pub struct Approvers {
    names: Box<[OperatorId]>,
    needed: u32,
}

impl Approvers {
    /// Creates a list.
    ///
    /// # Errors
    /// [`ApproversError`] without names, with more than 32 or one above 64 bytes, if two of them look alike, or if `needed` is 0, above 4 or
    /// above their number.
    pub fn new(names: impl IntoIterator<Item = OperatorId>, needed: u32) -> Result<Self, ApproversError> {
        let names: Box<[_]> = names.into_iter().take(MAX_NAMES.saturating_add(1)).collect();
        let is_long = |name: &OperatorId| name.as_str().len() > MAX_NAME_BYTES;
        if names.is_empty() || names.len() > MAX_NAMES || names.iter().any(is_long) {
            return Err(ApproversError::Names);
        }
        let mut earlier = names.iter().enumerate();
        let is_alike = |(at, name): (usize, &OperatorId)| {
            names.iter().take(at).any(|other| look_alike(other.as_str(), name.as_str()))
        };
        if earlier.any(is_alike) {
            return Err(ApproversError::LookAlike);
        }
        if needed == 0 || needed > MAX_NEEDED || u32::try_from(names.len()).is_ok_and(|most| needed > most) {
            return Err(ApproversError::Needed);
        }
        Ok(Self { names, needed })
    }

    /// Names, in the order of the list.
    #[must_use]
    pub const fn names(&self) -> &[OperatorId] {
        &self.names
    }

    /// Number of approvals by different persons that a call needs.
    #[must_use]
    pub const fn needed(&self) -> u32 {
        self.needed
    }

    /// Returns `true` if the list has exactly this name.
    #[must_use]
    pub fn lists(&self, name: &OperatorId) -> bool {
        self.names.contains(name)
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ApproversFields {
    names: Vec<OperatorId>,
    needed: u32,
}

impl TryFrom<ApproversFields> for Approvers {
    type Error = ApproversError;
    fn try_from(fields: ApproversFields) -> Result<Self, ApproversError> {
        Self::new(fields.names, fields.needed)
    }
}

impl From<Approvers> for ApproversFields {
    fn from(approvers: Approvers) -> Self {
        Self { names: approvers.names.into_vec(), needed: approvers.needed }
    }
}
