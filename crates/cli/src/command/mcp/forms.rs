use std::sync::Arc;

use countersign_approval_token::PendingApproval;
use countersign_audit_log::AnswerVerdict;
use countersign_core::OperatorId;
use countersign_host::config_file::ConfigFile;
use countersign_host::error::HostError;
use countersign_host::questions::{QuestionQueue, describe, question};
use countersign_host::report::Reporter;
use countersign_mcp::{ClientForms, FormAnswer};

use crate::failure::Failure;
use crate::output::note;
use crate::time::now;

/// Name under which answers of the person at the client are recorded. No user of the operating system has a colon in the name.
const CLIENT: &str = "mcp:form";
/// Longest text of a form, in bytes. A longer question is asked elsewhere, since a part of it would not be all that is approved.
const TEXT_BYTES: usize = 8 << 10;

/// Shows questions as forms of the client, and records their answers as those of [`CLIENT`], which no one authenticated.
#[derive(Debug)]
pub(super) struct ConfirmedForms {
    config: Arc<ConfigFile>,
    by: OperatorId,
    reporter: Reporter,
}

impl ConfirmedForms {
    pub(super) fn new(config: Arc<ConfigFile>, reporter: Reporter) -> Result<Self, HostError> {
        let by = OperatorId::new(CLIENT).map_err(|_| HostError::internal("a name is not valid"))?;
        Ok(Self { config, by, reporter })
    }

    fn queue(&self) -> Result<QuestionQueue<'_>, Failure> {
        Ok(QuestionQueue::open(&self.config)?.ok_or_else(QuestionQueue::unknown)?)
    }

    /// Describes a question that one unauthenticated person may approve.
    fn describe(&self, pending: &PendingApproval) -> Result<Option<String>, Failure> {
        if pending.needed() > 1 || pending.evidence().is_some() {
            return Ok(None);
        }
        let queue = self.queue()?;
        queue.check_approver(pending, &self.by)?;
        let text = format!("{}\n\n{}", describe(pending, &queue.context(pending)?), question(pending));
        Ok((text.len() <= TEXT_BYTES).then_some(text))
    }

    fn record(&self, pending: &PendingApproval, answer: &FormAnswer) -> Result<(), Failure> {
        let queue = self.queue()?;
        let verdict = match answer {
            FormAnswer::Approved => AnswerVerdict::Approved,
            FormAnswer::Denied(_) => AnswerVerdict::Denied,
        };
        let pending = queue.answerable(pending.id(), verdict, now()?)?;
        let record = queue.answer_record(&self.reporter)?;
        match answer {
            FormAnswer::Approved => queue.approve(&pending, &self.by, record).map(drop)?,
            FormAnswer::Denied(reason) => queue.deny(&pending, &self.by, reason.as_ref(), record)?,
        }
        Ok(())
    }
}

impl ClientForms for ConfirmedForms {
    fn text(&self, question: &PendingApproval) -> Option<String> {
        self.describe(question).ok().flatten()
    }

    fn answer(&self, question: &PendingApproval, answer: FormAnswer) {
        if let Err(failure) = self.record(question, &answer) {
            note(&format!(
                "warning {}: the client's answer does not count: {}",
                failure.code(),
                failure.line()
            ));
        }
    }
}
