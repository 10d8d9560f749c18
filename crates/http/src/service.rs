//! The service: prepared from a configuration, run until a signal comes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::Millis;
use countersign_host::config_file::ConfigFile;
use countersign_host::error::HostError;
use countersign_host::export::Process;
use countersign_host::interrupt::{DRAIN, Interrupt};
use countersign_host::record::VerifiedLogs;
use countersign_host::report::Reporter;
use countersign_host::serve_part::ServePart;
use countersign_host::time::Span;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::access::Callers;
use crate::app::App;
use crate::connection::{Reception, TlsCallers};
use crate::look::RegistryLook;
use crate::origin::HostNames;
use crate::people::{People, Users};
use crate::pic_bridge::{PicBridge, bridge_routes};
use crate::read_logs::ReadLogs;
use crate::routes::routes;
use crate::sessions::Sessions;
use crate::slots::{Slots, THREADS};
use crate::table::Connections;
use crate::tls::{Tls, Uncertified};

/// Address without a setting. PIC's bridge has the port before it.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7581);
/// Most open connections.
const MAX_CONNECTIONS: usize = 2_048;
/// File descriptors that connections leave to sessions, stores and logs.
const OTHER_FILES: u64 = 512;
/// Sessions at a time, without a setting.
pub(crate) const SESSIONS: usize = 64;
/// Time without a request after which a session is ended, without a setting.
pub(crate) const IDLE: Millis = Millis::from_secs(15 * 60);
/// Interval of looks at the sessions.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Options that override the configuration.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServeOptions {
    /// Address to listen on.
    pub listen: Option<SocketAddr>,
    /// Loopback address of the bridge of PIC/1.0.
    pub pic_bridge: Option<SocketAddr>,
}

/// A service that is ready to run: its files were read, and its addresses are bound.
#[derive(Debug)]
pub struct Service {
    app: Arc<App>,
    network: Option<(TcpListener, HostNames)>,
    tls: Option<Tls>,
    bridge: Option<((TcpListener, HostNames), PicBridge)>,
    #[cfg(unix)]
    socket: Option<(UnixListener, PathBuf)>,
    idle: Millis,
}

impl Service {
    /// Reads callers and registry, and binds the addresses.
    ///
    /// # Errors
    /// Settings that contradict each other, a file that cannot be read or trusted, and an address that cannot be used.
    pub fn prepare(
        config: ConfigFile,
        options: &ServeOptions,
        reporter: &Reporter,
    ) -> Result<Self, HostError> {
        let part = config.serve.clone();
        let callers = Arc::new(Callers::read(&part)?);
        let conflict = |text: &str| HostError::new("CONFIG_CONFLICT", text);
        if part.oauth.is_some() {
            return Err(conflict(
                "`oauth` of `serve` is for `mcp serve`: the service takes no access tokens",
            ));
        }
        if config.plans().file.is_some() {
            return Err(conflict("`file` of `plan` is for `mcp run`: the service starts no plans"));
        }
        let listen = options.listen.or(part.listen);
        let has_callers = callers.has_tokens() || callers.has_clients() || part.users_file.is_some();
        let elsewhere = part.socket.is_some() || options.pic_bridge.is_some();
        let address = match listen {
            None if elsewhere && !has_callers && part.tls.is_none() => None,
            listen => Some(listen.unwrap_or(DEFAULT_LISTEN)),
        };
        if let Some(address) = address {
            require_callers(&part, address, has_callers)?;
        }
        let uncertified = if callers.has_tokens() { Uncertified::Allowed } else { Uncertified::Refused };
        let tls = part.tls.as_ref().map(|tls| Tls::read(tls, uncertified)).transpose()?;
        let bridge = match options.pic_bridge {
            Some(address) if !address.ip().is_loopback() => {
                let text = "the bridge has no credentials: a loopback address expected";
                return Err(HostError::new("SERVE_LISTEN_ANYWHERE", text).about(address));
            }
            Some(address) => Some((bind(address, &[])?, PicBridge::prepare(&config, reporter)?)),
            None => None,
        };
        config.current_registry()?;
        let mut exports = config.exports(Process::Service, reporter)?;
        exports.begin_service()?;
        let network = address.map(|address| bind(address, &part.hosts)).transpose()?;
        let app = App {
            sessions: Sessions::new(part.sessions.unwrap_or(SESSIONS)),
            callers,
            slots: Slots::default(),
            look: RegistryLook::default(),
            exports,
            notices: config.notices(reporter)?,
            verified: VerifiedLogs::default(),
            read_logs: ReadLogs::default(),
            reporter: reporter.clone(),
            people: part.users_file.as_deref().map(Users::read).transpose()?.map(People::new),
            config,
        };
        Ok(Self {
            app: Arc::new(app),
            network,
            tls,
            bridge,
            #[cfg(unix)]
            socket: part.socket.map(bind_socket).transpose()?,
            idle: part.idle.map_or(IDLE, Span::millis),
        })
    }

