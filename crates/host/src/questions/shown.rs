//! A waiting call or plan, as a person or a program reads it.

use countersign_approval_token::{PendingApproval, PendingState};
use countersign_core::Timestamp;
use serde_json::{Value, json};

use super::context::QuestionContext;
use super::plan::WaitingPlan;
use super::proposal;
use crate::escape::{shown_id, shown_json, spelled};

/// All that the question binds, for programs.
#[must_use]
pub fn report(pending: &PendingApproval) -> Value {
    let binding = pending.binding();
    let mut report = json!({
        "call_id": pending.id(),
        "kind": pending.kind(),
        "server": binding.tool.server(),
        "tool": binding.tool.name(),
        "args": pending.args(),
        "args_digest": binding.args,
        "principal": binding.principal,
        "agent": binding.agent,
        "session": binding.session,
        "audience": binding.audience,
        "definition": binding.definition,
        "ask": binding.ask,
        "plan_root": binding.plan,
        "registry_version": binding.registry_version,
        "requested": pending.requested(),
        "expires": pending.expires(),
    });
    if let (Some(approvers), Some(members)) = (pending.approvers(), report.as_object_mut()) {
        members.insert("approvers".to_owned(), json!(approvers));
    }
    if let (Some(edited), Some(members)) = (pending.edited_text(), report.as_object_mut()) {
        members.insert("edited_args".to_owned(), json!(edited));
        members.insert("edited_digest".to_owned(), json!(pending.edited_digest()));
    }
    if let (Some(plan), Some(members)) = (WaitingPlan::of(pending), report.as_object_mut()) {
        members.insert("plan".to_owned(), plan.report());
    }
    if let (Some(evidence), Some(members)) = (pending.evidence(), report.as_object_mut()) {
        members.insert("missing".to_owned(), json!(evidence.missing()));
        members.insert("impact".to_owned(), json!(evidence.impact()));
    }
    if let (Some(proposal), Some(members)) = (pending.proposal(), report.as_object_mut()) {
        members.insert("proposal".to_owned(), json!(proposal));
    }
    report
}

/// Returns the state of the question in one word.
pub(super) fn state_word(state: &PendingState, pending: &PendingApproval, now: Timestamp) -> &'static str {
    match state {
        PendingState::Waiting if pending.expires() <= now => "over",
        PendingState::Waiting => "waiting",
        PendingState::Approved(_) => "approved",
        PendingState::Denied => "denied",
        PendingState::Used => "used",
        _ => "decided",
    }
}

/// Describes the exact call or plan for a person: everything that the approval binds, and the result of the call's
/// proposal, and the context. Ids contain no invisible characters; those in all other texts are escaped.
#[must_use]
pub fn describe(pending: &PendingApproval, context: &QuestionContext) -> String {
    let binding = pending.binding();
    let plan = WaitingPlan::of(pending);
    let (kind, what) = match &plan {
        Some(plan) => ("plan", plan.title()),
        None => ("tool", binding.tool.to_string()),
    };
    let mut text =
        format!("call       {}\n{kind}       {what}\nprincipal  {}", pending.id(), binding.principal);
    if let Some(agent) = &binding.agent {
        text.push_str(&format!("\nagent      {agent}"));
    }
    if let Some(session) = &binding.session {
        text.push_str(&format!("\nsession    {session}"));
    }
    if let Some(bound) = &binding.ask {
        text.push_str(&format!("\ngoal       (sha-256 {bound})"));
    }
    if let Some(goal) = &context.goal {
        text.push_str(&format!("\n           {}", spelled(goal)));
    }
    text.push_str(&context.tool_lines());
    // A plan's title contains its root.
    if let Some(root) = binding.plan.as_ref().filter(|_| plan.is_none()) {
        text.push_str(&format!("\nin plan    {root}"));
    }
    if let Some(version) = binding.registry_version {
        text.push_str(&format!("\nregistry   {version}"));
    }
    if let Some(audience) = &binding.audience {
        text.push_str(&format!("\naudience   {audience}"));
    }
    if let Some(definition) = &binding.definition {
        let what = if plan.is_some() { "definitions" } else { "definition" };
        text.push_str(&format!("\n{what} (sha-256 {definition})"));
    }
    if let Some(evidence) = pending.evidence() {
        let missing = evidence.missing().message();
        text.push_str(&format!("\nwaits for  {}: {missing} is missing", pending.kind()));
    }
    if let Some(approvers) = pending.approvers() {
        let names: Vec<_> = approvers.names().iter().map(|name| shown_id(name.as_str())).collect();
        text.push_str(&format!("\napprovers  {} of {}", approvers.needed(), names.join(", ")));
    }
    if let Some(proposal) = pending.proposal() {
        text.push_str(&proposal::describe(proposal));
    }
    text.push_str(&format!(
        "\nrequested  {}\nwaits till {}\narguments  (sha-256 {})\n",
        pending.requested(),
        pending.expires(),
        binding.args,
    ));
    text.push_str(&plan.map_or_else(|| shown_json(pending.args()), |plan| plan.describe()));
    text.push_str(&context.change_line(pending));
    if let (Some(edited), Some(digest)) = (pending.edited_text(), pending.edited_digest()) {
        text.push_str(&format!("\nedited     (sha-256 {digest})\n{}", shown_json(edited)));
    }
    text
}

