use std::borrow::Cow;

use countersign_canonical_json::{Canonical, Kind, ValueRef};
use countersign_core::Digest;
use countersign_tool_gate::{CallArgs, PROPOSAL_MEMBER};

/// One call as a line of input states it. Only the form is checked.
#[derive(Debug)]
pub(crate) struct CallLine<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) server: Option<&'a str>,
    pub(crate) tool: &'a str,
    pub(crate) args: CallArgs,
    pub(crate) ask: Option<&'a str>,
    /// Approval tokens: several if the tool needs several approvals.
    pub(crate) approvals: Vec<&'a str>,
    pub(crate) proposal: Option<Canonical>,
    pub(crate) plan_step: Option<u64>,
}

/// A line that is not a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadLine<'a> {
    pub(crate) call_id: Option<&'a str>,
    pub(crate) reason: Cow<'static, str>,
}

impl<'a> CallLine<'a> {
    /// Reads the members `call_id`, `tool` and `args`, and optionally `server`, `ask`, `approval`, `proposal` and
    /// `plan_step`. Any other member is an error.
    pub(crate) fn read(line: &'a Canonical) -> Result<Self, BadLine<'a>> {
        let value = line.value();
        let call_id = value.get("call_id").and_then(ValueRef::as_str);
        let bad = |reason: &'static str| BadLine { call_id, reason: reason.into() };
        if value.kind() != Kind::Object {
            return Err(bad("the line is not an object"));
        }
        for (name, member) in value.members() {
            match name {
                "args" | "proposal" => {}
                "call_id" | "server" | "tool" | "ask" | "approval" if member.kind() == Kind::String => {}
                "approval"
                    if member.elements().all(|token| token.kind() == Kind::String)
                        && member.kind() == Kind::Array => {}
                "call_id" | "server" | "tool" | "ask" | "approval" => {
                    return Err(bad("a member of the line is not a string"));
                }
                "plan_step" if member.as_u64().is_some() => {}
                "plan_step" => return Err(bad("the plan_step is not a step's number")),
                _ => {
                    let reason = format!(
                        "the line has an unknown member `{}`",
                        name.chars().take(64).collect::<String>()
                    );
                    return Err(BadLine { call_id, reason: reason.into() });
                }
            }
        }
        let text = |name| value.get(name).and_then(ValueRef::as_str);
        let several = value.get("approval").into_iter().flat_map(ValueRef::elements);
        let tokens = text("approval").into_iter().chain(several.filter_map(ValueRef::as_str));
        let args = value.get("args").ok_or_else(|| bad("the line has no args"))?;
        Ok(Self {
            call_id: call_id.ok_or_else(|| bad("the line has no call_id"))?,
            server: text("server"),
            tool: text("tool").ok_or_else(|| bad("the line has no tool"))?,
            args: CallArgs::new(line.subtree(args)),
            ask: text("ask"),
            approvals: tokens.collect(),
            proposal: value.get("proposal").map(|proposal| line.subtree(proposal)),
            plan_step: value.get("plan_step").and_then(ValueRef::as_u64),
        })
    }

    /// Returns the digest of the arguments that the tool would receive.
    pub(crate) fn args_digest(&self) -> Digest {
        self.args.own().digest()
    }

    /// Returns `true` if the arguments contain a proposal.
    pub(crate) fn has_proposal_among_args(&self) -> bool {
        self.args.sent().value().get(PROPOSAL_MEMBER).is_some()
    }
}