    /// Describes where the service listens.
    #[must_use]
    pub fn listens_on(&self) -> Vec<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let own = self.network.iter().map(|(listener, _)| (scheme, listener));
        let bridge = self.bridge.iter().map(|((listener, _), _)| ("http", listener));
        let shown = |(scheme, listener): (&str, &TcpListener)| {
            listener.local_addr().ok().map(|address| format!("{scheme}://{address}"))
        };
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has sockets"))]
        let mut all: Vec<_> = own.chain(bridge).filter_map(shown).collect();
        #[cfg(unix)]
        all.extend(self.socket.iter().map(|(_, path)| format!("unix:{}", path.display())));
        all
    }

    /// Serves until a signal comes. Requests under way are finished, and every session is ended, before this returns.
    ///
    /// # Errors
    /// A runtime or a listener that the system does not provide.
    pub fn run(self, interrupt: &Interrupt) -> Result<(), HostError> {
        let (runtime, stop) = runtime(interrupt)?;
        let app = Arc::clone(&self.app);
        let served = runtime.block_on(self.serve(stop)).map_err(runtime_failed);
        // A request that is still decided ends before its session does.
        runtime.shutdown_timeout(DRAIN);
        app.sessions.close();
        served
    }

    async fn serve(self, mut stop: watch::Receiver<bool>) -> std::io::Result<()> {
        let connections = Connections::new(connection_limit());
        let reception = Reception {
            routes: routes(Arc::clone(&self.app)),
            connections: Arc::clone(&connections),
            stop: stop.clone(),
        };
        if let Some((listener, names)) = self.network {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let callers = Arc::clone(&self.app.callers);
            let security = self.tls.map(|tls| TlsCallers { tls, callers });
            tokio::spawn(reception.clone().network(listener, names, security));
        }
        if let Some(((listener, names), bridge)) = self.bridge {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let routes = bridge_routes(Arc::new(bridge), Arc::clone(&self.app));
            tokio::spawn(Reception { routes, ..reception.clone() }.network(listener, names, None));
        }
        #[cfg(unix)]
        let path = match self.socket {
            Some((listener, path)) => {
                let listener = tokio::net::UnixListener::from_std(listener)?;
                tokio::spawn(reception.socket(listener, Arc::clone(&self.app.callers)));
                Some(path)
            }
            None => None,
        };
        let (app, idle) = (self.app, self.idle);
        tokio::spawn(async move {
            loop {
                sleep(LOOK).await;
                let app = Arc::clone(&app);
                let _ = tokio::task::spawn_blocking(move || app.sessions.look(idle)).await;
            }
        });
        // The channel ends with the process.
        let _ = stop.wait_for(|stop| *stop).await;
        #[cfg(unix)]
        if let Some(path) = path {
            let _ = std::fs::remove_file(path);
        }
        let _ = timeout(DRAIN, connections.wait_closed()).await;
        Ok(())
    }
}

/// Returns a runtime for one service, and the sign that a signal has come.
pub(crate) fn runtime(interrupt: &Interrupt) -> Result<(Runtime, watch::Receiver<bool>), HostError> {
    let (end, stop) = watch::channel(false);
    interrupt.on_signal(move || {
        let _ = end.send(true);
    });
    let mut builder = Builder::new_current_thread();
    let built = builder.enable_io().enable_time().max_blocking_threads(THREADS).build();
    Ok((built.map_err(runtime_failed)?, stop))
}

#[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
pub(crate) fn runtime_failed(error: std::io::Error) -> HostError {
    HostError::new("SERVE_RUNTIME", error.to_string())
}

/// Refuses an address on which no one could call, or on which credentials would travel in clear text.
pub(crate) fn require_callers(
    part: &ServePart,
    address: SocketAddr,
    has_callers: bool,
) -> Result<(), HostError> {
    if !has_callers {
        let text = "`serve` has no `token_file` and no `users_file`: no one could call over TCP (or set `socket` alone)";
        return Err(HostError::new("SERVE_NO_CALLERS", text));
    }
    let is_open = part.tls.is_none() && !part.dangerous_listen_anywhere;
    if !address.ip().is_loopback() && is_open {
        let text = "not a loopback address: tokens would travel in clear text. \
                    Set `tls` in `serve`, or `dangerous_listen_anywhere = true` behind a proxy that has TLS";
        return Err(HostError::new("SERVE_LISTEN_ANYWHERE", text).about(address));
    }
    Ok(())
}

pub(crate) fn bind(address: SocketAddr, hosts: &[String]) -> Result<(TcpListener, HostNames), HostError> {
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener =
        listener.map_err(|error| HostError::new("SERVE_LISTEN", error.to_string()).about(address))?;
    Ok((listener, HostNames::new(address, hosts)))
}

/// Binds a Unix socket. One that a dead process left behind is replaced.
#[cfg(unix)]
fn bind_socket(path: PathBuf) -> Result<(UnixListener, PathBuf), HostError> {
    use std::os::unix::fs::FileTypeExt as _;
    use std::os::unix::net::UnixStream;
    let failed =
        |error: std::io::Error| HostError::new("SERVE_LISTEN", error.to_string()).about(path.display());
    if let Ok(about) = path.symlink_metadata() {
        if !about.file_type().is_socket() || UnixStream::connect(&path).is_ok() {
            let text = "a file, or another service, has this name";
            return Err(HostError::new("SERVE_LISTEN", text).about(path.display()));
        }
        std::fs::remove_file(&path).map_err(failed)?;
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok((listener, path))
}

/// Raises the limit of file descriptors as far as the system allows, and returns how many connections fit in it.
pub(crate) fn connection_limit() -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let now = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = files.saturating_sub(OTHER_FILES).max(files / 2);
        usize::try_from(room).unwrap_or(MAX_CONNECTIONS).clamp(1, MAX_CONNECTIONS)
    }
    #[cfg(not(unix))]
    MAX_CONNECTIONS
}
