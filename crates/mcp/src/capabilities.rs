//! Narrows capabilities to the ones that pass: neither side is offered a capability that the gateway would then refuse.
//!
//! Source: MCP 2025-11-25, *Schema Reference*: `ServerCapabilities`, `ClientCapabilities`. That schema is open. Capabilities
//! that it does not name (`experimental`, extensions) need messages of their own and are left out. Of a known capability,
//! only its presence or its boolean value passes, so nothing else can be hidden inside.

use std::collections::BTreeSet;

use countersign_canonical_json::{Kind, ValueRef};

use crate::compose::Object;

/// A capability and the methods that it needs.
struct Capability {
    name: &'static str,
    /// One of these must be allowed. An empty list means that the capability needs only messages that always pass.
    needs: &'static [&'static str],
    /// Its known members. A member with a method is kept if that method is allowed.
    members: &'static [(&'static str, Passes, Option<&'static str>)],
}

/// The part of a member's value that passes.
#[derive(Clone, Copy, Debug)]
enum Passes {
    /// A boolean.
    Flag,
    /// The presence of an object.
    Presence,
    /// The requests among these that may be tasks.
    Requests(&'static [(&'static str, &'static str)]),
}

use Passes::{Flag, Presence, Requests};

const TASKS: &[&str] = &["tasks/get", "tasks/list", "tasks/result", "tasks/cancel"];

/// Name of the extension for tasks of the stateless era (SEP-2663).
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Requests to a client that may be tasks.
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

/// Returns a server's capabilities as the client receives them. `also` has the client's further methods.
/// With `tasks`, the extension for tasks passes.
pub(crate) fn of_server(capabilities: ValueRef<'_>, also: &BTreeSet<Box<str>>, tasks: bool) -> String {
    let kept = narrowed(capabilities, &OF_SERVERS, also);
    let has_tasks =
        capabilities.get("extensions").and_then(|it| it.get(TASKS_EXTENSION)).is_some_and(is_object);
    let kept = if has_tasks && tasks {
        kept.raw("extensions", &Object::new().raw(TASKS_EXTENSION, "{}").finish())
    } else {
        kept
    };
    kept.finish()
}

/// Returns a client's capabilities as the server receives them. `also` has the server's further methods.
pub(crate) fn of_client(capabilities: ValueRef<'_>, also: &BTreeSet<Box<str>>) -> String {
    narrowed(capabilities, &OF_CLIENTS, also).finish()
}

/// Narrows capabilities to the known ones. A value that is not an object becomes an empty object.
fn narrowed(capabilities: ValueRef<'_>, known: &[Capability], also: &BTreeSet<Box<str>>) -> Object {
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
    kept
}

impl Passes {
    /// The part of `value` that passes; `None` if it is of another kind.
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
