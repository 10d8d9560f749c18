//! The gateway of one session, from the open session to its end.

use std::io::{self, Read, Write};
use std::sync::Arc;

use countersign_approval_token::{PendingApprovals, SessionKind};
use countersign_host::alive::LiveSession;
use countersign_host::config_file::{ConfigFile, Elicit};
use countersign_host::error::HostError;
use countersign_host::export::Exports;
use countersign_host::interrupt::Interrupt;
use countersign_host::notices::Notices;
use countersign_host::random;
use countersign_host::report::Reporter;
use countersign_host::server_part::Servers;
use countersign_host::session::{PreparedSession, SessionEnd};
use countersign_host::signals::AgentWatch;
use countersign_mcp::{
    CallIdError, Gateway, GatewayEnd, GatewayError, GatewayNotice, GatewaySettings, GatewayStop, Gateways,
    PeerStream,
};
use countersign_tool_gate::ToolGate;

#[cfg(feature = "serve")]
use countersign_host::plans::PlanPart;
#[cfg(feature = "serve")]
use countersign_host::record::OlderEntries;
#[cfg(feature = "serve")]
use countersign_host::time::now;
#[cfg(feature = "serve")]
use countersign_http::{McpCaller, OpenMcpGateway};

use super::forms::ConfirmedForms;
use super::plans::{FirstPlan, failure};
use crate::failure::Failure;
use crate::mcp_server::{McpServer, ServerOutput, ServerSource};
use crate::output::note;

/// Parts that the gateways of one process share.
pub(super) struct GatewayHost {
    pub(super) config: Arc<ConfigFile>,
    /// Of the gateway of each server.
    pub(super) settings: Vec<GatewaySettings>,
    pub(super) exports: Exports,
    pub(super) notices: Notices,
    pub(super) reporter: Reporter,
}

/// A server of a session. `None` could not be started, and holds up no other server.
type StartedServer = Option<McpServer>;

/// The gateways of an open session, each with its server. Dropping it ends all.
pub(super) struct SessionGateway {
    gateways: Vec<(Gateway, StartedServer)>,
    /// Whether the configuration has `[[server]]`.
    are_several: bool,
    #[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "for sessions over HTTP alone"))]
    gate: ToolGate,
    alive: Option<LiveSession>,
    watch: Arc<AgentWatch>,
    at_end: SessionEnd,
}

/// The end of a session's gateways, and the processes of their servers.
pub(super) struct EndedGateway {
    pub(super) ended: Result<GatewayEnd, GatewayError>,
    /// Whether the record was closed.
    pub(super) kept: Result<(), HostError>,
    pub(super) servers: Vec<McpServer>,
}

/// Starts the servers of a session. One of several that cannot be started is left out, with a warning.
pub(super) fn start_servers(
    sources: &[ServerSource],
    interrupt: &Interrupt,
    reporter: &Reporter,
) -> Result<Vec<StartedServer>, HostError> {
    let start = |source: &ServerSource| match source.start(interrupt) {
        Ok(server) => Ok(Some(server)),
        Err(error) if sources.len() > 1 => {
            reporter.warn_of(&error);
            Ok(None)
        }
        Err(error) => Err(error),
    };
    sources.iter().map(start).collect()
}

impl GatewayHost {
    /// Opens the session, and a gateway in front of each server.
    pub(super) fn open(
        &self,
        prepared: PreparedSession,
        kind: SessionKind,
        servers: Vec<StartedServer>,
    ) -> Result<SessionGateway, HostError> {
        let renewal = self.config.renews().then(|| Arc::new(prepared.renewal()));
        let session = prepared.open_watched(&self.exports)?;
        // Nothing is recorded after the session's end. A failure before the gateway runs ends the session.
        let at_end = SessionEnd::new(&session);
        let watch = Arc::new(AgentWatch::new(session.gate.clone(), self.reporter.clone()));
        let gate = session.gate.clone();
        let id = session.gate.contract().session().clone();
        let begin = |store| LiveSession::begin(store, id, kind, self.reporter.clone());
        let alive = session.pending.clone().map(begin).transpose()?;
        let pending = session.pending.map(|store| -> Arc<dyn PendingApprovals> { store });
        let shows_forms =
            self.config.approval.as_ref().is_some_and(|approval| approval.elicit() == Elicit::Form);
        let mut gateways = Vec::new();
        for (settings, server) in self.settings.iter().zip(servers) {
            let (watching, notices) = (Arc::clone(&watch), self.notices.clone());
            let mut gateway = Gateway::new(
                settings.clone(),
                session.gate.clone(),
                Arc::clone(&session.sink),
                Arc::clone(&session.clock),
                pending.clone(),
                Box::new(|| random::call_id().map_err(|_| CallIdError::new())),
                Box::new(move || watching.look()),
            )
            .notices(|notice| note(&format!("warning {}: {notice}", notice.code())))
            .questions(move |question, short| notices.notify(question, short));
            if let Some(renewal) = renewal.clone() {
                gateway = gateway.renewal(move |now| {
                    renewal(now).map_err(|failure| {
                        let text = format!("the session is not renewed: {}", failure.line());
                        GatewayNotice::new(failure.code(), text)
                    })
                });
            }
            if shows_forms {
                let forms = ConfirmedForms::new(Arc::clone(&self.config), self.reporter.clone())?;
                gateway = gateway.forms(Arc::new(forms));
            }
            gateways.push((gateway, server));
        }
        let are_several = matches!(self.config.server, Servers::Several(_));
        Ok(SessionGateway { gateways, are_several, gate, alive, watch, at_end })
    }
}

