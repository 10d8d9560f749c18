use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_core::{AgentId, Clock, Principal, SessionId, SystemClock};
use countersign_keys::trusted::{FileError, UntrustedFile, read_trusted};
use countersign_keys::{RootError, TrustRoot};
use countersign_registry::{
    CapabilityRegistry, FileHighWater, LoadOptions, NegotiationRequest, RefreshError, RegistryDraft,
    RegistryError,
};
use countersign_tool_gate::CallStats;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
use countersign_tool_gate::SystemTicks;

use crate::session::SessionBuilder;

/// Maximum size of a trust root, in bytes. 64 keys need much less.
const MAX_ROOT_BYTES: u64 = 64 << 10;

/// The state that one process needs once: the verified registry, the clock and the shared counters. Clones share it.
///
/// The registry's file is followed. Before each decision, a gate checks the file and loads it if it has changed, so a
/// revocation applies from the next call on. If the new file cannot be loaded, the last good registry stays in force
/// until it is stale; [`CapabilityRegistry::reload`] describes what happens to its revocations.
#[derive(Clone, Debug)]
pub struct Countersign {
    registry: Arc<CapabilityRegistry>,
    /// Missing for a registry of development.
    file: Option<Arc<Path>>,
    max_bytes: usize,
    clock: Arc<dyn Clock>,
    stats: Arc<CallStats>,
}

/// Why the registry cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Users other than root and the process's own may have written a file.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// The trust root is invalid.
    #[error("the trust root is invalid")]
    Root(#[from] RootError),
    /// The registry does not verify, or is older than a version that was seen before.
    #[error("the registry is refused")]
    Registry(#[from] RegistryError),
    /// The clock is unavailable.
    #[error("clock unavailable")]
    Clock,
}

impl LoadError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::File { .. } => "FILE_UNREADABLE",
            Self::Untrusted(error) => error.code(),
            Self::Root(error) => error.code(),
            Self::Registry(error) => error.code(),
            Self::Clock => "CLOCK_UNAVAILABLE",
        }
    }
}

countersign_core::coded!(LoadError);

/// Overrides the defaults of [`Countersign::load`].
#[must_use]
pub struct CountersignBuilder {
    registry: PathBuf,
    trust_root: PathBuf,
    state: PathBuf,
    clock: Arc<dyn Clock>,
    options: LoadOptions,
    stats: Arc<CallStats>,
    report: Box<dyn Fn(&RefreshError) + Send + Sync>,
}

impl fmt::Debug for CountersignBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountersignBuilder").field("registry", &self.registry).finish_non_exhaustive()
    }
}

impl CountersignBuilder {
    /// Replaces the system clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the registry's maximum age, clock skew and maximum size.
    pub fn options(mut self, options: LoadOptions) -> Self {
        self.options = options;
        self
    }

    /// Calls `report` when the registry's file has changed and cannot be loaded: once for each failure of each state of
    /// the file, on the thread of the call that found it. [`Countersign::reload`] returns the error instead.
    pub fn on_refresh_error(mut self, report: impl Fn(&RefreshError) + Send + Sync + 'static) -> Self {
        self.report = Box::new(report);
        self
    }

    /// Sets the counters.
    pub fn stats(mut self, stats: Arc<CallStats>) -> Self {
        self.stats = stats;
        self
    }

    /// Times every answer by the system's monotonic clock. The counters begin at zero and replace those of
    /// [`stats`](Self::stats). To time the answers of counters of your own, use [`CallStats::ticks`].
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn time_answers(mut self) -> Self {
        self.stats = Arc::new(CallStats::new().ticks(Arc::new(SystemTicks::new())));
        self
    }

    /// Reads the files and verifies the registry.
    ///
    /// # Errors
    /// [`LoadError`]; nothing is allowed then, and the state file is as it was.
    pub fn load(self) -> Result<Countersign, LoadError> {
        let max_bytes = self.options.envelope_bytes();
        let root = TrustRoot::from_json(&read(&self.trust_root, MAX_ROOT_BYTES)?)?;
        let bytes = read(&self.registry, max_bytes as u64)?;
        let now = self.clock.now().map_err(|_| LoadError::Clock)?;
        let marks = Arc::new(FileHighWater::new(&self.state));
        let registry = CapabilityRegistry::load(&bytes, &root, marks, self.options, now)?;
        registry.follow(self.registry.clone(), self.report);
        Ok(Countersign {
            registry: Arc::new(registry),
            file: Some(self.registry.into()),
            max_bytes,
            clock: self.clock,
            stats: self.stats,
        })
    }
}

