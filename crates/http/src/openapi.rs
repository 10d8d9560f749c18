//! The OpenAPI document of the service.

use serde_json::{Map, Value, json};

/// One operation: method, path, duties that allow it, summary, body schema, success status and answer schema.
struct Operation {
    method: &'static str,
    path: &'static str,
    duties: &'static [&'static str],
    summary: &'static str,
    body: Option<&'static str>,
    status: u16,
    answer: &'static str,
}

const fn read(
    path: &'static str,
    duties: &'static [&'static str],
    summary: &'static str,
    answer: &'static str,
) -> Operation {
    Operation { method: "get", path, duties, summary, body: None, status: 200, answer }
}

const fn write(
    path: &'static str,
    duties: &'static [&'static str],
    summary: &'static str,
    body: &'static str,
    answer: &'static str,
) -> Operation {
    Operation { method: "post", path, duties, summary, body: Some(body), status: 200, answer }
}

const OPERATIONS: &[Operation] = &[
    Operation {
        status: 201,
        ..write("/v1/sessions", &["check"], "Opens a session of an agent", "OpenSession", "Session")
    },
    Operation { method: "delete", ..read("/v1/sessions/{id}", &["check"], "Ends a session", "EndedSession") },
    write("/v1/check", &["check"], "Decides one tool call", "Check", "Decision"),
    write("/v1/outcome", &["check"], "Records the outcome of an accepted call", "ReportOutcome", "Outcome"),
    write("/v1/observe", &["check"], "Counts a call that a framework refused itself", "Observe", "Observed"),
    read("/v1/questions", &["answer", "read"], "Lists the questions that wait", "Questions"),
    read("/v1/questions/{id}", &["answer", "read", "check"], "Shows one question", "AnyQuestion"),
    write("/v1/questions/{id}/answer", &["answer"], "Answers a question", "GiveAnswer", "Answer"),
    Operation {
        status: 201,
        ..write(
            "/v1/questions/{id}/grant",
            &["answer"],
            "Grants several calls like one",
            "GiveGrant",
            "GivenGrant",
        )
    },
    read("/v1/grants", &["answer", "read"], "Lists the grants that have not expired", "Grants"),
    Operation { method: "delete", ..read("/v1/grants/{id}", &["answer"], "Revokes a grant", "RevokedGrant") },
    read("/v1/registry", &["read"], "The state of the registry", "Registry"),
    read("/v1/receipts/{id}", &["read"], "The receipt of an entry of the record", "Receipt"),
    read("/metrics", &["read"], "The metrics in Prometheus' text format", "Metrics"),
    read("/healthz", &[], "Whether the process answers", "Health"),
    read("/readyz", &[], "Whether sessions can be opened", "Ready"),
];

/// Returns the service's OpenAPI 3.1 document. `docs/openapi.json` is this text.
#[must_use]
pub fn openapi() -> String {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let at = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(methods) = at.as_object_mut() {
            methods.insert(operation.method.to_owned(), described(operation));
        }
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Countersign",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Decisions about tool calls, and people's answers. Times are Unix milliseconds.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:7581"}],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "responses": {"Problem": content("An error; nothing was changed", "application/problem+json", "Problem")},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    });
    serde_json::to_string_pretty(&document).map(|text| text + "\n").unwrap_or_default()
}

fn described(operation: &Operation) -> Value {
    let kind = if operation.answer == "Metrics" { "text/plain" } else { "application/json" };
    let mut described = json!({
        "summary": operation.summary,
        "responses": {
            operation.status.to_string(): content(operation.summary, kind, operation.answer),
            "default": {"$ref": "#/components/responses/Problem"},
        },
    });
    let Some(members) = described.as_object_mut() else { return described };
    if !operation.duties.is_empty() {
        let text = format!("Needs the duty {}.", operation.duties.join(" or "));
        members.insert("description".to_owned(), json!(text));
        members.insert("security".to_owned(), json!([{"token": []}]));
    }
    if let Some(body) = operation.body {
        let schema = json!({"application/json": {"schema": reference(body)}});
        members.insert("requestBody".to_owned(), json!({"required": true, "content": schema}));
    }
    if operation.path.contains("{id}") {
        let id = json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}});
        let log = json!({"name": "log", "in": "query", "schema": {"type": "string"}});
        let takes_log = operation.answer == "Receipt";
        members.insert("parameters".to_owned(), if takes_log { json!([id, log]) } else { json!([id]) });
    }
    described
}

