use std::collections::BTreeSet;

use countersign_core::{Millis, ServerName};
use countersign_tool_gate::{PLAN_TOOL, RefusalRate};

use crate::error::SettingsError;
use crate::shown_names::ShownNames;

/// Upper bound of the line limits, equal to the strict reader's own cap: 256 MiB.
const MAX_LINE: usize = 256 << 20;
/// Upper bound of the limit on outstanding requests.
const MAX_OUTSTANDING: usize = 1 << 16;
/// Upper bound of the wait limits: one hour.
const MAX_WAIT: Millis = Millis::from_secs(3_600);
/// Upper bound of the time that a call is held: one hour.
const MAX_HOLD: Millis = MAX_WAIT;
/// Upper bound of the time to approve: 30 days.
const MAX_TTL: Millis = Millis::from_secs(30 * 86_400);
const MAX_METHOD_BYTES: usize = 128;

/// Settings of one gateway. Further methods pass in addition to those that MCP's handshake era needs for tools.
///
/// ```
/// use countersign_core::ServerName;
/// use countersign_mcp::GatewaySettings;
/// let settings = GatewaySettings::new(ServerName::new("desk")?).allow_client_method("resources/read")?;
/// assert_eq!(settings.server().as_str(), "desk");
/// assert!(settings.allow_server_method("sampling/*").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    server: ServerName,
    pub(crate) client_methods: BTreeSet<Box<str>>,
    pub(crate) server_methods: BTreeSet<Box<str>>,
    pub(crate) limits: GatewayLimits,
    pub(crate) approval_ttl: Millis,
    pub(crate) hold: Millis,
    pub(crate) plans: Option<PlanApprovals>,
    pub(crate) proposals: ProposalHint,
    pub(crate) refused_messages: RefusalRate,
    pub(crate) client_era: Era,
    pub(crate) server_era: Era,
    /// The names of the tools towards the client, for one of several servers.
    pub(crate) shown: Option<ShownNames>,
}

/// Which of MCP's two eras is spoken on one side of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Era {
    /// Whichever the peer speaks.
    #[default]
    Auto,
    /// Revisions up to 2025-11-25, which begin with `initialize`.
    Handshake,
    /// Revision 2026-07-28.
    Stateless,
}

/// Which submitted plans need an approval as a whole. An amendment always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanApprovals {
    /// Plans with a step to a tool whose rule requires an approval that a plan's approval covers.
    #[default]
    WhereNeeded,
    /// All plans.
    Always,
}

/// How clients learn that a tool needs an action proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProposalHint {
    /// Not from the list of tools.
    Nothing,
    /// The input schema of such a tool has the member `__pic`.
    #[default]
    Schema,
    /// The gateway has a tool of its own, `countersign.propose`, for clients that send no member beside the server's schema.
    Tool,
    /// Both.
    Both,
}

impl ProposalHint {
    pub(crate) const fn in_schema(self) -> bool {
        matches!(self, Self::Schema | Self::Both)
    }

    pub(crate) const fn as_tool(self) -> bool {
        matches!(self, Self::Tool | Self::Both)
    }
}

impl GatewaySettings {
    /// Returns the longest message of a client, in bytes.
    #[must_use]
    pub const fn longest_client_line(&self) -> usize {
        self.limits.client_line
    }

    /// Returns the longest line of the server, in bytes.
    #[must_use]
    pub const fn longest_server_line(&self) -> usize {
        self.limits.server_line
    }

    /// Creates settings for one server: no further methods, default limits, and ten minutes to approve a call.
    #[must_use]
    pub const fn new(server: ServerName) -> Self {
        Self {
            server,
            client_methods: BTreeSet::new(),
            server_methods: BTreeSet::new(),
            limits: GatewayLimits::DEFAULT,
            approval_ttl: Millis::from_secs(600),
            hold: Millis::ZERO,
            plans: None,
            proposals: ProposalHint::Schema,
            refused_messages: RefusalRate::MESSAGES,
            client_era: Era::Auto,
            server_era: Era::Auto,
            shown: None,
        }
    }

