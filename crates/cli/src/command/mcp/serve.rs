use std::ffi::OsString;
use std::net::SocketAddr;

use clap::Args;

use crate::config_args::ConfigArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct McpServe {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address to listen on, instead of the configuration's.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The command that starts the server and its arguments, after `--`. Each session has a server of its own. None if the
    /// configuration has the command or a URL.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

impl McpServe {
    #[cfg(feature = "serve")]
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        use std::sync::Arc;

        use countersign_host::export::Process;
        use countersign_host::random;
        use countersign_host::record::{OlderEntries, VerifiedLogs};
        use countersign_http::McpService;
        use countersign_mcp::GatewaySettings;
        use serde_json::json;

        use super::gateway::GatewayHost;
        use super::settings::gateway_settings;
        use crate::mcp_server::ServerSource;
        use crate::output::{reporter, watch_signals};

        if !self.config.is_given() {
            return Err(Failure::usage("configuration missing: give --config or --profile"));
        }
        let config = Arc::new(self.config.read()?);
        let plans = config.plans().clone();
        if plans.file.is_some() {
            let text = "`file` of `plan` is for `mcp run`: sessions over HTTP start without a plan";
            return Err(Failure::new("CONFIG_CONFLICT", text));
        }
        let settings = gateway_settings(&config, &plans)?;
        let most_bytes = settings.iter().map(GatewaySettings::longest_client_line).max().unwrap_or_default();
        let reporter = reporter();
        let sources = ServerSource::of_config(&config, &self.server, &settings, &reporter)?;
        // A registry that cannot be used is an error now, and not at the first session.
        config.current_registry()?;
        let mut exports = config.exports(Process::Service, &reporter)?;
        exports.begin_service()?;
        let notices = config.notices(&reporter)?;
        let interrupt = watch_signals()?;
        let agent = config.config(random::id("session")?, &plans)?.agent;
        let part = config.serve.clone();
        let host = GatewayHost { config, settings, exports, notices, reporter: reporter.clone() };
        let signals = interrupt.clone();
        let older = OlderEntries::VerifiedOnce(VerifiedLogs::default());
        let open = move |caller| host.open_over_http(caller, &plans, &sources, &signals, older.clone());
        let service = McpService::prepare(&part, self.listen, agent, most_bytes, Box::new(open), &reporter)?;
        let url = service.url();
        out.result(&json!({"ok": true, "url": url}), &format!("listens on {url}"))?;
        out.flush()?;
        service.run(&interrupt)?;
        Ok(interrupt.signal().map_or(Exit::Done, Exit::from))
    }

    #[cfg(not(feature = "serve"))]
    pub(crate) fn run(&self, _: &mut Output) -> Result<Exit, Failure> {
        let _ = (&self.config, self.listen, &self.server);
        Err(Failure::new("FEATURE_MISSING", "`mcp serve` needs a build with the feature `serve`"))
    }
}
