use std::fmt;

use countersign_canonical_json::{Canonical, JsonError, Kind, Recipe, read};

use crate::limits::RunLimits;
use crate::written_tool::WrittenTool;

/// Action that ends a step before all its calls are used. It takes the place of a tool's name; no tool can have this name.
pub const NEXT_STEP: &str = "<NEXT>";

/// One turn of a responder, as written. It is not yet checked against the plan.
///
/// A turn has three parts, each once and in this order: a line `Thought:`, a line `Action:`, and `Args:` with one JSON object,
/// which may span lines to the end of the text. Only whitespace may precede or follow them.
///
/// ```
/// use countersign_plan_runner::{RunLimits, TurnAction, TurnText};
/// let text = "Thought: the ticket comes first\nAction: desk:read_ticket\nArgs: {\"id\": \"T-1001\"}";
/// let turn = TurnText::parse(text, &RunLimits::default())?;
/// assert!(matches!(turn.action(), TurnAction::Call(tool) if tool.name().as_str() == "read_ticket"));
/// assert_eq!(turn.args().as_str(), r#"{"id":"T-1001"}"#);
/// assert_eq!(TurnText::parse(&turn.to_string(), &RunLimits::default())?, turn);
/// # Ok::<(), countersign_plan_runner::TurnTextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnText {
    thought: Box<str>,
    action: TurnAction,
    args: Canonical,
}

/// The action that a turn requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnAction {
    /// Calls a tool.
    Call(WrittenTool),
    /// Skips the remaining calls of the step and moves to the next step: [`NEXT_STEP`], with `{}` as its arguments.
    Next,
}

/// Error of a responder's text that is not a turn. It never holds any of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TurnTextError {
    /// The text is longer than the limit.
    #[error("the responder's text is longer than the limit")]
    TooLarge,
    /// The first line is not `Thought:`.
    #[error("a turn begins with the line of its thought")]
    Thought,
    /// The second line is not `Action:`.
    #[error("the action is the line after the thought")]
    Action,
    /// The action is not a tool, written as `name` or `server:name`.
    #[error("an action is a tool, written as name or server:name")]
    Tool,
    /// The third line does not begin with `Args:`.
    #[error("the arguments come after the action")]
    Args,
    /// The arguments are not strict JSON, or something follows them.
    #[error("the arguments are not strict JSON")]
    Json(#[source] JsonError),
    /// The arguments are not an object.
    #[error("the arguments are an object")]
    Shape,
    /// The step has not been called yet, or the arguments of [`NEXT_STEP`] are not empty.
    #[error("step ended before its first call, or with arguments")]
    Next,
}

impl TurnTextError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "MODEL_TEXT_TOO_LARGE",
            Self::Thought => "TURN_THOUGHT",
            Self::Action => "TURN_ACTION",
            Self::Tool => "TURN_TOOL",
            Self::Args => "TURN_ARGS",
            Self::Json(_) => "TURN_ARGS_JSON",
            Self::Shape => "TURN_ARGS_SHAPE",
            Self::Next => "TURN_NEXT",
        }
    }
}

countersign_core::coded!(TurnTextError);

impl TurnText {
    /// Reads a responder's text.
    ///
    /// # Errors
    /// [`TurnTextError`] if the text is not a turn.
    pub fn parse(text: &str, limits: &RunLimits) -> Result<Self, TurnTextError> {
        if text.len() > limits.text_bytes {
            return Err(TurnTextError::TooLarge);
        }
        let (thought, rest) = line(text.trim_start(), "Thought:").ok_or(TurnTextError::Thought)?;
        let (action, rest) = line(rest, "Action:").ok_or(TurnTextError::Action)?;
        let action = match action {
            NEXT_STEP => TurnAction::Next,
            tool => TurnAction::Call(tool.parse().map_err(|_| TurnTextError::Tool)?),
        };
        let args = rest.strip_prefix("Args:").ok_or(TurnTextError::Args)?.trim();
        let args = read(args.as_bytes(), Recipe::Jcs1, &limits.json()).map_err(TurnTextError::Json)?;
        if args.value().kind() != Kind::Object {
            return Err(TurnTextError::Shape);
        }
        if action == TurnAction::Next && !args.value().is_empty() {
            return Err(TurnTextError::Next);
        }
        Ok(Self { thought: thought.into(), action, args })
    }

    /// The responder's stated thought. Nothing depends on it.
    #[must_use]
    pub fn thought(&self) -> &str {
        &self.thought
    }

    /// The requested action.
    #[must_use]
    pub const fn action(&self) -> &TurnAction {
        &self.action
    }

    /// The requested arguments.
    #[must_use]
    pub const fn args(&self) -> &Canonical {
        &self.args
    }
}

/// Splits off the first line, which must begin with the label. Returns the rest of that line, and the text after it.
fn line<'a>(text: &'a str, label: &str) -> Option<(&'a str, &'a str)> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    Some((line.strip_prefix(label)?.trim(), rest))
}

/// Writes a text that parses to the same turn.
impl fmt::Display for TurnText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thought: {}\nAction: ", self.thought)?;
        match &self.action {
            TurnAction::Call(tool) => tool.fmt(f)?,
            TurnAction::Next => f.write_str(NEXT_STEP)?,
        }
        write!(f, "\nArgs: {}", self.args.as_str())
    }
}