    /// Allows one more method from the client to the server, by its exact name. Its messages are not checked.
    ///
    /// # Errors
    /// [`SettingsError::Method`] if `method` is not a valid method name.
    pub fn allow_client_method(mut self, method: &str) -> Result<Self, SettingsError> {
        self.client_methods.insert(check_method(method)?);
        Ok(self)
    }

    /// Allows one more method from the server to the client, by its exact name. Its messages are not checked.
    ///
    /// # Errors
    /// [`SettingsError::Method`] if `method` is not a valid method name.
    pub fn allow_server_method(mut self, method: &str) -> Result<Self, SettingsError> {
        self.server_methods.insert(check_method(method)?);
        Ok(self)
    }

    /// Sets the era towards the client. [`Era::Stateless`] has no effect where the server may ask the client, or forms are shown: the
    /// gateway then speaks to no client of either era.
    #[must_use]
    pub const fn client_era(mut self, era: Era) -> Self {
        self.client_era = era;
        self
    }

    /// Sets the era towards the server. With [`Era::Auto`], the server gets `initialize`, and `server/discover` if it refuses that.
    #[must_use]
    pub const fn server_era(mut self, era: Era) -> Self {
        self.server_era = era;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub const fn limits(mut self, limits: GatewayLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long a call that needs an approval may wait for it.
    ///
    /// # Errors
    /// [`SettingsError::Limit`] for zero or above 30 days.
    pub fn approval_ttl(mut self, ttl: Millis) -> Result<Self, SettingsError> {
        self.approval_ttl = within_time("the time to approve, in milliseconds,", ttl, MAX_TTL)?;
        Ok(self)
    }

    /// Sets how long a call that needs an approval is held for it: its request stays open, and the client gets a progress
    /// notification every 15 s. By default, and for zero, the call is refused at once.
    ///
    /// # Errors
    /// [`SettingsError::Limit`] above one hour.
    pub fn hold(mut self, time: Millis) -> Result<Self, SettingsError> {
        if time > MAX_HOLD {
            let what = "the time to hold a call, in milliseconds,";
            return Err(SettingsError::Limit { what, max: MAX_HOLD.as_millis() });
        }
        self.hold = time;
        Ok(self)
    }

    /// Sets the rate up to which refused messages other than calls are recorded individually: by default 50, then 5 a second
    /// ([`RefusalRate::MESSAGES`]). All others are counted in one entry at least every 10 s.
    #[must_use]
    pub const fn refused_messages(mut self, rate: RefusalRate) -> Self {
        self.refused_messages = rate;
        self
    }

    /// Sets how clients learn that a tool needs an action proposal: by default from the tool's input schema. It has no effect
    /// at a gate that takes no proposals.
    #[must_use]
    pub const fn proposals(mut self, hint: ProposalHint) -> Self {
        self.proposals = hint;
        self
    }

    /// Lets the client submit plans through the gateway's own tool, `countersign.submit_plan`.
    ///
    /// # Errors
    /// [`SettingsError::Server`] if the server is called `countersign`: an approver could not distinguish a plan from a call.
    pub fn plans(mut self, approvals: PlanApprovals) -> Result<Self, SettingsError> {
        if self.server.as_str() == PLAN_TOOL.0 {
            return Err(SettingsError::Server);
        }
        self.plans = Some(approvals);
        Ok(self)
    }

    /// Makes the gateway one of several of a session ([`Gateways`](crate::Gateways)). The client sees the tool `read` of the
    /// server `files` as `files__read`; a name above 64 characters has a short form.
    ///
    /// # Errors
    /// [`SettingsError::Prefix`] if the server's name is above 32 characters, contains `__` or ends with `_`, and
    /// [`SettingsError::Several`] for settings that only a gateway on its own can have: further methods of the client, and tools of
    /// the gateway's own.
    pub fn among_several(mut self) -> Result<Self, SettingsError> {
        self.shown = Some(ShownNames::new(&self.server)?);
        self.unfit_for_several().map_or(Ok(self), |unfit| Err(SettingsError::Several(unfit)))
    }

    /// Returns why the gateway cannot be one of several.
    pub(crate) fn unfit_for_several(&self) -> Option<&'static str> {
        if self.shown.is_none() {
            Some("has settings of a gateway on its own")
        } else if !self.client_methods.is_empty() {
            Some("allows further methods of the client, which name no server")
        } else if self.plans.is_some() || self.proposals.as_tool() {
            Some("has tools of its own")
        } else {
            None
        }
    }

    /// The server's name in the registry.
    #[must_use]
    pub const fn server(&self) -> &ServerName {
        &self.server
    }
}

fn check_method(method: &str) -> Result<Box<str>, SettingsError> {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/' | b'$');
    let fits = !method.is_empty() && method.len() <= MAX_METHOD_BYTES && method.bytes().all(known);
    if fits { Ok(method.into()) } else { Err(SettingsError::Method) }
}

/// Bounds on the data that a peer can make the gateway hold, and on its waits.
///
/// While a line is read, the gateway may hold about 25 bytes for each byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    pub(crate) client_line: usize,
    pub(crate) server_line: usize,
    pub(crate) outstanding: usize,
    pub(crate) list_wait: Millis,
    pub(crate) drain: Millis,
}

