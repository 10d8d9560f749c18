use std::ffi::OsString;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use countersign_approval_token::PendingApprovals;
use countersign_audit_log::{AuditSink, Direction, GatewayRecord, Record};
use countersign_core::{SessionId, Timestamp};
use countersign_mcp::{CallIdError, Gateway, GatewayEnd, GatewayError};
use countersign_registry::{CapabilityRegistry, MarkError, RegistryError};

use super::plans::{FirstPlan, PlanFlags, failure};
use crate::config::Config;
use crate::failure::{Exit, Failure, chain};
use crate::files::{REGISTRY_BYTES, read_file};
use crate::interrupt::{DRAIN, Interrupt};
use crate::output::{Output, note};
use crate::random;
use crate::server::Server;
use crate::session::OpenSession;
use crate::signals::Watch;
use crate::time::now;

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The gateway's configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Id of the session instead of a new one: an approval that was given before the start binds it.
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    #[command(flatten)]
    plan: PlanFlags,
    /// The command that starts the server and its arguments, after `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        out.leave_to_protocol();
        let config = Config::read(&self.config)?;
        let plans = config.plans(&self.plan, self.session.as_ref())?;
        let settings = plans.settings(config.settings()?)?;
        let mut exports = config.exports()?;
        let session = self.session.clone().map_or_else(|| random::id("session"), Ok)?;
        let on_breach = plans.on_breach()?;
        let prepared = config.plan(session)?.prepare()?.hold_to_plans(plans.rule()).on_breach(on_breach);
        let first = plans.prepare(&prepared, config.server())?;
        let interrupt = Interrupt::watch()?;
        let mut server = Server::start(&self.server, &interrupt)?;
        exports.begin()?;
        let session = prepared.open_watched(&exports)?;
        let follow = Follow::new(config.registry(), &session);
        let watch = Arc::new(Watch::new(session.gate.clone()));
        let watching = Arc::clone(&watch);
        let pending = session.pending.map(|store| -> Arc<dyn PendingApprovals> { store });
        let mut gateway = Gateway::new(
            settings,
            session.gate,
            session.sink,
            session.clock,
            pending,
            Box::new(|| random::id("call").map_err(|_| CallIdError::new())),
            Box::new(move || {
                watching.look();
                follow.look();
            }),
        );
        if let Some(FirstPlan { plan, approval }) = first {
            gateway.start_plan(plan, approval.as_deref()).map_err(|error| failure(&error))?;
        }
        let stop = gateway.stop_handle();
        interrupt.on_signal(move || stop.stop(DRAIN));
        let (server_in, server_out) = server.pipes()?;
        let ended = gateway.run(std::io::stdin(), std::io::stdout(), server_in, server_out);
        watch.end();
        let kept = session.log.map_or(Ok(()), |log| log.end());
        let ended = match interrupt.signal() {
            Some(signal) => Ok(signal.into()),
            None => in_order(ended),
        };
        if ended.is_ok() {
            server.end();
        } else {
            drop(server);
        }
        match (ended, kept) {
            (Ok(Exit::Done), Err(failure)) => Err(failure),
            (ended, Err(failure)) => {
                note(&format!("warning {}: {}", failure.code(), failure.line()));
                ended
            }
            (ended, Ok(())) => ended,
        }
    }
}

/// A gateway ends in order when its client does.
fn in_order(ended: Result<GatewayEnd, GatewayError>) -> Result<Exit, Failure> {
    if ended? == GatewayEnd::ServerEnded {
        return Err(Failure::new("SERVER_ENDED", "the server ended before its client did"));
    }
    Ok(Exit::Done)
}

/// Looks before each call whether the registry's file is another one, and loads it.
#[derive(Debug)]
struct Follow {
    path: PathBuf,
    registry: Arc<CapabilityRegistry>,
    session: SessionId,
    sink: Arc<dyn AuditSink>,
    state: Mutex<Looked>,
}

#[derive(Debug, Default)]
struct Looked {
    /// The state of the file that need not be looked at again: it was loaded, or can never be.
    settled: Option<Stamp>,
    /// The last failure that was told of, and the state of the file that it was about.
    told: Option<(Option<Stamp>, &'static str)>,
}

/// Why the registry was not loaded again.
#[derive(Debug)]
struct NotLoaded {
    failure: Failure,
    /// The same bytes fail again whenever they are tried.
    for_good: bool,
}

impl Follow {
    fn new(path: &Path, session: &OpenSession) -> Self {
        Self {
            path: path.to_owned(),
            registry: Arc::clone(session.gate.registry()),
            session: session.gate.contract().session().clone(),
            sink: Arc::clone(&session.sink),
            // Nothing is settled yet, so the first look loads once more what may have changed since the start.
            state: Mutex::default(),
        }
    }

    /// A registry that cannot be loaded leaves the last good one in place, which grows stale by itself. It is tried
    /// again at every call, unless its bytes are to blame: what revokes an agent is not lost to a full disk.
    fn look(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken before the file is read: should it change in between, the next look sees another stamp.
        let stamp = std::fs::metadata(&self.path).ok().map(|about| Stamp::of(&about));
        if stamp.is_some() && state.settled == stamp {
            return;
        }
        match self.load() {
            Ok(()) => {
                state.settled = stamp;
                state.told = None;
            }
            Err(NotLoaded { failure, for_good }) => {
                let told = Some((stamp.clone(), failure.code()));
                if state.told != told {
                    self.tell(&failure);
                    state.told = told;
                }
                if for_good {
                    state.settled = stamp;
                }
            }
        }
    }

    fn load(&self) -> Result<(), NotLoaded> {
        let passing = |failure| NotLoaded { failure, for_good: false };
        let bytes = read_file(&self.path, REGISTRY_BYTES).map_err(passing)?;
        let now = now().map_err(passing)?;
        self.registry.reload(&bytes, now).map(drop).map_err(|error| NotLoaded {
            failure: Failure::new(error.code(), chain(&error)),
            for_good: is_for_good(&error),
        })
    }

    /// Tells the operator on standard error and in the record. A sink that fails is for the gate to notice, which
    /// then refuses the call.
    fn tell(&self, failure: &Failure) {
        let told = |why: &str| format!("the registry was not loaded again: {why}");
        note(&format!("warning {}: {}", failure.code(), told(&failure.line())));
        let time = now().unwrap_or(Timestamp::EPOCH);
        let mut record = GatewayRecord::new(time, Direction::ToServer, failure.code());
        record.session = Some(self.session.clone());
        record.reason = Some(told(failure.message()).as_str().into());
        let _ = self.sink.record(&Record::Gateway(record));
    }
}

/// Whether the bytes alone are to blame, or what only ever rises: anything else may pass.
const fn is_for_good(error: &RegistryError) -> bool {
    matches!(
        error,
        RegistryError::Envelope(_)
            | RegistryError::RevokedSigners
            | RegistryError::Json(_)
            | RegistryError::NotCanonical
            | RegistryError::Content(_)
            | RegistryError::Mark(MarkError::Rollback { .. } | MarkError::Fork { .. })
    )
}

/// What tells one state of a file from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<std::time::SystemTime>,
    #[cfg(unix)]
    identity: (u64, u64, i64, i64),
}

impl Stamp {
    fn of(about: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        Self {
            len: about.len(),
            modified: about.modified().ok(),
            #[cfg(unix)]
            identity: (about.dev(), about.ino(), about.ctime(), about.ctime_nsec()),
        }
    }
}
