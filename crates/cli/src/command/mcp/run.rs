use std::ffi::OsString;
use std::sync::Arc;

use clap::Args;
use countersign_approval_token::{PendingApprovals, SessionKind};
use countersign_core::SessionId;
use countersign_host::alive::LiveSession;
use countersign_mcp::{CallIdError, Gateway, GatewayEnd, GatewayError, GatewayNotice};

use super::forms::ConfirmedForms;
use super::plans::{FirstPlan, PlanFlags, failure, first_plan};
use super::settings::gateway_settings;
use crate::config_args::ConfigArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, note, reporter, watch_signals};
use countersign_host::config_file::Elicit;
use countersign_host::export::Process;
use countersign_host::interrupt::DRAIN;
use countersign_host::random;
use countersign_host::server::Server;
use countersign_host::session::SessionEnd;
use countersign_host::signals::AgentWatch;

#[derive(Debug, Args)]
pub(crate) struct McpRunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Id of the session instead of a new one: an approval that was given before the start binds it.
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    #[command(flatten)]
    plan: PlanFlags,
    /// The command that starts the server and its arguments, after `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

impl McpRunArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        out.leave_to_protocol();
        if !self.config.is_given() {
            return Err(Failure::usage("configuration missing: give --config or --profile"));
        }
        let config = self.config.read()?;
        let mut plans = config.plans().clone();
        self.plan.override_settings(&mut plans);
        config.check_plans(&plans, self.session.as_ref())?;
        let settings = gateway_settings(&config, &plans)?;
        let reporter = reporter();
        let mut exports = config.exports(Process::Gateway, &reporter)?;
        let session = self.session.clone().map_or_else(|| random::id("session"), Ok)?;
        let prepared = config.config(session, &plans)?.prepare(&reporter)?;
        let renewal = config.renews().then(|| prepared.renewal());
        let first = first_plan(&plans, &prepared, &config.server.name)?;
        let notices = config.notices(&reporter)?;
        let interrupt = watch_signals()?;
        let mut server = Server::start(&self.server, &interrupt)?;
        exports.begin(prepared.registry())?;
        let session = prepared.open_watched(&exports)?;
        // Nothing is recorded after the session's end. A failure before the gateway runs ends the session.
        let at_end = SessionEnd::new(&session);
        let watch = Arc::new(AgentWatch::new(session.gate.clone(), reporter.clone()));
        let watching = Arc::clone(&watch);
        let kind = if self.session.is_some() { SessionKind::Named } else { SessionKind::Single };
        let id = session.gate.contract().session().clone();
        let alive = session
            .pending
            .clone()
            .map(|store| LiveSession::begin(store, id, kind, reporter.clone()))
            .transpose()?;
        let pending = session.pending.map(|store| -> Arc<dyn PendingApprovals> { store });
        let mut gateway = Gateway::new(
            settings,
            session.gate,
            session.sink,
            session.clock,
            pending,
            Box::new(|| random::call_id().map_err(|_| CallIdError::new())),
            Box::new(move || watching.look()),
        )
        .notices(|notice| note(&format!("warning {}: {notice}", notice.code())));
        gateway = gateway.questions(move |question, short| notices.notify(question, short));
        if let Some(renewal) = renewal {
            gateway = gateway.renewal(move |now| {
                renewal(now).map_err(|failure| {
                    let text = format!("the session is not renewed: {}", failure.line());
                    GatewayNotice::new(failure.code(), text)
                })
            });
        }
        if config.approval.as_ref().is_some_and(|approval| approval.elicit() == Elicit::Form) {
            gateway = gateway.forms(Arc::new(ConfirmedForms::new(config, reporter)?));
        }
        if let Some(FirstPlan { plan, approval }) = first {
            gateway.start_plan(plan, approval.as_deref()).map_err(|error| failure(&error))?;
        }
        let stop = gateway.stop_handle();
        interrupt.on_signal(move || stop.stop(DRAIN));
        let (server_in, server_out) = server.pipes()?;
        let ended = gateway.run(std::io::stdin(), std::io::stdout(), server_in, server_out);
        drop(alive);
        watch.end();
        let kept = at_end.end();
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
            (Ok(Exit::Done), Err(error)) => Err(error.into()),
            (ended, Err(failure)) => {
                note(&format!("warning {}: {}", failure.code(), failure.line()));
                ended
            }
            (ended, Ok(())) => ended,
        }
    }
}

/// Maps the end of the gateway: it is orderly only if the client ended first.
fn in_order(ended: Result<GatewayEnd, GatewayError>) -> Result<Exit, Failure> {
    if ended? == GatewayEnd::ServerEnded {
        return Err(Failure::new("SERVER_ENDED", "the server exited before its client"));
    }
    Ok(Exit::Done)
}