impl Countersign {
    /// Loads a signed registry. `registry` is the file that the operators signed, `trust_root` lists their keys, and
    /// `state` stores the newest version seen, so that an older one is never loaded again.
    ///
    /// # Errors
    /// [`LoadError`]; nothing is allowed then.
    pub fn load(
        registry: impl AsRef<Path>,
        trust_root: impl AsRef<Path>,
        state: impl AsRef<Path>,
    ) -> Result<Self, LoadError> {
        Self::builder(registry, trust_root, state).load()
    }

    /// Starts with a draft that no operator has signed, and keeps no file: for development. Agents and tools are enough for
    /// a draft. Each session's record says that it was one of development.
    ///
    /// ```
    /// use countersign::prelude::*;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cs = Countersign::dangerous_dev(&RegistryDraft::from_json(br#"{
    ///     "agents": [{"agent": "bot", "version": 1, "registered_by": "dev", "max_session": "1h",
    ///                 "tools": [{"server": "local", "name": "add"}]}],
    ///     "tools": [{"server": "local", "name": "add", "impact": "read", "approval": "not_required",
    ///                "args_schema": {"type": "object"}}]
    /// }"#)?)?;
    /// let (agent, session) = (AgentId::new("bot")?, SessionId::new("s-1")?);
    /// let gate = cs.session(agent, session, Principal::new("dev")?).open(MemorySink::new())?;
    /// let sum = gate.call("add", br#"{"a":1,"b":2}"#, |_args| Ok::<_, std::io::Error>(3))?;
    /// assert_eq!(sum, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LoadError`] if the draft would not be loaded.
    pub fn dangerous_dev(draft: &RegistryDraft) -> Result<Self, LoadError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let now = clock.now().map_err(|_| LoadError::Clock)?;
        let registry = Arc::new(CapabilityRegistry::dangerous_dev(draft, now)?);
        Ok(Self { registry, file: None, max_bytes: 0, clock, stats: Arc::default() })
    }

    /// Returns a builder that loads a registry with other settings than the defaults.
    pub fn builder(
        registry: impl AsRef<Path>,
        trust_root: impl AsRef<Path>,
        state: impl AsRef<Path>,
    ) -> CountersignBuilder {
        CountersignBuilder {
            registry: registry.as_ref().to_owned(),
            trust_root: trust_root.as_ref().to_owned(),
            state: state.as_ref().to_owned(),
            clock: Arc::new(SystemClock::new()),
            options: LoadOptions::default(),
            stats: Arc::default(),
            report: Box::new(|_| {}),
        }
    }

    /// Reads the registry's file now, without waiting for the next call, and installs the new snapshot in all sessions.
    /// Returns the version in force.
    ///
    /// # Errors
    /// [`LoadError`]; the previous snapshot stays in force until it is stale, as described at
    /// [`CapabilityRegistry::reload`].
    pub fn reload(&self) -> Result<u64, LoadError> {
        let Some(file) = &self.file else {
            return Ok(self.registry.view().snapshot().version());
        };
        let bytes = read(file, self.max_bytes as u64)?;
        let now = self.clock.now().map_err(|_| LoadError::Clock)?;
        Ok(self.registry.reload(&bytes, now)?)
    }

    /// Starts a session of `agent` on behalf of `principal`. The host supplies all three names; none comes from the
    /// agent.
    pub fn session(&self, agent: AgentId, session: SessionId, principal: Principal) -> SessionBuilder {
        let (registry, stats) = (Arc::clone(&self.registry), Arc::clone(&self.stats));
        let request = NegotiationRequest::new(session, agent);
        SessionBuilder::over(registry, Arc::clone(&self.clock), request, principal)
            .gate(|gate| gate.stats(stats))
    }

    /// Returns the registry.
    #[must_use]
    pub const fn registry(&self) -> &Arc<CapabilityRegistry> {
        &self.registry
    }

    /// Returns the counters that all sessions share.
    #[must_use]
    pub const fn stats(&self) -> &Arc<CallStats> {
        &self.stats
    }
}

fn read(path: &Path, max: u64) -> Result<Vec<u8>, LoadError> {
    read_trusted(path, max).map_err(|error| {
        let source = match error {
            FileError::Untrusted(error) => return LoadError::Untrusted(error),
            FileError::Unreadable(source) => source,
            FileError::Missing => io::ErrorKind::NotFound.into(),
            FileError::TooLarge { .. } | _ => io::Error::new(io::ErrorKind::FileTooLarge, error.to_string()),
        };
        LoadError::File { path: path.to_owned(), source }
    })
}
