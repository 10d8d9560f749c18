use std::collections::BTreeSet;

use countersign_core::{ImpactClass, KeyId, Principal, ServerName};

/// Scope of a key or an endorsed digest. An absent part allows everything; a stated one allows only its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyScope {
    tools: Option<BTreeSet<Box<str>>>,
    servers: Option<BTreeSet<ServerName>>,
    impacts: Option<BTreeSet<ImpactClass>>,
    principals: Option<BTreeSet<Principal>>,
}

/// A stated scope is empty, repeats a member, or has one that can never match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeError;

impl KeyScope {
    pub(crate) fn new(
        tools: Option<Vec<String>>,
        servers: Option<Vec<ServerName>>,
        impacts: Option<Vec<ImpactClass>>,
        principals: Option<Vec<Principal>>,
    ) -> Result<Self, ScopeError> {
        let tools = tools.map(|tools| distinct(tools.into_iter().map(String::into_boxed_str))).transpose()?;
        if tools.iter().flatten().any(|tool| !is_tool(tool)) {
            return Err(ScopeError);
        }
        Ok(Self {
            tools,
            servers: servers.map(distinct).transpose()?,
            impacts: impacts.map(distinct).transpose()?,
            principals: principals.map(distinct).transpose()?,
        })
    }

    /// Returns `true` if it allows a tool, by exact name.
    #[must_use]
    pub fn allows_tool(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.contains(tool))
    }

    /// Returns `true` if it allows a server. A scope that states servers refuses an unknown server.
    #[must_use]
    pub fn allows_server(&self, server: Option<&ServerName>) -> bool {
        match (&self.servers, server) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(allowed), Some(server)) => allowed.contains(server),
        }
    }

    /// Returns `true` if it allows an impact.
    #[must_use]
    pub fn allows_impact(&self, impact: ImpactClass) -> bool {
        self.impacts.as_ref().is_none_or(|impacts| impacts.contains(&impact))
    }

    /// Returns `true` if it allows a principal. A scope that states principals refuses an unknown principal.
    #[must_use]
    pub fn allows_principal(&self, principal: Option<&Principal>) -> bool {
        match (&self.principals, principal) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(allowed), Some(principal)) => allowed.contains(principal),
        }
    }

    /// Tools, if stated.
    #[must_use]
    pub fn tools(&self) -> Option<impl ExactSizeIterator<Item = &str>> {
        self.tools.as_ref().map(|tools| tools.iter().map(|tool| &**tool))
    }

    /// Servers, if stated.
    #[must_use]
    pub fn servers(&self) -> Option<impl ExactSizeIterator<Item = &ServerName>> {
        self.servers.as_ref().map(|servers| servers.iter())
    }

    /// Impacts, if stated.
    #[must_use]
    pub fn impacts(&self) -> Option<impl ExactSizeIterator<Item = ImpactClass>> {
        self.impacts.as_ref().map(|impacts| impacts.iter().copied())
    }

    /// Principals, if stated.
    #[must_use]
    pub fn principals(&self) -> Option<impl ExactSizeIterator<Item = &Principal>> {
        self.principals.as_ref().map(|principals| principals.iter())
    }
}

/// why: PIC/1.0 allows any text as a tool's name, so the grammar of ids applies. An asterisk would look like a
/// pattern and match nothing.
fn is_tool(name: &str) -> bool {
    KeyId::new(name).is_ok() && !name.contains('*')
}

fn distinct<T: Ord>(members: impl IntoIterator<Item = T>) -> Result<BTreeSet<T>, ScopeError> {
    let mut set = BTreeSet::new();
    for member in members {
        if !set.insert(member) {
            return Err(ScopeError);
        }
    }
    if set.is_empty() { Err(ScopeError) } else { Ok(set) }
}
