use std::borrow::Cow;
use std::fmt;

use crate::ProposalCode;

/// A refusal: its code, and for the record the place and the rule that was broken. Never a value.
///
/// `Display` writes the code's fixed sentence, which may go to a model. [`detail`](Self::detail) may not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ProposalError {
    code: ProposalCode,
    place: Cow<'static, str>,
    rule: Cow<'static, str>,
}

impl ProposalError {
    /// `place` is a JSON pointer into the proposal or the name of what was looked at; `rule` says what had to hold.
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

    /// Where, as a JSON pointer into the proposal or the name of what was looked at.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What had to hold there.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Place and rule, for the record and for people who look for the fault. Never for a model.
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
