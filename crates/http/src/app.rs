//! State that all requests share.

use std::sync::Arc;

use countersign_host::config_file::ConfigFile;
use countersign_host::error::HostError;
use countersign_host::export::Exports;
use countersign_host::notices::Notices;
use countersign_host::record::VerifiedLogs;
use countersign_host::report::Reporter;
use countersign_host::session::{OpenSession, PreparedSession};

use crate::access::Callers;
use crate::look::RegistryLook;
use crate::people::People;
use crate::read_logs::ReadLogs;
use crate::sessions::Sessions;
use crate::slots::Slots;

/// State that all requests share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: ConfigFile,
    pub(crate) callers: Arc<Callers>,
    pub(crate) sessions: Sessions,
    pub(crate) slots: Slots,
    pub(crate) look: RegistryLook,
    pub(crate) exports: Exports,
    pub(crate) notices: Notices,
    pub(crate) read_logs: ReadLogs,
    pub(crate) reporter: Reporter,
    /// Logs that an earlier session of this process has verified.
    pub(crate) verified: VerifiedLogs,
    /// The people who may log in to the page.
    pub(crate) people: Option<People>,
}

impl App {
    pub(crate) fn open(&self, prepared: PreparedSession) -> Result<OpenSession, HostError> {
        prepared.open_watched(&self.exports)
    }
}