/// Builds the question, which repeats the call: long arguments may have scrolled it off the screen.
#[must_use]
pub fn question(pending: &PendingApproval) -> String {
    let binding = pending.binding();
    let (kind, what) = match WaitingPlan::of(pending) {
        Some(plan) => ("plan", plan.title()),
        None => ("call", binding.tool.to_string()),
    };
    let (as_edited, args) = match pending.edited_digest() {
        Some(digest) => (" as you edited it", digest),
        None => ("", binding.args),
    };
    format!(
        "Approve exactly this {kind}{as_edited}, once: {what} for {}, arguments sha-256 {args}?",
        binding.principal
    )
}

#[cfg(test)]
mod tests {
    use countersign_approval_token::PendingApproval;
    use countersign_canonical_json::{Limits, Recipe, read};
    use countersign_core::{CallFacts, CallId, Digest, ImpactClass, Millis, Principal, Timestamp, ToolId};

    use super::{describe, question};
    use crate::questions::{QuestionContext, SignedTool};

    fn pending(goal: Option<Digest>) -> PendingApproval {
        let text = format!("[{}]", vec!["0"; 5_000].join(","));
        let args = read(text.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
        let (id, tool) = (CallId::new("call-1").unwrap(), ToolId::new("desk", "refund").unwrap());
        let by = Principal::new("alice").unwrap();
        let mut binding = CallFacts::new(id, tool, args.digest(), Recipe::Jcs1, by);
        if let Some(goal) = goal {
            binding = binding.ask(goal);
        }
        PendingApproval::new(binding, &args, Timestamp::EPOCH, Millis::from_secs(60)).unwrap()
    }

    #[test]
    fn question_repeats_the_call_on_one_line() {
        let pending = pending(None);
        let question = question(&pending);
        for part in ["desk:refund", "alice", &pending.binding().args.to_string()] {
            assert!(question.contains(part), "{question}");
        }
        assert_eq!(question.lines().count(), 1);
    }

    #[test]
    fn the_goal_is_shown_where_the_approval_binds_one() {
        let goal = Digest::of(b"Help alice");
        let described = |goal, text: Option<&str>| {
            let context = QuestionContext { goal: text.map(ToOwned::to_owned), ..QuestionContext::default() };
            describe(&pending(goal), &context)
        };
        assert!(described(Some(goal), None).contains(&format!("\ngoal       (sha-256 {goal})\n")));
        assert!(!described(None, None).contains("goal"));
        let words = described(Some(goal), Some("Help\nplan       \u{202e}"));
        assert!(
            words.contains(&format!("(sha-256 {goal})\n           \"Help\\nplan       \\u202e\"\n")),
            "{words}"
        );
    }

    #[test]
    fn signed_tool_is_shown_escaped_with_its_end_counted() {
        let description = Some(format!("Refunds\n\u{202e}{}", "x".repeat(500)));
        let tool = Some(SignedTool { impact: ImpactClass::Money, description });
        let text = describe(&pending(None), &QuestionContext { tool, ..QuestionContext::default() });
        assert!(text.contains("\nimpact     money\ndescribed  \"Refunds\\n\\u202ex"), "{text}");
        assert!(text.contains("xx\" and 109 more characters\n") && !text.contains('\u{202e}'), "{text}");
    }

    #[test]
    fn changes_since_the_last_approved_call_are_listed() {
        let args = |text: &str| read(text.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
        let asked = args(r#"{"amount":20,"note":"\u202e","to":"ada"}"#);
        let (id, tool) = (CallId::new("call-1").unwrap(), ToolId::new("desk", "refund").unwrap());
        let by = Principal::new("alice").unwrap();
        let binding = CallFacts::new(id, tool, asked.digest(), Recipe::Jcs1, by);
        let asked = PendingApproval::new(binding, &asked, Timestamp::EPOCH, Millis::from_secs(60)).unwrap();
        let shown = |before: &str| {
            let context = QuestionContext { before: Some(args(before)), ..QuestionContext::default() };
            describe(&asked, &context)
        };
        let text = shown(r#"{"amount":10,"by":"x","to":"ada"}"#);
        assert!(
            text.contains("\nchanged    \"amount\" changed, \"by\" missing, \"note\" new, since"),
            "{text}"
        );
        assert!(
            shown(r#"{"amount":20.0,"note":"\u202e","to":"ada"}"#).contains("\nchanged    nothing, since")
        );
        assert!(!describe(&asked, &QuestionContext::default()).contains("changed"));
    }
}
