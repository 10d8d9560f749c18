//! Reads: requests for a resource, a prompt or a completion, which are decided and recorded like calls.
//!
//! The registry lists a read as a tool of its server, under the name of the method (`resources/read`) or that name, a slash and
//! a word of the operator's (`resources/read/manuals`). The arguments are the request's params without metadata. A session
//! that lists none of a method does not have it.
//!
//! Source: MCP 2025-11-25, *Resources*, *Prompts*, *Completion*.

use std::collections::BTreeSet;

use countersign_canonical_json::{Canonical, Kind, Limits, Recipe, ValueRef, read, write_string};
use countersign_core::{ServerName, ToolId};
use countersign_registry::{ArgPlace, ToolRules};
use countersign_tool_gate::ToolGate;

use crate::compose::Object;
use crate::cut::replaced;
use crate::era_2025::{CallMeta, META};
use crate::shown_names::ShownNames;

/// Place of a prompt's arguments, which its listing does not state.
const PROMPT_ARGUMENTS: &str = "/arguments";

/// A method that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMethod {
    Resource,
    Prompt,
    Completion,
}

/// A method that lists what can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadList {
    Resources,
    Templates,
    Prompts,
}

/// A server, and the gate of the session whose entries count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadScope<'a> {
    pub(crate) gate: &'a ToolGate,
    pub(crate) server: &'a ServerName,
}

/// A read as the client sent it. Its shape is valid, its content unchecked.
#[derive(Debug)]
pub(crate) struct ReadParams<'a> {
    pub(crate) args: Canonical,
    pub(crate) meta: CallMeta<'a>,
}

impl ReadMethod {
    const ALL: [Self; 3] = [Self::Resource, Self::Prompt, Self::Completion];

