use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use countersign_core::{AgentId, ServerName, ToolId, lookalike_keys};

use crate::agent_entry::AgentEntry;
use crate::content::{ContentError, ContentProblem};
use crate::entry_index::IdHashes;
use crate::tool_entry::ToolEntry;

/// Detects names that a person could confuse ([`lookalike_keys`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LookAlikes {
    seen: BTreeMap<(usize, String), String>,
}

impl LookAlikes {
    const fn none() -> Self {
        Self { seen: BTreeMap::new() }
    }

    /// Adds a name and returns `None`, or returns the earlier name that looks like it. Adding a name twice is no
    /// clash.
    pub(crate) fn add(&mut self, name: &str) -> Option<&str> {
        let keys: Vec<_> = lookalike_keys(name).into_iter().enumerate().collect();
        let other = |key: &&(usize, String)| self.seen.get(*key).is_some_and(|first| first != name);
        if let Some(clash) = keys.iter().find(other) {
            return self.seen.get(clash).map(String::as_str);
        }
        self.seen.extend(keys.into_iter().map(|key| (key, name.to_owned())));
        None
    }
}

/// Detects look-alikes in a registry: agents among agents, servers among servers, tools among the tools of one
/// server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Names {
    agents: LookAlikes,
    servers: LookAlikes,
    tools: BTreeMap<ServerName, LookAlikes>,
}

impl Names {
    pub(crate) const fn none() -> Self {
        Self { agents: LookAlikes::none(), servers: LookAlikes::none(), tools: BTreeMap::new() }
    }

    /// Refuses look-alikes among the entries of a registry, which are in the order of their ids.
    ///
    /// why: keeping the keys of every name takes as long as reading the registry. Equal keys have equal hashes, and only a
    /// registry with equal hashes needs a closer look.
    pub(crate) fn check(agents: &[AgentEntry], tools: &[ToolEntry]) -> Result<(), ContentError> {
        let hashes = IdHashes::default();
        let mut servers: Vec<&str> = tools.iter().map(|tool| tool.tool().server().as_str()).collect();
        servers.dedup();
        let of_tools = tools.iter().map(|tool| (tool.tool().server().as_str(), tool.tool().name().as_str()));
        if are_distinct(&hashes, agents.iter().map(|agent| ("", agent.agent().as_str())))
            && are_distinct(&hashes, servers.into_iter().map(|server| ("", server)))
            && are_distinct(&hashes, of_tools)
        {
            return Ok(());
        }
        let mut names = Self::none();
        agents.iter().try_for_each(|agent| names.add_agent(agent.agent()))?;
        tools.iter().try_for_each(|tool| names.add_tool(tool.tool()))
    }

    pub(crate) fn add_agent(&mut self, agent: &AgentId) -> Result<(), ContentError> {
        refuse_clash("/agents", &mut self.agents, agent.as_str())
    }

    pub(crate) fn add_tool(&mut self, tool: &ToolId) -> Result<(), ContentError> {
        refuse_clash("/tools", &mut self.servers, tool.server().as_str())?;
        let tools = self.tools.entry(tool.server().clone()).or_default();
        refuse_clash("/tools", tools, tool.name().as_str())
    }
}

/// Returns `false` if two of the names, each with the place in which it has to be unique, may look alike.
fn are_distinct<'a>(hashes: &IdHashes, names: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let keys = names.map(|(place, name)| lookalike_keys(name).map(|key| hashes.hash_one((place, key))));
    let (mut firsts, mut seconds): (Vec<u64>, Vec<u64>) = keys.map(|[first, second]| (first, second)).unzip();
    [&mut firsts, &mut seconds].into_iter().all(|keys| {
        keys.sort_unstable();
        keys.windows(2).all(|pair| matches!(pair, [one, other] if one != other))
    })
}

fn refuse_clash(place: &str, seen: &mut LookAlikes, name: &str) -> Result<(), ContentError> {
    let Some(other) = seen.add(name) else {
        return Ok(());
    };
    let problem = ContentProblem::LookAlike { name: name.to_owned(), other: other.to_owned() };
    Err(ContentError::new(place, problem))
}
