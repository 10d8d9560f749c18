//! Heap allocations of a check of arguments.

use countersign_core::ImpactClass;
use serde_json::json;

use super::fixture::*;
use crate::*;

/// Checks arguments twice and returns the allocations of the second time: engines of patterns fill caches in the first.
fn allocations(schema: serde_json::Value, constraints: Vec<Constraint>, args: &serde_json::Value) -> u64 {
    let tool = tool("desk", "refund");
    let entry = ToolEntry::builder(&tool, ImpactClass::Money, ApprovalRule::Required, schema);
    let entry = constraints.into_iter().fold(entry, ToolEntryBuilder::constraint).build().unwrap();
    let (rules, args) = (ToolRules::new(entry), canonical(args));
    rules.check_args(&args).unwrap();
    allocation_counter::measure(|| rules.check_args(&args).unwrap()).count_total
}

#[test]
fn accepted_arguments_allocate_nothing() {
    let schema = json!({
        "type": "object",
        "required": ["amount", "to"],
        "additionalProperties": false,
        "properties": {
            "to": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Z]{2}[0-9-]+$"},
            "amount": {"type": "number", "minimum": 0, "exclusiveMaximum": 10_000},
            "count": {"type": "integer", "minimum": 1, "maximum": 64},
            "reason": {"type": "string", "enum": ["damaged", "late", "other"]},
            "kind": {"const": "refund"},
            "urgent": {"type": ["boolean", "null"]},
            "lines": {"type": "array", "minItems": 1, "maxItems": 64, "items": {
                "type": "object", "required": ["id"], "additionalProperties": false,
                "properties": {"id": {"type": "integer"}, "text": {"type": "string", "maxLength": 200}},
            }},
            "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        },
    });
    let args = json!({
        "to": "NO93-8601", "amount": 125.5, "count": 3, "reason": "late", "kind": "refund", "urgent": null,
        "lines": [{"id": 7, "text": "first"}, {"id": 8, "text": "\u{e9}t\u{e9}"}], "note": "x",
    });
    assert_eq!(allocations(schema, Vec::new(), &args), 0);
}

#[test]
fn constrained_arguments_allocate_nothing() {
    let place = |text| ArgPlace::new(text).unwrap();
    let constraints = vec![
        Constraint::email_domain(place("/to"), &["example.com"]).unwrap(),
        Constraint::path_within(place("/files"), &["/srv/reports"]).unwrap(),
        Constraint::url(place("/link"), &["https"], &["example.com", ".example.org"]).unwrap(),
    ];
    let args = json!({
        "to": "bob@example.com", "files": ["/srv/reports/a.txt"], "link": "https://www.example.org/a?b=c",
    });
    assert_eq!(allocations(json!({"type": "object"}), constraints, &args), 0);
}
