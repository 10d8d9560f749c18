use std::borrow::Cow;
use std::fmt;

use crate::ProposalCode;

/// Refusal: its code, and for the record the place and the broken rule. Never a value.
///
/// `Display` writes the code's fixed sentence, which a model may see. A model must not see [`detail`](Self::detail).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ProposalError {
    code: ProposalCode,
    place: Cow<'static, str>,
    rule: Cow<'static, str>,
}

impl ProposalError {
    /// `place` is a JSON Pointer into the proposal, or the name of the checked object; `rule` states the requirement.
    pub(crate) fn new(
        code: ProposalCode,
        place: impl Into<Cow<'static, str>>,
        rule: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { code, place: place.into(), rule: rule.into() }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ProposalCode {
        self.code
    }

    /// JSON Pointer (RFC 6901) into the proposal, or the name of the checked object.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Requirement that was not met there.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Place and rule, for the record and for debugging. Do not show it to a model.
    #[must_use]
    pub fn detail(&self) -> String {
        format!("{}: {}", self.place, self.rule)
    }
}

impl fmt::Display for ProposalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.message())
    }
}
