//! The registry, as it was last read.

use std::sync::Arc;

use countersign_core::Timestamp;
use countersign_host::config_file::ConfigFile;
use countersign_host::error::HostError;
use countersign_host::time::now;
use countersign_registry::CapabilityRegistry;
use parking_lot::Mutex;

/// Time for which the registry is remembered.
const REMEMBERED_MS: u64 = 1_000;

/// Reads the registry for requests outside a session.
#[derive(Debug, Default)]
pub(crate) struct RegistryLook(Mutex<Option<(Timestamp, Arc<CapabilityRegistry>)>>);

impl RegistryLook {
    /// Reads and verifies the registry's file, unless that was done just now. Returns the time as well.
    pub(crate) fn look(
        &self,
        config: &ConfigFile,
    ) -> Result<(Timestamp, Arc<CapabilityRegistry>), HostError> {
        let now = now()?;
        if let Some((at, registry)) = &*self.0.lock()
            && now.as_millis().abs_diff(at.as_millis()) < REMEMBERED_MS
        {
            return Ok((now, Arc::clone(registry)));
        }
        let registry = config.current_registry()?;
        *self.0.lock() = Some((now, Arc::clone(&registry)));
        Ok((now, registry))
    }
}
