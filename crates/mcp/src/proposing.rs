//! Proposals ahead of their calls: the gateway's own tool for them, and the member `__pic` in the schemas of other tools.

use countersign_canonical_json::{Kind, ValueRef};
use countersign_core::{Digest, ToolName};
use countersign_tool_gate::PROPOSAL_MEMBER;

use crate::compose::Object;
use crate::cut::{Edits, ValuePosition};
use crate::held_call::HeldCall;
use crate::link::Link;
use crate::message::result_line;
use crate::proposed::KeptProposal;
use crate::results::{RefusalText, content, refusal_line};

/// Name of the gateway's own tool, with which a client proposes a call. A server's tool of this name is never listed and
/// never called.
pub const PROPOSE: &str = "countersign.propose";

/// Longest proposal, in bytes: that of PIC/1.0.
const MAX_BYTES: usize = 64_000;

/// The members of a proposal besides its protocol and its action, as JSON Schemas.
macro_rules! members {
    () => {
        concat!(
            r#""claims":{"description":"What you claim, each with the ids of the inputs that show it","items":{"properties":"#,
            r#"{"evidence":{"items":{"type":"string"},"type":"array"},"text":{"type":"string"}},"required":["text","evidence"],"#,
            r#""type":"object"},"type":"array"},"evidence":{"description":"Evidence, if you have any: entries of PIC/1.0","#,
            r#""items":{"type":"object"},"type":"array"},"impact":{"enum":["read","write","external","compute","money","privacy","#,
            r#""irreversible"],"type":"string"},"intent":{"description":"What the call is to do","type":"string"},"#,
            r#""provenance":{"description":"The inputs that led to the call","items":{"properties":{"id":{"type":"string"},"#,
            r#""trust":{"enum":["untrusted"]}},"required":["id","trust"],"type":"object"},"type":"array"}"#,
        )
    };
}

/// The tool as `tools/list` shows it.
pub(crate) const DEFINITION: &str = concat!(
    r#"{"description":"States why you are going to make one call, before you make it. Then call the tool itself, with exactly "#,
    r#"these arguments. For tools that ask for evidence or a person's attestation: nothing that you state here is believed "#,
    r#"without it.","inputSchema":{"additionalProperties":false,"properties":{"args":{"description":"The arguments of the call","#,
    r#""type":"object"},"#,
    members!(),
    r#","tool":{"description":"Name of the tool that you are going to call","type":"string"}},"#,
    r#""required":["tool","args","intent","impact","provenance","claims"],"type":"object"},"#,
    r#""name":"countersign.propose","title":"Propose a call"}"#,
);

/// Schema of the member `__pic`.
const MEMBER: &str = concat!(
    r#"{"description":"Why this call is made, as a proposal of PIC/1.0. The tool does not get it. `action` repeats the tool's name "#,
    r#"and exactly the other arguments.","properties":{"action":{"properties":{"args":{"type":"object"},"tool":{"type":"string"}},"#,
    r#""required":["tool","args"],"type":"object"},"#,
    members!(),
    r#","protocol":{"enum":["PIC/1.0"]}},"#,
    r#""required":["protocol","intent","impact","provenance","claims","action"],"type":"object"}"#,
);

/// Answers a call of the gateway's own tool. Nothing is decided here: the gate judges the proposal with its call.
pub(crate) fn propose(link: &Link, call: &HeldCall) {
    let answer = match read_proposal(call) {
        Some(proposal) => {
            let text = format!(
                "Kept by Countersign: the proposal for the next call of {} with exactly these arguments. Make that call now.",
                proposal.tool
            );
            link.proposed.keep(proposal);
            let result = Object::new().raw("content", &content(&text)).raw("isError", "false").finish();
            result_line(&call.id, &result)
        }
        None => {
            let id = (link.new_call_id)().map(|id| id.to_string()).unwrap_or_default();
            let rejection = link.gate.refuse_malformed(&id, "a proposal is not of the tool's form");
            let refusal = RefusalText::of(rejection.code(), rejection.call_id());
            refusal_line(&call.id, RefusalText { record: rejection.sequence(), ..refusal })
        }
    };
    if link.withdraw(call) {
        link.answer(&call.id, answer);
    }
}

/// Builds the proposal out of the tool's arguments.
fn read_proposal(call: &HeldCall) -> Option<KeptProposal> {
    let value = call.own_args().value();
    let known = ["args", "claims", "evidence", "impact", "intent", "provenance", "tool"];
    if value.kind() != Kind::Object || value.members().any(|(name, _)| !known.contains(&name)) {
        return None;
    }
    let tool = ToolName::new(value.get("tool")?.as_str()?).ok()?;
    let args = value.get("args").filter(|args| args.kind() == Kind::Object)?;
    let args = args.canonical_text_of(|name| !name.starts_with(PROPOSAL_MEMBER));
    let action = Object::new().raw("args", &args).string("tool", tool.as_str()).finish();
    let others = value.members().filter(|(name, _)| !matches!(*name, "args" | "tool"));
    let object = Object::new().raw("action", &action).string("protocol", "PIC/1.0");
    let text = others.fold(object, |object, (name, value)| object.value(name, value)).finish();
    let digest = Digest::of(args.as_bytes());
    (text.len() <= MAX_BYTES).then_some(KeptProposal { tool, args: digest, text })
}

/// Announces `__pic` in the input schema of a listed tool. A schema of another form, and one that has the member, stays.
pub(crate) fn announce_member<'a>(edits: &mut Edits<'a>, tool: &ValuePosition<'a>) {
    let Some(schema) = tool.get("inputSchema") else { return };
    match schema.get("properties") {
        Some(properties) if properties.get(PROPOSAL_MEMBER).is_none() => {
            edits.add_member(&properties, PROPOSAL_MEMBER, MEMBER);
        }
        None => {
            let properties = Object::new().raw(PROPOSAL_MEMBER, MEMBER).finish();
            edits.add_member(&schema, "properties", &properties);
        }
        Some(_) => {}
    }
}

/// Returns whether a tool's name is one of the gateway's own.
pub(crate) fn is_own_tool(tool: ValueRef<'_>) -> bool {
    let name = tool.get("name").and_then(ValueRef::as_str);
    name.is_some_and(|name| matches!(name, PROPOSE | crate::submission::SUBMIT_PLAN))
}