fn content(description: &str, kind: &str, schema: &str) -> Value {
    json!({"description": description, "content": {kind: {"schema": reference(schema)}}})
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// An object with exactly these members, of which those without a `?` at the end of their name are required.
fn object(members: &Value) -> Value {
    let mut required = Vec::new();
    let mut properties = Map::new();
    for (name, schema) in members.as_object().into_iter().flatten() {
        let plain = name.trim_end_matches('?');
        if plain == name {
            required.push(plain);
        }
        properties.insert(plain.to_owned(), schema.clone());
    }
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

fn one_of(values: &[&str]) -> Value {
    json!({"enum": values})
}

/// Schemas of all bodies and answers.
fn schemas() -> Value {
    let (text, id) = (json!({"type": "string"}), json!({"type": "string", "minLength": 1, "maxLength": 256}));
    let (whole, time) = (json!({"type": "integer", "minimum": 1}), json!({"type": "integer", "minimum": 0}));
    let digest = json!({"type": "string", "pattern": "^[0-9a-f]{64}$"});
    let maybe = |schema: &Value| json!({"anyOf": [schema, {"type": "null"}]});
    let any = json!({});
    let tool = object(&json!({"server": id, "name": id}));
    let spent = json!({"const": "spent"});
    let (any_object, ids) =
        (json!({"type": "object"}), json!({"type": "array", "items": {"type": "string"}}));
    let states = one_of(&["waiting", "over", "approved", "denied", "used", "decided", "session ended"]);
    json!({
        "OpenSession": object(&json!({
            "agent?": maybe(&id), "session?": maybe(&id), "principal?": maybe(&id), "goal?": maybe(&text),
            "ttl?": maybe(&text), "tools?": maybe(&json!({"type": "array", "items": text})),
            "definitions?": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object"}}},
        })),
        "Session": object(&json!({
            "session": id, "agent": id, "principal": id, "tools": {"type": "array", "items": tool},
            "registry_version": whole, "expires": time, "log": maybe(&text), "goal": maybe(&digest),
        })),
        "EndedSession": object(&json!({"session": id, "ended": {"const": true}})),
        "Check": object(&json!({
            "session": id, "tool": text, "server?": maybe(&text), "args": any, "call_id?": maybe(&id),
            "ask?": maybe(&text), "plan_step?": maybe(&time), "proposal?": any, "approval?": maybe(&text),
        })),
        "Decision": {"oneOf": [reference("Accepted"), reference("Refused")]},
        "Accepted": object(&json!({
            "decision": {"const": "accept"}, "call_id": id, "handle": id, "tool": tool,
            "impact": one_of(&["read", "write", "external", "compute", "money", "privacy", "irreversible"]),
            "plan_step?": whole, "edited_from?": digest, "args_digest": digest, "record": whole, "args": {"type": "object"},
        })),
        "Refused": object(&json!({
            "decision": one_of(&["reject", "needs_approval", "needs_evidence"]), "call_id": text, "code": text,
            "message": text, "retry": one_of(&["never", "after_change", "after_approval"]), "unlock?": text,
            "question?": id, "short_id?": id, "reason?": text, "approval?": spent, "attestation?": spent,
            "args_digest": digest, "record?": whole,
        })),
        "ReportOutcome": object(&json!({
            "session": id, "handle": text, "outcome": one_of(&["returned", "failed", "unknown", "not_run"]),
        })),
        "Outcome": object(&json!({
            "call_id": id, "outcome": one_of(&["returned", "failed", "unknown", "not_run"]),
        })),
        "Observe": object(&json!({"session": id, "call": any})),
        "Observed": object(&json!({
            "observed": one_of(&["disclosed", "undisclosed", "malformed"]), "code": maybe(&text), "record": maybe(&whole),
        })),
        "Questions": object(&json!({"questions": {"type": "array", "items": reference("Question")}})),
        "AnyQuestion": {"oneOf": [reference("Question"), reference("OwnQuestion")]},
        "Question": object(&json!({
            "id": id, "short_id": id, "call_id": id, "state": states, "kind": text, "missing?": any, "impact?": any, "server": id, "tool": id, "args": text,
            "args_digest": digest, "principal": id, "agent": maybe(&id), "session": maybe(&id), "audience": maybe(&id),
            "definition": maybe(&digest), "ask": maybe(&digest), "goal": maybe(&text), "plan_root": maybe(&digest),
            "edited_args?": text, "edited_digest?": digest, "plan?": any_object, "proposal?": any_object, "registry_version": maybe(&whole),
            "approvers?": any_object, "approved_by?": ids,
            "requested": time, "expires": time, "denied_by": maybe(&id), "denied_because": maybe(&text),
        })),
        "OwnQuestion": object(&json!({
            "id": id, "call_id": id, "state": states, "expires": time, "denied_because": maybe(&text),
        })),
        "GiveAnswer": object(&json!({
            "answer": one_of(&["approve", "deny"]), "reason?": maybe(&text), "args?": any_object,
        })),
        "Answer": object(&json!({
            "id": id, "state": one_of(&["approved", "waiting", "denied"]), "by": id, "token_id?": id, "expires?": time,
            "edited_to?": maybe(&digest),
        })),
        "GiveGrant": object(&json!({
            "uses": {"type": "integer", "minimum": 1, "maximum": 100}, "for": text,
            "where?": {"type": "array", "items": any_object}, "any_session?": {"type": "boolean"},
        })),
        "GivenGrant": object(&json!({"id": id, "grant_id": id, "by": id, "uses": whole, "expires": time})),
        "Grants": object(&json!({"grants": {"type": "array", "items": reference("Grant")}})),
        "Grant": object(&json!({
            "grant_id": id, "server": id, "tool": id, "agent": id, "principal": id, "session": maybe(&id),
            "args_digest": digest, "where": maybe(&text), "uses": whole, "used": time, "revoked": {"type": "boolean"},
            "approver": id, "expires": time,
        })),
        "RevokedGrant": object(&json!({"grant_id": id, "revoked": {"const": true}, "by": id})),
        "Registry": object(&json!({
            "version": whole, "issued": time, "expires": time, "age_seconds": time, "expired": {"type": "boolean"},
        })),
        "Receipt": {"type": "object"},
        "Metrics": text,
        "Health": object(&json!({"ok": {"const": true}})),
        "Ready": object(&json!({"ready": {"const": true}})),
        "Problem": object(&json!({
            "type": {"const": "about:blank"}, "title": text, "status": {"type": "integer"}, "code": text, "detail": text,
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::openapi;

    #[test]
    fn committed_document_is_the_generated_one() {
        let committed = include_str!("../../../docs/openapi.json");
        assert!(openapi() == committed, "`countersign serve --openapi > docs/openapi.json` writes it");
    }
}
