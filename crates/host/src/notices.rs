//! Notices of new questions: the operator's command and webhook.

use countersign_approval_token::PendingApproval;

use crate::config_file::ConfigFile;
use crate::error::HostError;
use crate::notify::Notifier;
use crate::report::Reporter;
#[cfg(feature = "http")]
use crate::webhook::Webhook;

/// Everything that hears of new questions. Copies share their queues.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    command: Option<Notifier>,
    #[cfg(feature = "http")]
    webhook: Option<Webhook>,
}

impl Notices {
    /// Notifies of a question. Nothing waits for it.
    pub fn notify(&self, question: &PendingApproval, short: &str) {
        if let Some(command) = &self.command {
            command.notify(question, short);
        }
        #[cfg(feature = "http")]
        if let Some(webhook) = &self.webhook {
            webhook.notify(question, short);
        }
    }

    /// Returns the number of notices that the webhook was not given; `None` without one.
    #[must_use]
    pub fn failed(&self) -> Option<u64> {
        #[cfg(feature = "http")]
        return self.webhook.as_ref().map(Webhook::failed);
        #[cfg(not(feature = "http"))]
        None
    }
}

impl ConfigFile {
    /// Begins to notify of new questions.
    ///
    /// # Errors
    /// `CONFIG_NOTIFY`, `WEBHOOK_SECRET`, and a file that cannot be read.
    pub fn notices(&self, reporter: &Reporter) -> Result<Notices, HostError> {
        let command = self.approval.as_ref().map(|approval| approval.notifier(reporter)).transpose()?;
        #[cfg(not(feature = "http"))]
        if self.notify.is_some() {
            return Err(HostError::new(
                "CONFIG_NOTIFY",
                "`notify`: this build has no webhooks (feature `http`)",
            ));
        }
        Ok(Notices {
            command: command.flatten(),
            #[cfg(feature = "http")]
            webhook: self.notify.as_ref().map(|part| Webhook::begin(part, reporter.clone())).transpose()?,
        })
    }
}
