use countersign_canonical_json::{Limits, Recipe, ValueRef, read};

use crate::code::RejectionCode;
use crate::gate::ToolGate;
use crate::parts::GateParts;
use crate::rejection::Rejection;
use crate::steps::session::is_name_disclosed;

/// Recorded reason of an undisclosed call that the gate saw before dispatch.
pub const OBSERVED: &str = "observed before dispatch";

/// Result of [`ToolGate::observe`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Observed {
    /// The session discloses a tool of this name. Nothing was counted: the gate decides when the call comes.
    Disclosed,
    /// The session discloses no tool of this name. It is recorded and counted as an undisclosed attempt.
    Undisclosed(Rejection),
    /// The JSON is not a readable tool call. It is recorded and counted as a malformed call.
    Malformed(Rejection),
}

impl ToolGate {
    /// Examines a tool call as the model wrote it, before a framework refuses a name that it does not know. Without
    /// this, the gate never sees such a call, and the acceptance rate is too high.
    ///
    /// `raw` is the JSON of one call in one of the usual forms: `{"name", "arguments"}` (MCP, and OpenAI's
    /// `function_call`), `{"type": "tool_use", "name", "input"}` (Anthropic), `{"type": "function", "function":
    /// {"name", "arguments"}}` (OpenAI). It is read strictly; its limit is twice the gate's limit of arguments plus 64
    /// KiB. Only the name and the call's id (`call_id`, or else `id`) are used; the arguments are read when the call
    /// comes to the gate. The name must be the bare one in the contract, without a server.
    ///
    /// This decides nothing and spends nothing. A counted call is recorded with a reason that begins with `observed
    /// before dispatch`. If it cannot be recorded, the refusal says so (`AUDIT_UNAVAILABLE`). Do not observe a call
    /// that comes to the gate anyway, or an undisclosed one counts twice.
    ///
    /// ```no_run
    /// # fn hook(gate: &countersign_tool_gate::ToolGate) {
    /// use countersign_tool_gate::Observed;
    /// let raw = br#"{"type":"tool_use","id":"t1","name":"delete_all","input":{}}"#;
    /// if let Observed::Undisclosed(refusal) = gate.observe(raw) {
    ///     assert_eq!(refusal.code().as_str(), "UNDISCLOSED_TOOL");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn observe(&self, raw: &[u8]) -> Observed {
        let gate = self.parts();
        // Arguments are not checked here, and neither are their numbers.
        let canonical = match read(raw, Recipe::Rfc8785, &around(gate.terms.limits.args)) {
            Ok(canonical) => canonical,
            Err(error) => return Observed::Malformed(malformed(gate, "?", &format!("{OBSERVED}: {error}"))),
        };
        let Some((call_id, name)) = call_of(canonical.value()) else {
            let reason = format!("{OBSERVED}: it is no tool call");
            return Observed::Malformed(malformed(gate, "?", &reason));
        };
        if is_name_disclosed(&gate.progress.in_force().contract, name) {
            return Observed::Disclosed;
        }
        Observed::Undisclosed(gate.refuse_unseen(call_id, name, RejectionCode::UndisclosedTool, OBSERVED))
    }
}

fn malformed(gate: &GateParts, call_id: &str, reason: &str) -> Rejection {
    gate.refuse_unseen(call_id, "?", RejectionCode::MalformedCall, reason)
}

/// Returns the limits of a whole call whose arguments are within `args`: they may be an escaped string, two levels
/// deep.
fn around(args: Limits) -> Limits {
    let bytes = args.max_bytes().saturating_mul(2).saturating_add(64 << 10);
    let wider = args.depth(args.max_depth().saturating_add(2)).unwrap_or(args);
    wider.bytes(bytes).unwrap_or(wider)
}

/// Returns the id and name of a tool call; `None` if two readers could take it for two different calls.
fn call_of(value: ValueRef<'_>) -> Option<(&str, &str)> {
    let function = value.get("function");
    let holder = match function {
        Some(function) if value.get("name").is_none() => function,
        Some(_) => return None,
        None => value,
    };
    if holder.get("arguments").is_some() && holder.get("input").is_some() {
        return None;
    }
    let name = holder.get("name")?.as_str()?;
    let id = value.get("call_id").or_else(|| value.get("id")).and_then(ValueRef::as_str);
    Some((id.unwrap_or("?"), name))
}
