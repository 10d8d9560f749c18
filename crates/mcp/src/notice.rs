/// Something that the operator has to know and the client is not told. It is on record as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayNotice {
    code: &'static str,
    text: String,
}

impl GatewayNotice {
    /// Makes one, with a stable code.
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

impl std::fmt::Display for GatewayNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
