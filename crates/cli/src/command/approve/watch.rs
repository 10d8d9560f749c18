//! `approve --watch`: asks about each waiting call or plan in turn, as they come.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::thread;
use std::time::Duration;

use countersign_approval_token::{DenialReason, PendingApproval, PendingApprovals as _};
use countersign_core::{CallId, OperatorId};
use countersign_host::config_file::{ApprovalPart, ConfigFile};

use super::answer::{Answering, open_existing};
use super::shown::{describe, goal_of, question};
use crate::failure::{Exit, Failure};
use crate::output::{Output, ask_at_terminal, note, reporter};
use crate::time::now;

/// Interval of looks at the store.
const LOOK: Duration = Duration::from_millis(500);

/// Answers accepted at the prompt.
const CHOICES: &str = "[y: approve, n: deny, s: skip, q: quit]";

/// What the person typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypedKey {
    Yes,
    No,
    Skip,
    Quit,
    /// Anything else: the question is asked again.
    Unknown,
}

impl TypedKey {
    /// Reads a line. The end of the input is an empty text without a line break.
    fn of(line: &str) -> Self {
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Self::Yes,
            "n" | "no" => Self::No,
            "s" | "skip" => Self::Skip,
            "q" | "quit" => Self::Quit,
            "" if line.is_empty() => Self::Quit,
            _ => Self::Unknown,
        }
    }
}

/// Asks about each waiting call or plan until the person quits. A skipped one is not asked about again.
pub(super) fn watch(
    out: &mut Output,
    config: &ConfigFile,
    approval: &ApprovalPart,
    approver: &OperatorId,
) -> Result<Exit, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new("NOT_A_TERMINAL", "--watch asks at a terminal"));
    }
    note("asks about each call that waits; Ctrl-C ends it");
    let mut skipped = BTreeSet::new();
    loop {
        let Some(pending) = next(approval, &skipped)? else {
            thread::sleep(LOOK);
            continue;
        };
        match ask(config, &pending)? {
            TypedKey::Quit => return Ok(Exit::Done),
            TypedKey::Unknown => {}
            TypedKey::Skip => {
                skipped.insert(pending.id().clone());
            }
            key @ (TypedKey::Yes | TypedKey::No) => {
                if let Err(failure) = answer(out, config, approval, approver, &pending, key) {
                    // Another approver was faster, or the question expired meanwhile.
                    note(&format!("error {}: {}", failure.code(), failure.line()));
                    skipped.insert(pending.id().clone());
                }
                out.flush()?;
            }
        }
    }
}

/// The oldest question that waits and was not skipped. Before the first call the store is missing.
fn next(approval: &ApprovalPart, skipped: &BTreeSet<CallId>) -> Result<Option<PendingApproval>, Failure> {
    if !approval.store.exists() {
        return Ok(None);
    }
    let waiting = open_existing(approval)?.list(now()?)?;
    Ok(waiting.into_iter().find(|pending| !skipped.contains(pending.id())))
}

/// Rings the bell and shows the question.
fn ask(config: &ConfigFile, pending: &PendingApproval) -> Result<TypedKey, Failure> {
    let goal = goal_of(config, pending.binding());
    let text = format!("\n\x07{}\n{} {CHOICES} ", describe(pending, goal.as_deref()), question(pending));
    Ok(TypedKey::of(&ask_at_terminal(&text)?))
}

fn answer(
    out: &mut Output,
    config: &ConfigFile,
    approval: &ApprovalPart,
    approver: &OperatorId,
    pending: &PendingApproval,
    key: TypedKey,
) -> Result<(), Failure> {
    let store = open_existing(approval)?;
    let answering = Answering { approval, store: &store, approver };
    if key == TypedKey::Yes {
        let record = config.answer_record(now()?, &reporter())?;
        return answering.approve(out, pending, record).map(drop);
    }
    let reason = ask_at_terminal("reason, which the agent reads (empty for none): ")?;
    let reason = Some(reason.trim()).filter(|reason| !reason.is_empty());
    let reason = reason.map(DenialReason::new).transpose()?;
    let record = config.answer_record(now()?, &reporter())?;
    answering.deny(out, pending, reason.as_ref(), record, Exit::Done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::TypedKey;

    #[test]
    fn only_a_letter_or_its_word_is_an_answer() {
        for (typed, key) in [
            ("y\n", TypedKey::Yes),
            (" No \r\n", TypedKey::No),
            ("s\n", TypedKey::Skip),
            ("QUIT\n", TypedKey::Quit),
            ("", TypedKey::Quit),
            ("\n", TypedKey::Unknown),
            ("yes please\n", TypedKey::Unknown),
        ] {
            assert_eq!(TypedKey::of(typed), key, "{typed:?}");
        }
    }
}
