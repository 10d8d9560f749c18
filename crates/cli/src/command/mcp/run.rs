use std::ffi::OsString;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use countersign_approval_token::PendingApprovals;
use countersign_mcp::{CallIdError, Gateway, GatewayEnd};
use countersign_registry::CapabilityRegistry;

use super::Server;
use crate::config::Config;
use crate::failure::{Exit, Failure, chain, one_line};
use crate::files::{REGISTRY_BYTES, read_file};
use crate::output::{Output, internal, note};
use crate::random;
use crate::time::now;

/// How long a server may take to end after its input was closed, in milliseconds.
const LEAVE_MILLIS: u64 = 3_000;

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The gateway's configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The command that starts the server and its arguments, after `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        out.leave_to_protocol();
        let config = Config::read(&self.config)?;
        let settings = config.settings()?;
        let prepared = config.plan(random::id("session")?)?.prepare()?;
        let mut server = Server::start(&self.server)?;
        let session = prepared.open()?;
        let pending = session.store.map(|store| -> Arc<dyn PendingApprovals> { store });
        let follow = Follow::new(config.registry(), Arc::clone(session.gate.registry()));
        let gateway = Gateway::new(
            settings,
            session.gate,
            session.sink,
            session.clock,
            pending,
            Box::new(|| random::id("call").map_err(|_| CallIdError::new())),
            Box::new(move || follow.look()),
        );
        let pipes = server.0.stdin.take().zip(server.0.stdout.take());
        let (server_in, server_out) = pipes.ok_or_else(|| internal("the server has no pipes"))?;
        let end = gateway.run(std::io::stdin(), std::io::stdout(), server_in, server_out)?;
        if end == GatewayEnd::ServerEnded {
            return Err(Failure::new("SERVER_ENDED", "the server ended before its client did"));
        }
        server.wait(LEAVE_MILLIS);
        Ok(Exit::Done)
    }
}

/// Looks before each call whether the registry's file is another one, and loads it.
#[derive(Debug)]
struct Follow {
    path: PathBuf,
    registry: Arc<CapabilityRegistry>,
    seen: Mutex<Option<Stamp>>,
}

impl Follow {
    fn new(path: &Path, registry: Arc<CapabilityRegistry>) -> Self {
        // Nothing was seen yet, so the first look loads once more what may have changed since the start.
        Self { path: path.to_owned(), registry, seen: Mutex::new(None) }
    }

    /// A registry that cannot be loaded leaves the last good one in place, which grows stale by itself.
    fn look(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = std::fs::metadata(&self.path).ok().map(|about| Stamp::of(&about));
        if stamp.is_some() && *seen == stamp {
            return;
        }
        if let Err(failure) = self.load() {
            // Said once for each change of the file, and each time while it is not there.
            note(&format!(
                "warning {}: the registry was not loaded again: {}",
                failure.code(),
                failure.line()
            ));
        }
        *seen = stamp;
    }

    fn load(&self) -> Result<(), Failure> {
        let bytes = read_file(&self.path, REGISTRY_BYTES)?;
        match self.registry.reload(&bytes, now()?) {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::new(error.code(), one_line(&chain(&error)))),
        }
    }
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
