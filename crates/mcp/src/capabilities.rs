//! Capabilities narrowed to what passes: neither side is offered what the gateway would then refuse.
//!
//! Source: MCP 2025-11-25, *Schema Reference*: `ServerCapabilities`, `ClientCapabilities`. That schema is open; capabilities
//! that it does not name (`experimental`, extensions) need messages of their own and are left out.

use std::collections::BTreeSet;

use countersign_canonical_json::ValueRef;

use crate::compose::Object;

/// A capability and what it takes to be of use.
struct Capability {
    name: &'static str,
    /// One of these has to be allowed. A capability without any works by what always passes.
    needs: &'static [&'static str],
    /// Its known members. One with a method is kept where that method is allowed.
    members: &'static [(&'static str, Option<&'static str>)],
}

const TASKS: &[&str] = &["tasks/get", "tasks/list", "tasks/result", "tasks/cancel"];

const OF_SERVERS: [Capability; 6] = [
    Capability { name: "completions", needs: &["completion/complete"], members: &[] },
    Capability { name: "logging", needs: &[], members: &[] },
    Capability {
        name: "prompts",
        needs: &["prompts/list", "prompts/get"],
        members: &[("listChanged", None)],
    },
    Capability {
        name: "resources",
        needs: &["resources/list", "resources/read", "resources/templates/list"],
        members: &[("listChanged", None), ("subscribe", Some("resources/subscribe"))],
    },
    // Without `requests`: a call that asks for a task is refused.
    Capability {
        name: "tasks",
        needs: TASKS,
        members: &[("cancel", Some("tasks/cancel")), ("list", Some("tasks/list"))],
    },
    Capability { name: "tools", needs: &[], members: &[("listChanged", None)] },
];

const OF_CLIENTS: [Capability; 4] = [
    Capability {
        name: "elicitation",
        needs: &["elicitation/create"],
        members: &[("form", None), ("url", None)],
    },
    Capability { name: "roots", needs: &[], members: &[("listChanged", None)] },
    Capability {
        name: "sampling",
        needs: &["sampling/createMessage"],
        members: &[("context", None), ("tools", None)],
    },
    Capability {
        name: "tasks",
        needs: TASKS,
        members: &[
            ("cancel", Some("tasks/cancel")),
            ("list", Some("tasks/list")),
            ("requests", Some("tasks/result")),
        ],
    },
];

/// Returns a server's capabilities as the client gets them. `also` has the client's further methods.
pub(crate) fn of_server(capabilities: ValueRef<'_>, also: &BTreeSet<Box<str>>) -> String {
    narrowed(capabilities, &OF_SERVERS, also)
}

/// Returns a client's capabilities as the server gets them. `also` has the server's further methods.
pub(crate) fn of_client(capabilities: ValueRef<'_>, also: &BTreeSet<Box<str>>) -> String {
    narrowed(capabilities, &OF_CLIENTS, also)
}

/// What is no object has no members, and becomes one that has none.
fn narrowed(capabilities: ValueRef<'_>, known: &[Capability], also: &BTreeSet<Box<str>>) -> String {
    let mut kept = Object::new();
    for Capability { name, needs, members } in known {
        let is_of_use = needs.is_empty() || needs.iter().any(|method| also.contains(*method));
        let Some(value) = capabilities.get(name).filter(|_| is_of_use) else {
            continue;
        };
        let mut inner = Object::new();
        for (member, needs) in *members {
            if let Some(value) = value.get(member)
                && needs.is_none_or(|method| also.contains(method))
            {
                inner = inner.value(member, value);
            }
        }
        kept = kept.raw(name, &inner.finish());
    }
    kept.finish()
}
