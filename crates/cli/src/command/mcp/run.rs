use std::ffi::OsString;
use std::sync::Arc;

use clap::Args;
use countersign_approval_token::SessionKind;
use countersign_core::SessionId;
use countersign_host::export::Process;
use countersign_host::interrupt::DRAIN;
use countersign_host::random;
use countersign_mcp::{GatewayEnd, GatewayError};

use super::gateway::{EndedGateway, GatewayHost, start_servers};
use super::plans::{PlanFlags, first_plan};
use super::settings::gateway_settings;
use crate::config_args::ConfigArgs;
use crate::failure::{Exit, Failure};
use crate::mcp_server::{McpServer, ServerSource};
use crate::output::{Output, note, reporter, watch_signals};

#[derive(Debug, Args)]
pub(crate) struct McpRunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Id of the session instead of a new one: an approval that was given before the start binds it.
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    #[command(flatten)]
    plan: PlanFlags,
    /// The command that starts the server and its arguments, after `--`. None if the configuration has the command or a URL.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

impl McpRunArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        out.leave_to_protocol();
        if !self.config.is_given() {
            return Err(Failure::usage("configuration missing: give --config or --profile"));
        }
        let config = Arc::new(self.config.read()?);
        let mut plans = config.plans().clone();
        self.plan.override_settings(&mut plans);
        config.check_plans(&plans, self.session.as_ref())?;
        let settings = gateway_settings(&config, &plans)?;
        let reporter = reporter();
        let sources = ServerSource::of_config(&config, &self.server, &settings, &reporter)?;
        let mut exports = config.exports(Process::Gateway, &reporter)?;
        let session = self.session.clone().map_or_else(|| random::id("session"), Ok)?;
        let prepared = config.config(session, &plans)?.prepare(&reporter)?;
        let first = first_plan(&plans, &prepared, &config.server)?;
        let notices = config.notices(&reporter)?;
        let interrupt = watch_signals()?;
        let servers = start_servers(&sources, &interrupt, &reporter)?;
        exports.begin(prepared.registry())?;
        let kind = if self.session.is_some() { SessionKind::Named } else { SessionKind::Single };
        let host = GatewayHost { config, settings, exports, notices, reporter };
        let mut gateway = host.open(prepared, kind, servers)?;
        if let Some(first) = first {
            gateway.start_plan(first)?;
        }
        let stops = gateway.stop_handles();
        interrupt.on_signal(move || stops.iter().for_each(|stop| stop.stop(DRAIN)));
        let EndedGateway { ended, kept, servers } = gateway.run(std::io::stdin(), std::io::stdout())?;
        let ended = match interrupt.signal() {
            Some(signal) => Ok(signal.into()),
            None => in_order(ended),
        };
        if ended.is_ok() {
            servers.into_iter().for_each(McpServer::end);
        } else {
            drop(servers);
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