#[cfg(feature = "serve")]
impl GatewayHost {
    /// Opens a session for a caller over HTTP, and starts its servers. `older` says who verifies the record's older entries.
    pub(super) fn open_over_http(
        &self,
        caller: McpCaller,
        plans: &PlanPart,
        sources: &[ServerSource],
        interrupt: &Interrupt,
        older: OlderEntries,
    ) -> Result<OpenMcpGateway, HostError> {
        let McpCaller { session, agent, principal, .. } = caller;
        let mut config = self.config.config(session, plans)?;
        (config.agent, config.principal) = (agent, principal);
        if let Some(record) = &mut config.record {
            record.older = older;
        }
        let prepared = config.prepare(&self.reporter)?;
        let servers = start_servers(sources, interrupt, &self.reporter)?;
        let gateway = self.open(prepared, SessionKind::Single, servers)?;
        let (gate, stops, reporter) = (gateway.gate.clone(), gateway.stop_handles(), self.reporter.clone());
        let run = move |input: Box<dyn Read + Send>, output: PeerStream| {
            let ended = gateway.run(input, output).and_then(|EndedGateway { ended, kept, servers }| {
                servers.into_iter().for_each(McpServer::end);
                ended.map_err(|error| HostError::new(error.code(), error.to_string()))?;
                kept
            });
            if let Err(error) = ended {
                reporter.warn_of(&error);
            }
        };
        Ok(OpenMcpGateway {
            run: Box::new(run),
            stop: Box::new(move |drain| stops.iter().for_each(|stop| stop.stop(drain))),
            has_expired: Box::new(move || now().is_ok_and(|now| now >= gate.contract().expires())),
        })
    }
}

impl SessionGateway {
    pub(super) fn start_plan(&mut self, first: FirstPlan) -> Result<(), Failure> {
        let FirstPlan { plan, approval } = first;
        let Some((gateway, _)) = self.gateways.first_mut() else { return Ok(()) };
        gateway.start_plan(plan, approval.as_deref()).map(drop).map_err(|error| failure(&error))
    }

    pub(super) fn stop_handles(&self) -> Vec<GatewayStop> {
        self.gateways.iter().map(|(gateway, _)| gateway.stop_handle()).collect()
    }

    /// Relays messages until one side ends, and ends the session. The servers' processes may still run.
    pub(super) fn run(
        self,
        client_in: impl Read + Send + 'static,
        client_out: impl Write + Send + 'static,
    ) -> Result<EndedGateway, HostError> {
        let Self { gateways, are_several, alive, watch, at_end, .. } = self;
        let (mut connected, mut servers) = (Vec::new(), Vec::new());
        for (gateway, server) in gateways {
            let (server_in, server_out): (PeerStream, ServerOutput) = match server {
                Some(mut server) => {
                    let pipes = server.pipes(Some(&gateway.lost_requests()))?;
                    servers.push(server);
                    pipes
                }
                None => (PeerStream::new(io::sink()), Box::new(io::empty())),
            };
            connected.push((gateway, server_in, server_out));
        }
        let ended = if are_several {
            let mut group = Gateways::new();
            for (gateway, server_in, server_out) in connected {
                group
                    .add(gateway, server_in, server_out)
                    .map_err(|error| HostError::new(error.code(), error.to_string()))?;
            }
            group.run(client_in, client_out)
        } else {
            match connected.pop() {
                Some((gateway, server_in, server_out)) => {
                    gateway.run(client_in, client_out, server_in, server_out)
                }
                None => Err(GatewayError::Empty),
            }
        };
        drop(alive);
        watch.end();
        Ok(EndedGateway { ended, kept: at_end.end(), servers })
    }
}
