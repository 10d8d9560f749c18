//! `approve --watch`: asks about each waiting call or plan in turn, as they come.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::thread;
use std::time::Duration;

use countersign_approval_token::{DenialReason, PendingApproval, PendingApprovals as _};
use countersign_core::{CallId, OperatorId};
use countersign_host::questions::{QuestionQueue, describe, question};

use super::editor::edit_text;
use super::{Answering, attest_line};
use crate::config_args::{ConfigFiles, QuestionQueues};
use crate::failure::{Exit, Failure};
use crate::output::{Output, ask_at_terminal, note, reporter};
use crate::time::now;

/// Interval of looks at the store.
const LOOK: Duration = Duration::from_millis(500);

/// Answers accepted at the prompt.
const CHOICES: &str = "[y: approve, n: deny, e: edit, s: skip, q: quit]";

/// Those for a call that waits for an attestation alone.
const ATTEST_CHOICES: &str = "[n: deny, s: skip, q: quit]";

/// What the person typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypedKey {
    Yes,
    No,
    Edit,
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
            "e" | "edit" => Self::Edit,
            "s" | "skip" => Self::Skip,
            "q" | "quit" => Self::Quit,
            "" if line.is_empty() => Self::Quit,
            _ => Self::Unknown,
        }
    }
}

/// Asks about each waiting call or plan until the person quits. A skipped one is not asked about again.
pub(super) fn watch(out: &mut Output, configs: &ConfigFiles, approver: &OperatorId) -> Result<Exit, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new("NOT_A_TERMINAL", "--watch asks at a terminal"));
    }
    note("asks about each call that waits; Ctrl-C ends it");
    let mut skipped = BTreeSet::new();
    loop {
        // Before the first call the store is missing.
        let queues = configs.queues()?;
        let Some((queue, pending)) = next(&queues, approver, &skipped)? else {
            thread::sleep(LOOK);
            continue;
        };
        let lacks_approval = queue.lacks_approval(pending.id())?;
        match ask(queue, &pending, lacks_approval)? {
            TypedKey::Yes | TypedKey::Edit if !lacks_approval => {}
            TypedKey::Quit => return Ok(Exit::Done),
            TypedKey::Unknown => {}
            TypedKey::Edit => {
                // The question stays open: it is asked again unless the edited call was approved.
                if let Err(failure) = edit(out, queue, &pending, approver) {
                    note(&format!("error {}: {}", failure.code(), failure.line()));
                }
                out.flush()?;
            }
            TypedKey::Skip => {
                skipped.insert(pending.id().clone());
            }
            key @ (TypedKey::Yes | TypedKey::No) => {
                let answering = Answering { queue, pending: &pending, approver };
                if let Err(failure) = answer(out, &answering, key) {
                    // Another approver was faster, or the question expired meanwhile.
                    note(&format!("error {}: {}", failure.code(), failure.line()));
                    skipped.insert(pending.id().clone());
                }
                out.flush()?;
            }
        }
    }
}

/// The oldest question that this approver can answer and that was not skipped. One that waits for an attestation can be denied.
fn next<'q, 'c>(
    queues: &'q QuestionQueues<'c>,
    approver: &OperatorId,
    skipped: &BTreeSet<CallId>,
) -> Result<Option<(&'q QuestionQueue<'c>, PendingApproval)>, Failure> {
    let now = now()?;
    for (queue, pending) in queues.collect(|queue| Ok(queue.store().list(now)?))? {
        if skipped.contains(pending.id()) {
            continue;
        }
        if !queue.lacks_approval(pending.id())? {
            return Ok(Some((queue, pending)));
        }
        match queue.check_approver(&pending, approver) {
            Ok(()) => return Ok(Some((queue, pending))),
            Err(error) if ["PENDING_APPROVER", "PENDING_SAME_APPROVER"].contains(&error.code()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Rings the bell and shows the question.
fn ask(
    queue: &QuestionQueue<'_>,
    pending: &PendingApproval,
    lacks_approval: bool,
) -> Result<TypedKey, Failure> {
    let shown = describe(pending, &queue.context(pending)?);
    let asked = if lacks_approval {
        format!("{} {CHOICES}", question(pending))
    } else {
        let id = queue.store().short_id(pending.id(), now()?)?;
        format!("It waits for evidence. To attest to it: {}. {ATTEST_CHOICES}", attest_line(&id))
    };
    Ok(TypedKey::of(&ask_at_terminal(&format!("\n\x07{shown}\n{asked} "))?))
}

/// Opens the arguments in an editor, shows the edited call, and asks for its approval.
fn edit(
    out: &mut Output,
    queue: &QuestionQueue<'_>,
    pending: &PendingApproval,
    approver: &OperatorId,
) -> Result<(), Failure> {
    let edited = queue.edit(pending, &edit_text(pending.args())?)?;
    let shown = describe(&edited, &queue.context(&edited)?);
    let asked = format!("\n{shown}\n{} [y: approve, anything else: back] ", question(&edited));
    if TypedKey::of(&ask_at_terminal(&asked)?) == TypedKey::Yes {
        let answering = Answering { queue, pending: &edited, approver };
        answering.approve(out, queue.answer_record(&reporter())?)?;
    }
    Ok(())
}

fn answer(out: &mut Output, answering: &Answering<'_>, key: TypedKey) -> Result<(), Failure> {
    if key == TypedKey::Yes {
        let record = answering.queue.answer_record(&reporter())?;
        return answering.approve(out, record).map(drop);
    }
    let reason = loop {
        let typed = ask_at_terminal("reason, which the agent reads (empty for none): ")?;
        match Some(typed.trim()).filter(|typed| !typed.is_empty()).map(DenialReason::new).transpose() {
            Ok(reason) => break reason,
            // The question stays: the reason can be typed anew.
            Err(error) => note(&format!("error {}: {error}", error.code())),
        }
    };
    let record = answering.queue.answer_record(&reporter())?;
    answering.deny(out, reason.as_ref(), record, Exit::Done).map(drop)
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
            ("e\n", TypedKey::Edit),
            ("QUIT\n", TypedKey::Quit),
            ("", TypedKey::Quit),
            ("\n", TypedKey::Unknown),
            ("yes please\n", TypedKey::Unknown),
        ] {
            assert_eq!(TypedKey::of(typed), key, "{typed:?}");
        }
    }
}
