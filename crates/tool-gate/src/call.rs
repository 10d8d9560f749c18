use countersign_canonical_json::Canonical;

/// Asks for one tool call: raw strings and bytes as the agent gave them. The gate's step 0 checks every one.
///
/// The principal is not among them: it is the gate's own, as the host gave it when the session was opened.
#[derive(Clone, Debug)]
pub struct ToolCall<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) server: &'a str,
    pub(crate) name: &'a str,
    pub(crate) args: Args<'a>,
    pub(crate) ask: Option<&'a str>,
    pub(crate) approvals: Vec<&'a str>,
    pub(crate) request_id: Option<&'a str>,
}

/// Arguments, as bytes that nobody has read yet or as what one strict reading gave.
#[derive(Clone, Debug)]
pub(crate) enum Args<'a> {
    Raw(&'a [u8]),
    Read(Canonical),
}

impl<'a> ToolCall<'a> {
    /// Asks to call the tool `name` of `server` with `args`, the JSON text of an object.
    #[must_use]
    pub const fn new(call_id: &'a str, server: &'a str, name: &'a str, args: &'a [u8]) -> Self {
        Self::from_parts(call_id, server, name, Args::Raw(args))
    }

    /// Asks the same with arguments that a gateway read already, as part of a larger text. Arguments of a recipe
    /// other than `jcs-1` are refused.
    #[must_use]
    pub const fn with_read_args(call_id: &'a str, server: &'a str, name: &'a str, args: Canonical) -> Self {
        Self::from_parts(call_id, server, name, Args::Read(args))
    }

    const fn from_parts(call_id: &'a str, server: &'a str, name: &'a str, args: Args<'a>) -> Self {
        Self { call_id, server, name, args, ask: None, approvals: Vec::new(), request_id: None }
    }

    /// Adds the goal as the agent restates it.
    #[must_use]
    pub const fn ask(mut self, restated: &'a str) -> Self {
        self.ask = Some(restated);
        self
    }

    /// Adds an approval token. May be used several times.
    #[must_use]
    pub fn approval(mut self, token: &'a str) -> Self {
        self.approvals.push(token);
        self
    }

    /// Adds the id by which the host correlates the request; it goes on record and decides nothing.
    #[must_use]
    pub const fn request_id(mut self, id: &'a str) -> Self {
        self.request_id = Some(id);
        self
    }
}
