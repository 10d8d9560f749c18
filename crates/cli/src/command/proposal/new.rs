use clap::Args;
use countersign_action_proposal::ActionProposal;
use countersign_canonical_json::{Kind, Limits, Recipe, read, write_string};
use countersign_core::{ImpactClass, ToolName};
use countersign_host::inputs::malformed;
use countersign_tool_gate::own_arguments;
use serde_json::json;

use super::read::{ARGS_BYTES, limits, refusal};
use crate::failure::{Exit, Failure};
use crate::files::Source;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ProposalNewArgs {
    /// The tool that is to be called.
    #[arg(long, value_name = "NAME")]
    tool: ToolName,
    /// File with the call's arguments, as JSON; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    args: Source,
    /// Impact of the tool, as set by the operator.
    #[arg(long)]
    impact: ImpactClass,
    /// What the call is to do.
    #[arg(long, value_name = "TEXT", default_value = "(say what the call is to do)")]
    intent: String,
}

impl ProposalNewArgs {
    pub(super) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let bytes = self.args.read_prefix(ARGS_BYTES.saturating_add(1))?;
        let args = read(&bytes, Recipe::PicCjson1, &Limits::default())
            .map_err(|error| malformed(&error).about("--args"))?;
        if args.value().kind() != Kind::Object {
            return Err(Failure::new("ARGS_NOT_OBJECT", "arguments are not a JSON object").about("--args"));
        }
        let text = skeleton(self.tool.as_str(), own_arguments(args).as_str(), self.impact, &self.intent);
        // Whatever no verifier would read is not printed.
        ActionProposal::parse(text.as_bytes(), &limits()).map_err(|error| refusal(&error, true))?;
        if out.is_json() {
            out.json(&json!({"ok": true, "proposal": text}))?;
        } else {
            out.line(&text)?;
        }
        Ok(Exit::Done)
    }
}

/// Writes a proposal with one input and one claim that cites it, for the caller to fill in.
fn skeleton(tool: &str, args: &str, impact: ImpactClass, intent: &str) -> String {
    let quoted = |text: &str| {
        let mut quoted = String::new();
        write_string(&mut quoted, text);
        quoted
    };
    let (tool, intent) = (quoted(tool), quoted(intent));
    format!(
        r#"{{
  "protocol": "PIC/1.0",
  "intent": {intent},
  "impact": "{impact}",
  "provenance": [{{"id": "input-1", "trust": "untrusted"}}],
  "claims": [{{"text": "(say what input-1 shows)", "evidence": ["input-1"]}}],
  "action": {{"tool": {tool}, "args": {args}}}
}}"#
    )
}

#[cfg(test)]
mod tests {
    use countersign_action_proposal::{ActionProposal, ProposalLimits};
    use countersign_core::{Digest, ImpactClass};

    use super::skeleton;

    #[test]
    fn skeleton_is_a_proposal_of_the_call() {
        let text = skeleton("pay", r#"{"to":"a\"b"}"#, ImpactClass::Money, "say \"why\"\u{202e}");
        let read = ActionProposal::parse(text.as_bytes(), &ProposalLimits::default()).unwrap();
        assert_eq!(
            (read.tool(), read.impact(), read.intent()),
            ("pay", ImpactClass::Money, "say \"why\"\u{202e}")
        );
        assert_eq!(read.args_digest(), Digest::of(br#"{"to":"a\"b"}"#));
    }
}
