use std::path::PathBuf;

use clap::Args;
use countersign_host::files::Replace;
use countersign_registry::Severity;
use serde_json::{Value, json};

use super::read::parse_draft;
use crate::failure::{Exit, Failure, one_line};
use crate::files::{REGISTRY_BYTES, read_file, write_file};
use crate::output::{Output, ask_at_terminal, internal};

/// Keywords that apply other schemas to the same arguments, so that `additionalProperties` does not see all names.
const COMPOSING: [&str; 9] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
];

#[derive(Debug, Args)]
pub(crate) struct RegistryLintArgs {
    /// The draft.
    draft: PathBuf,
    /// Make warnings exit code 3 as well.
    #[arg(long)]
    strict: bool,
    /// Close the schemas that let unnamed arguments through. Shows the changes, asks, and writes the draft as `draft` prints one.
    #[arg(long)]
    fix: bool,
    /// Do not ask.
    #[arg(long, requires = "fix")]
    yes: bool,
}

/// A schema that was open: its tool, and what it said before.
struct Closed {
    tool: String,
    keyword: &'static str,
    before: Option<Value>,
}

impl RegistryLintArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let mut bytes = read_file(&self.draft, REGISTRY_BYTES)?;
        let mut draft = parse_draft(&bytes, &self.draft).map_err(Failure::into_refusal)?;
        let mut closed = Vec::new();
        if self.fix {
            closed = self.fixed(out, &mut bytes)?;
            draft = parse_draft(&bytes, &self.draft).map_err(Failure::into_refusal)?;
        }
        let findings = draft.lint();
        let warned = findings.iter().any(|finding| finding.severity() > Severity::Note);
        let bad = self.strict && warned;
        if out.is_json() {
            let closed = closed.iter().map(|one| json!({"tool": one.tool, "keyword": one.keyword}));
            let closed = self.fix.then(|| closed.collect::<Vec<_>>());
            out.json(&json!({"ok": !bad, "closed": closed, "findings": findings}))?;
        } else {
            for finding in &findings {
                let message = one_line(finding.message());
                out.line(&format!("{} {}: {message}", finding.severity(), finding.code()))?;
            }
            if findings.is_empty() {
                out.line("nothing to report")?;
            }
        }
        Ok(if bad { Exit::Refused } else { Exit::Done })
    }

    /// Closes the open schemas of a draft and writes it, if the person agrees.
    fn fixed(&self, out: &mut Output, bytes: &mut Vec<u8>) -> Result<Vec<Closed>, Failure> {
        let mut draft: Value = serde_json::from_slice(bytes).map_err(|_| internal("a draft is not JSON"))?;
        let tools = draft.get_mut("tools").and_then(Value::as_array_mut);
        let closed: Vec<_> = tools.into_iter().flatten().filter_map(close).collect();
        if closed.is_empty() {
            return Ok(closed);
        }
        if !out.is_json() {
            for Closed { tool, keyword, before } in &closed {
                out.line(&format!("  {}: args_schema", one_line(tool)))?;
                if let Some(before) = before {
                    out.line(&format!("-   \"{keyword}\": {before}"))?;
                }
                out.line(&format!("+   \"{keyword}\": false"))?;
            }
            out.flush()?;
        }
        if !self.yes && ask_at_terminal("Write this? [y: write, anything else: do not] ")?.trim() != "y" {
            return Ok(Vec::new());
        }
        let text = serde_json::to_string_pretty(&draft).map_err(|_| internal("a draft is not JSON"))?;
        *bytes = format!("{text}\n").into_bytes();
        parse_draft(bytes, &self.draft)?;
        write_file(&self.draft, bytes, Replace::Allowed)?;
        Ok(closed)
    }
}

/// Closes the schema of a tool. A schema that gives unnamed arguments a schema of their own stays as it is.
fn close(tool: &mut Value) -> Option<Closed> {
    let name = |member: &str| tool.get(member).and_then(Value::as_str).unwrap_or_default();
    let full_name = format!("{}:{}", name("server"), name("name"));
    let schema = tool.get_mut("args_schema")?.as_object_mut()?;
    let is_closed = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(false));
    if is_closed("additionalProperties") || is_closed("unevaluatedProperties") {
        return None;
    }
    let is_composed = COMPOSING.iter().any(|keyword| schema.contains_key(*keyword));
    let keyword = if is_composed { "unevaluatedProperties" } else { "additionalProperties" };
    if schema.get(keyword).is_some_and(|rule| rule != &Value::Bool(true) && rule != &json!({})) {
        return None;
    }
    let before = schema.insert(keyword.to_owned(), Value::Bool(false));
    Some(Closed { tool: full_name, keyword, before })
}
