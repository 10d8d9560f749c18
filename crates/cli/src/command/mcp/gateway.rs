//! The gateway of one session, from the open session to its end.

use std::io::{Read, Write};
use std::sync::Arc;

use countersign_approval_token::{PendingApprovals, SessionKind};
use countersign_host::alive::LiveSession;
use countersign_host::config_file::{ConfigFile, Elicit};
use countersign_host::error::HostError;
use countersign_host::export::Exports;
use countersign_host::notices::Notices;
use countersign_host::random;
use countersign_host::report::Reporter;
use countersign_host::session::{PreparedSession, SessionEnd};
use countersign_host::signals::AgentWatch;
use countersign_mcp::{
    CallIdError, Gateway, GatewayEnd, GatewayError, GatewayNotice, GatewaySettings, GatewayStop,
};
use countersign_tool_gate::ToolGate;

#[cfg(feature = "serve")]
use countersign_host::plans::PlanPart;
#[cfg(feature = "serve")]
use countersign_host::time::now;
#[cfg(feature = "serve")]
use countersign_http::{McpCaller, OpenMcpGateway};

use super::forms::ConfirmedForms;
use super::plans::{FirstPlan, failure};
use crate::failure::Failure;
use crate::mcp_server::McpServer;
use crate::output::note;

/// Parts that the gateways of one process share.
pub(super) struct GatewayHost {
    pub(super) config: Arc<ConfigFile>,
    pub(super) settings: GatewaySettings,
    pub(super) exports: Exports,
    pub(super) notices: Notices,
    pub(super) reporter: Reporter,
}

/// A gateway whose session is open, and its server's process. Dropping it ends both.
pub(super) struct SessionGateway {
    gateway: Gateway,
    #[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "for sessions over HTTP alone"))]
    gate: ToolGate,
    alive: Option<LiveSession>,
    watch: Arc<AgentWatch>,
    at_end: SessionEnd,
    server: McpServer,
}

/// The end of a gateway, and its server's process.
pub(super) struct EndedGateway {
    pub(super) ended: Result<GatewayEnd, GatewayError>,
    /// Whether the record was closed.
    pub(super) kept: Result<(), HostError>,
    pub(super) server: McpServer,
}

impl GatewayHost {
    /// Opens the session, and its gateway in front of a server that was started.
    pub(super) fn open(
        &self,
        prepared: PreparedSession,
        kind: SessionKind,
        server: McpServer,
    ) -> Result<SessionGateway, HostError> {
        let renewal = self.config.renews().then(|| prepared.renewal());
        let session = prepared.open_watched(&self.exports)?;
        // Nothing is recorded after the session's end. A failure before the gateway runs ends the session.
        let at_end = SessionEnd::new(&session);
        let watch = Arc::new(AgentWatch::new(session.gate.clone(), self.reporter.clone()));
        let (watching, gate) = (Arc::clone(&watch), session.gate.clone());
        let id = session.gate.contract().session().clone();
        let begin = |store| LiveSession::begin(store, id, kind, self.reporter.clone());
        let alive = session.pending.clone().map(begin).transpose()?;
        let pending = session.pending.map(|store| -> Arc<dyn PendingApprovals> { store });
        let notices = self.notices.clone();
        let mut gateway = Gateway::new(
            self.settings.clone(),
            session.gate,
            session.sink,
            session.clock,
            pending,
            Box::new(|| random::call_id().map_err(|_| CallIdError::new())),
            Box::new(move || watching.look()),
        )
        .notices(|notice| note(&format!("warning {}: {notice}", notice.code())))
        .questions(move |question, short| notices.notify(question, short));
        if let Some(renewal) = renewal {
            gateway = gateway.renewal(move |now| {
                renewal(now).map_err(|failure| {
                    let text = format!("the session is not renewed: {}", failure.line());
                    GatewayNotice::new(failure.code(), text)
                })
            });
        }
        if self.config.approval.as_ref().is_some_and(|approval| approval.elicit() == Elicit::Form) {
            let forms = ConfirmedForms::new(Arc::clone(&self.config), self.reporter.clone())?;
            gateway = gateway.forms(Arc::new(forms));
        }
        Ok(SessionGateway { gateway, gate, alive, watch, at_end, server })
    }
}

#[cfg(feature = "serve")]
impl GatewayHost {
    /// Opens a session for a caller over HTTP, and starts a server for it.
    pub(super) fn open_over_http(
        &self,
        caller: McpCaller,
        plans: &PlanPart,
        start: impl FnOnce() -> Result<McpServer, HostError>,
    ) -> Result<OpenMcpGateway, HostError> {
        let McpCaller { session, agent, principal, .. } = caller;
        let mut config = self.config.config(session, plans)?;
        (config.agent, config.principal) = (agent, principal);
        let prepared = config.prepare(&self.reporter)?;
        let gateway = self.open(prepared, SessionKind::Single, start()?)?;
        let (gate, stop, reporter) = (gateway.gate.clone(), gateway.stop_handle(), self.reporter.clone());
        let run = move |input: Box<dyn Read + Send>, output: Box<dyn Write + Send>| {
            let ended = gateway.run(input, output).and_then(|EndedGateway { ended, kept, server }| {
                server.end();
                ended.map_err(|error| HostError::new(error.code(), error.to_string()))?;
                kept
            });
            if let Err(error) = ended {
                reporter.warn_of(&error);
            }
        };
        Ok(OpenMcpGateway {
            run: Box::new(run),
            stop: Box::new(move |drain| stop.stop(drain)),
            has_expired: Box::new(move || now().is_ok_and(|now| now >= gate.contract().expires())),
        })
    }
}

impl SessionGateway {
    pub(super) fn start_plan(&mut self, first: FirstPlan) -> Result<(), Failure> {
        let FirstPlan { plan, approval } = first;
        self.gateway.start_plan(plan, approval.as_deref()).map(drop).map_err(|error| failure(&error))
    }

    pub(super) fn stop_handle(&self) -> GatewayStop {
        self.gateway.stop_handle()
    }

    /// Relays messages until one side ends, and ends the session. The server's process may still run.
    pub(super) fn run(
        self,
        client_in: impl Read + Send + 'static,
        client_out: impl Write + Send + 'static,
    ) -> Result<EndedGateway, HostError> {
        let Self { gateway, alive, watch, at_end, mut server, .. } = self;
        let (server_in, server_out) = server.pipes(Some(&gateway.lost_requests()))?;
        let ended = gateway.run(client_in, client_out, server_in, server_out);
        drop(alive);
        watch.end();
        Ok(EndedGateway { ended, kept: at_end.end(), server })
    }
}