/// 4 MiB for a client's line (four times the arguments' limit), 16 MiB for a server's (images come as base64), 1,024
/// outstanding requests each way, 10 s for the server to list its tools, 10 s to deliver answers after the client left.
impl Default for GatewayLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl GatewayLimits {
    const DEFAULT: Self = Self {
        client_line: 4 << 20,
        server_line: 16 << 20,
        outstanding: 1_024,
        list_wait: Millis::from_secs(10),
        drain: Millis::from_secs(10),
    };

    /// Sets the maximum length of a line from the client, in bytes.
    ///
    /// # Errors
    /// [`SettingsError::Limit`] for 0 or above 256 MiB.
    pub fn client_line(self, bytes: usize) -> Result<Self, SettingsError> {
        Ok(Self { client_line: within("the client line limit", bytes, MAX_LINE)?, ..self })
    }

    /// Sets the maximum length of a line from the server, in bytes.
    ///
    /// # Errors
    /// [`SettingsError::Limit`] for 0 or above 256 MiB.
    pub fn server_line(self, bytes: usize) -> Result<Self, SettingsError> {
        Ok(Self { server_line: within("the server line limit", bytes, MAX_LINE)?, ..self })
    }

    /// Sets the maximum number of outstanding requests, each way.
    ///
    /// # Errors
    /// [`SettingsError::Limit`] for 0 or above 65,536.
    pub fn outstanding(self, requests: usize) -> Result<Self, SettingsError> {
        Ok(Self {
            outstanding: within("the limit of outstanding requests", requests, MAX_OUTSTANDING)?,
            ..self
        })
    }

    /// Sets how long a call waits for the server to list its tools, all pages together.
    ///
    /// # Errors
    /// [`SettingsError::Limit`] for zero or above one hour.
    pub fn list_wait(self, wait: Millis) -> Result<Self, SettingsError> {
        Ok(Self {
            list_wait: within_time("the wait for the tool list, in milliseconds,", wait, MAX_WAIT)?,
            ..self
        })
    }

    /// Sets how long answers are still delivered after the client has ended its input.
    ///
    /// # Errors
    /// [`SettingsError::Limit`] for zero or above one hour.
    pub fn drain(self, wait: Millis) -> Result<Self, SettingsError> {
        Ok(Self { drain: within_time("the drain time, in milliseconds,", wait, MAX_WAIT)?, ..self })
    }
}

fn within(what: &'static str, value: usize, max: usize) -> Result<usize, SettingsError> {
    if (1..=max).contains(&value) {
        return Ok(value);
    }
    Err(SettingsError::Limit { what, max: u64::try_from(max).unwrap_or(u64::MAX) })
}

fn within_time(what: &'static str, wait: Millis, max: Millis) -> Result<Millis, SettingsError> {
    if !wait.is_zero() && wait <= max {
        return Ok(wait);
    }
    Err(SettingsError::Limit { what, max: max.as_millis() })
}
