//! Capabilities narrowed to what passes: neither side is offered what the gateway would then refuse.
//!
//! Source: MCP 2025-11-25, *Schema Reference*: `ServerCapabilities`, `ClientCapabilities`. That schema is open; capabilities
//! that it does not name (`experimental`, extensions) need messages of their own and are left out. Of a known one only its
//! presence or its truth value passes, so that nothing else can travel inside.

use std::collections::BTreeSet;

use countersign_canonical_json::{Kind, ValueRef};

use crate::compose::Object;

/// A capability and what it takes to be of use.
struct Capability {
    name: &'static str,
    /// One of these has to be allowed. A capability without any works by what always passes.
    needs: &'static [&'static str],
    /// Its known members. One with a method is kept where that method is allowed.
    members: &'static [(&'static str, Passes, Option<&'static str>)],
}

/// What passes of a member's value.
#[derive(Clone, Copy, Debug)]
enum Passes {
    /// A truth value.
    Flag,
    /// That there is an object.
    Presence,
    /// Which of these requests may be tasks.
    Requests(&'static [(&'static str, &'static str)]),
}

use Passes::{Flag, Presence, Requests};

const TASKS: &[&str] = &["tasks/get", "tasks/list", "tasks/result", "tasks/cancel"];

/// The requests to a client that may be tasks.
const TASK_REQUESTS: &[(&str, &str)] = &[("elicitation", "create"), ("sampling", "createMessage")];

const OF_SERVERS: [Capability; 6] = [
    Capability { name: "completions", needs: &["completion/complete"], members: &[] },
    Capability { name: "logging", needs: &[], members: &[] },
    Capability {
        name: "prompts",
        needs: &["prompts/list", "prompts/get"],
        members: &[("listChanged", Flag, None)],
    },
    Capability {
        name: "resources",
        needs: &["resources/list", "resources/read", "resources/templates/list"],
        members: &[("listChanged", Flag, None), ("subscribe", Flag, Some("resources/subscribe"))],
    },
    // Without `requests`: a call that asks for a task is refused.
    Capability {
        name: "tasks",
        needs: TASKS,
        members: &[("cancel", Presence, Some("tasks/cancel")), ("list", Presence, Some("tasks/list"))],
    },
    Capability { name: "tools", needs: &[], members: &[("listChanged", Flag, None)] },
];

const OF_CLIENTS: [Capability; 4] = [
    Capability {
        name: "elicitation",
        needs: &["elicitation/create"],
        members: &[("form", Presence, None), ("url", Presence, None)],
    },
    Capability { name: "roots", needs: &[], members: &[("listChanged", Flag, None)] },
    Capability {
        name: "sampling",
        needs: &["sampling/createMessage"],
        members: &[("context", Presence, None), ("tools", Presence, None)],
    },
    Capability {
        name: "tasks",
        needs: TASKS,
        members: &[
            ("cancel", Presence, Some("tasks/cancel")),
            ("list", Presence, Some("tasks/list")),
            ("requests", Requests(TASK_REQUESTS), Some("tasks/result")),
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
        for (member, passes, needs) in *members {
            if needs.is_none_or(|method| also.contains(method))
                && let Some(json) = value.get(member).and_then(|value| passes.of(value))
            {
                inner = inner.raw(member, &json);
            }
        }
        kept = kept.raw(name, &inner.finish());
    }
    kept.finish()
}

impl Passes {
    /// The value as it passes; `None` if it is of another kind.
    fn of(self, value: ValueRef<'_>) -> Option<String> {
        match self {
            Self::Flag => value.as_bool().map(|flag| flag.to_string()),
            Self::Presence => is_object(value).then(|| String::from("{}")),
            Self::Requests(requests) => is_object(value).then(|| {
                let mut kept = Object::new();
                for (of, request) in requests {
                    let request_in = |of: ValueRef<'_>| of.get(request).is_some_and(is_object);
                    if value.get(of).is_some_and(request_in) {
                        kept = kept.raw(of, &Object::new().raw(request, "{}").finish());
                    }
                }
                kept.finish()
            }),
        }
    }
}

fn is_object(value: ValueRef<'_>) -> bool {
    value.kind() == Kind::Object
}
