//! The MCP endpoint: Streamable HTTP in front of gateways, one for each session.
//!
//! Source: MCP 2025-11-25 and 2026-07-28, *Streamable HTTP*.

mod endpoint;
mod lines;
mod oauth;
mod opening;
mod session;
mod sessions;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use countersign_core::{AgentId, Millis};
use countersign_host::error::HostError;
use countersign_host::interrupt::{DRAIN, Interrupt};
use countersign_host::report::Reporter;
use countersign_host::serve_part::ServePart;
use countersign_host::time::Span;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use self::endpoint::{McpEndpoint, endpoint_routes};
use self::oauth::Oauth;
pub use self::opening::{McpCaller, OpenGateway, OpenMcpGateway, RunGateway};
use self::sessions::McpSessions;
use crate::access::Callers;
use crate::connection::{Reception, TlsCallers};
use crate::origin::HostNames;
use crate::service::{
    IDLE, LOOK, SESSIONS, bind, connection_limit, require_callers, runtime, runtime_failed,
};
use crate::slots::Slots;
use crate::table::Connections;
use crate::tls::{Tls, Uncertified};

/// Address without a setting, beside that of the decision service.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7582);

/// An MCP endpoint that is ready to run: its files were read, and its address is bound.
#[derive(Debug)]
pub struct McpService {
    endpoint: Arc<McpEndpoint>,
    callers: Arc<Callers>,
    listener: TcpListener,
    names: HostNames,
    tls: Option<Tls>,
}

impl McpService {
    /// Reads the callers and binds the address. `agent` is the configuration's agent, `most_bytes` the longest message of a
    /// client.
    ///
    /// # Errors
    /// Settings that contradict each other, a file that cannot be read or trusted, and an address that cannot be used.
    pub fn prepare(
        part: &ServePart,
        listen: Option<SocketAddr>,
        agent: AgentId,
        most_bytes: usize,
        open: OpenGateway,
        reporter: &Reporter,
    ) -> Result<Self, HostError> {
        let callers = Arc::new(Callers::read(part)?);
        let address = listen.or(part.listen).unwrap_or(DEFAULT_LISTEN);
        let oauth = part.oauth.as_ref().map(Oauth::read).transpose()?;
        let has_tokens = callers.has_tokens() || oauth.is_some();
        require_callers(part, address, has_tokens || callers.has_clients())?;
        let uncertified = if has_tokens { Uncertified::Allowed } else { Uncertified::Refused };
        let tls = part.tls.as_ref().map(|tls| Tls::read(tls, uncertified)).transpose()?;
        let (listener, names) = bind(address, &part.hosts)?;
        let idle = part.idle.map_or(IDLE, Span::millis);
        let endpoint = McpEndpoint {
            callers: Arc::clone(&callers),
            oauth,
            sessions: McpSessions::new(part.sessions.unwrap_or(SESSIONS), duration(idle), open),
            slots: Slots::default(),
            agent,
            most_bytes,
            reporter: reporter.clone(),
        };
        Ok(Self { endpoint: Arc::new(endpoint), callers, listener, names: names.of_endpoint(), tls })
    }

    /// Returns the endpoint's URL.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let address = self.listener.local_addr().map_or_else(|_| String::from("?"), |at| at.to_string());
        format!("{scheme}://{address}{}", endpoint::PATH)
    }

    /// Serves until a signal comes. Every session is ended before this returns.
    ///
    /// # Errors
    /// A runtime or a listener that the system does not provide.
    pub fn run(self, interrupt: &Interrupt) -> Result<(), HostError> {
        let (runtime, stop) = runtime(interrupt)?;
        let endpoint = Arc::clone(&self.endpoint);
        let served = runtime.block_on(self.serve(stop)).map_err(runtime_failed);
        runtime.shutdown_timeout(DRAIN);
        endpoint.sessions.close(DRAIN);
        served
    }

    async fn serve(self, mut stop: watch::Receiver<bool>) -> std::io::Result<()> {
        let connections = Connections::new(connection_limit());
        let reception = Reception {
            routes: endpoint_routes(Arc::clone(&self.endpoint)),
            connections: Arc::clone(&connections),
            stop: stop.clone(),
        };
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let security = self.tls.map(|tls| TlsCallers { tls, callers: self.callers });
        tokio::spawn(reception.network(listener, self.names, security));
        let endpoint = Arc::clone(&self.endpoint);
        tokio::spawn(async move {
            loop {
                sleep(LOOK).await;
                endpoint.sessions.look();
            }
        });
        // The channel ends with the process.
        let _ = stop.wait_for(|stop| *stop).await;
        // Answers to calls in flight still reach their clients.
        self.endpoint.sessions.stop(DRAIN);
        let _ = timeout(DRAIN, connections.wait_closed()).await;
        Ok(())
    }
}

fn duration(span: Millis) -> Duration {
    Duration::from_millis(span.as_millis())
}
