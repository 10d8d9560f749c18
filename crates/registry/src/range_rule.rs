use std::fmt;

use crate::content::ConstraintError;

/// Allowed numbers, both ends included. An absent end is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeRule {
    min: Option<RangeEnd>,
    max: Option<RangeEnd>,
}

/// Finite number.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct RangeEnd(pub(crate) f64);

/// No bound is NaN: the constructor of the rule refuses it.
impl Eq for RangeEnd {}

impl RangeRule {
    pub(crate) fn new(min: Option<RangeEnd>, max: Option<RangeEnd>) -> Result<Self, ConstraintError> {
        let is_finite = |bound: Option<RangeEnd>| bound.is_none_or(|bound| bound.0.is_finite());
        let is_range = min.zip(max).is_none_or(|(min, max)| min.0 <= max.0);
        if (min.is_none() && max.is_none()) || !is_range || !is_finite(min) || !is_finite(max) {
            return Err(ConstraintError::Bounds);
        }
        Ok(Self { min, max })
    }

    pub(crate) fn fits(self, number: f64) -> bool {
        self.min.is_none_or(|min| min.0 <= number) && self.max.is_none_or(|max| number <= max.0)
    }

    /// Returns `true` if every allowed number is allowed by `wider`.
    pub(crate) fn implies(self, wider: Self) -> bool {
        wider.min.is_none_or(|least| self.min.is_some_and(|min| least.0 <= min.0))
            && wider.max.is_none_or(|most| self.max.is_some_and(|max| max.0 <= most.0))
    }

    /// Returns `true` if a number is allowed by both.
    pub(crate) fn meets(self, other: Self) -> bool {
        let is_below = |min: Option<RangeEnd>, max: Option<RangeEnd>| {
            min.zip(max).is_none_or(|(min, max)| min.0 <= max.0)
        };
        is_below(self.min, other.max) && is_below(other.min, self.max)
    }

    pub(crate) const fn has_min(self) -> bool {
        self.min.is_some()
    }

    pub(crate) const fn has_max(self) -> bool {
        self.max.is_some()
    }
}

/// As a predicate: `is at most 20`.
impl fmt::Display for RangeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min == max => write!(f, "is {}", min.0),
            (Some(min), Some(max)) => write!(f, "is from {} to {}", min.0, max.0),
            (Some(min), None) => write!(f, "is at least {}", min.0),
            (None, Some(max)) => write!(f, "is at most {}", max.0),
            (None, None) => f.write_str("is a number"),
        }
    }
}