    pub(crate) fn of(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|read| read.as_str() == method)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Resource => "resources/read",
            Self::Prompt => "prompts/get",
            Self::Completion => "completion/complete",
        }
    }

    /// The members of its params, and their kinds.
    const fn members(self) -> &'static [(&'static str, Kind)] {
        match self {
            Self::Resource => &[("uri", Kind::String)],
            Self::Prompt => &[("name", Kind::String), ("arguments", Kind::Object)],
            Self::Completion => {
                &[("ref", Kind::Object), ("argument", Kind::Object), ("context", Kind::Object)]
            }
        }
    }

    /// Reads the params of a request. Returns `None` if they have another shape, or name a prompt of another server.
    pub(crate) fn read<'a>(
        self,
        params: Option<ValueRef<'a>>,
        shown: Option<&ShownNames>,
    ) -> Option<ReadParams<'a>> {
        let params = params?;
        let fits = |(name, value): (&str, ValueRef<'_>)| {
            name == META || self.members().iter().any(|(known, kind)| *known == name && value.kind() == *kind)
        };
        let (first, _) = self.members().first()?;
        if params.get(first).is_none() || !params.members().all(fits) {
            return None;
        }
        let text = params.canonical_text_of(|name| name != META);
        let args = match shown {
            Some(shown) => canonical(&self.with_plain_name(&text, params, shown)?)?,
            None => canonical(&text)?,
        };
        Some(ReadParams { args, meta: CallMeta::read(params)? })
    }

    /// Puts the server's name of a prompt in place of the one that a client of several servers sees.
    fn with_plain_name(self, args: &str, params: ValueRef<'_>, shown: &ShownNames) -> Option<String> {
        let Some(path) = self.prompt_place(params) else { return Some(args.to_owned()) };
        let name = path.iter().try_fold(params, |value, name| value.get(name))?.as_str()?;
        let mut plain = String::new();
        write_string(&mut plain, shown.plain_whole(name)?);
        String::from_utf8(replaced(args.as_bytes(), path, &plain)).ok()
    }

    /// The place of a prompt's name in the params.
    fn prompt_place(self, params: ValueRef<'_>) -> Option<&'static [&'static str]> {
        match self {
            Self::Resource => None,
            Self::Prompt => Some(&["name"]),
            Self::Completion => params.get("ref")?.get("name").map(|_| &["ref", "name"] as _),
        }
    }

    /// The name of the prompt that a request is about, as the client sees it.
    pub(crate) fn prompt_of<'a>(self, params: ValueRef<'a>) -> Option<&'a str> {
        self.prompt_place(params)?.iter().try_fold(params, |value, name| value.get(name))?.as_str()
    }

    /// The session's entries of a server for this method.
    fn entries(self, of: ReadScope<'_>) -> Vec<ToolId> {
        let contract = of.gate.contract();
        let ours = contract.tools().iter().filter(|tool| tool.server() == of.server);
        ours.filter(|tool| self.names(tool.name().as_str())).cloned().collect()
    }

    /// Returns whether the session has an entry of a server for this method.
    pub(crate) fn is_listed(self, of: ReadScope<'_>) -> bool {
        !self.entries(of).is_empty()
    }

    /// The name under which a read is decided: of the first entry that allows these arguments, or else of the first entry, which the
    /// gate then refuses.
    pub(crate) fn name_of(self, of: ReadScope<'_>, args: &Canonical) -> String {
        let entries = self.entries(of);
        let entry = entries.iter().find(|entry| of.allows(entry, args)).or(entries.first());
        entry.map_or(self.as_str(), |entry| entry.name().as_str()).to_owned()
    }

    /// Returns whether an entry of a server allows these params.
    pub(crate) fn is_allowed(self, of: ReadScope<'_>, params: ValueRef<'_>) -> bool {
        let args = canonical(&params.canonical_text_of(|name| name != META));
        args.is_some_and(|args| self.entries(of).iter().any(|entry| of.allows(entry, &args)))
    }

    /// Returns whether a name is that of an entry for this method.
    fn names(self, name: &str) -> bool {
        let rest = name.strip_prefix(self.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl ReadList {
    const ALL: [Self; 3] = [Self::Resources, Self::Templates, Self::Prompts];

    pub(crate) fn of(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.as_str() == method)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of its result that has the items.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The method that reads an item.
    pub(crate) const fn read(self) -> ReadMethod {
        match self {
            Self::Resources | Self::Templates => ReadMethod::Resource,
            Self::Prompts => ReadMethod::Prompt,
        }
    }

    /// The positions of the items that the session can read; `None` if the result is no such list.
    pub(crate) fn review(self, of: ReadScope<'_>, result: ValueRef<'_>) -> Option<Vec<usize>> {
        let items = result.get(self.member()).filter(|items| items.kind() == Kind::Array)?;
        let entries = self.read().entries(of);
        let is_shown = |item| entries.iter().any(|entry| self.shows(of, entry, item) == Some(true));
        Some(items.elements().enumerate().filter(|(_, item)| is_shown(*item)).map(|(at, _)| at).collect())
    }

    /// Returns whether an entry allows an item: the URI of a resource, the text of a template, the name of a prompt.
    fn shows(self, of: ReadScope<'_>, entry: &ToolId, item: ValueRef<'_>) -> Option<bool> {
        let (member, argument) = match self {
            Self::Resources => ("uri", "uri"),
            Self::Templates => ("uriTemplate", "uri"),
            Self::Prompts => ("name", "name"),
        };
        let text = item.get(member)?.as_str()?;
        let args = || Object::new().string(argument, text);
        if of.allows(entry, &canonical(&args().finish())?) {
            return Some(true);
        }
        // A prompt may need arguments, which are not known here.
        let open = [ArgPlace::new(PROMPT_ARGUMENTS).ok()?];
        let with = canonical(&args().raw("arguments", "{}").finish()).filter(|_| self == Self::Prompts)?;
        Some(of.permits(entry, |rules| rules.check_planned_args(&with, &open).is_ok()))
    }
}

impl<'a> ReadScope<'a> {
    fn allows(self, entry: &ToolId, args: &Canonical) -> bool {
        self.permits(entry, |rules| rules.check_args(args).is_ok())
    }

    fn permits(self, entry: &ToolId, fits: impl FnOnce(&ToolRules) -> bool) -> bool {
        let view = self.gate.registry().view();
        self.gate.contract().disclosed(&view, entry).is_some_and(fits)
    }
}

/// The methods that the client may use: those of the configuration, and those of the session's reads.
pub(crate) fn client_methods(of: ReadScope<'_>, configured: &BTreeSet<Box<str>>) -> BTreeSet<Box<str>> {
    let mut methods = configured.clone();
    let reads = ReadMethod::ALL.into_iter().filter(|read| read.is_listed(of)).map(ReadMethod::as_str);
    let lists = ReadList::ALL.into_iter().filter(|list| list.read().is_listed(of)).map(ReadList::as_str);
    methods.extend(reads.chain(lists).map(Into::into));
    methods
}

fn canonical(text: &str) -> Option<Canonical> {
    read(text.as_bytes(), Recipe::Jcs1, &Limits::hard_caps()).ok()
}
