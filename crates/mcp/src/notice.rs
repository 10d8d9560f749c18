/// A notice to the operator that the client does not receive. It is recorded as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayNotice {
    code: &'static str,
    text: String,
}

impl GatewayNotice {
    /// Creates a notice with a stable code.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }
}

countersign_core::coded!(GatewayNotice);

impl std::fmt::Display for GatewayNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
