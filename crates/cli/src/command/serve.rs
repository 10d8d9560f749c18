use std::net::SocketAddr;

use clap::Args;

use crate::config_args::ConfigArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Serve decisions and people's answers to other programs, over HTTP.
///
/// A program opens sessions (POST /v1/sessions), has each call decided (/v1/check) and reports its outcome (/v1/outcome). An
/// approver's program reads the questions that wait (GET /v1/questions) and answers them; gateways that share the
/// configuration's store share its questions. The interface is docs/serve.md. A signal (SIGTERM, SIGINT, SIGHUP) ends the
/// service behind the requests under way; the exit code is then 128 and the signal's number.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address to listen on, instead of the configuration's.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Serve PIC/1.0's bridge as well (POST /verify, GET /health and /v1/version), for clients of `pic-standard`: it checks
    /// proposals by `[proposals]`, and has no credentials.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:7580")]
    pic_bridge: Option<SocketAddr>,
    /// Print the interface as an OpenAPI 3.1 document, and serve nothing.
    #[arg(long, conflicts_with_all = ["config", "profile", "listen", "pic_bridge"])]
    openapi: bool,
}

/// End of the help.
const HELP: &str = "\
Example:
  countersign serve --config gateway.toml

gateway.toml is that of `mcp run`, with
  [serve]                            # optional, each of them
  listen = \"127.0.0.1:7581\"          # the default; --listen overrides it
  token_file = \"serve.tokens\"        # callers over TCP
  users_file = \"serve.users\"         # people who may log in to the page; see `countersign user add`
  socket = \"serve.sock\"              # a Unix socket: callers are known by their user
  hosts = [\"gate.example\"]           # names of the service, besides loopback addresses
  sessions = 64                      # at a time
  idle = \"15m\"                       # without a request for so long, a session is ended
  # peers = [{ uid = 1001, name = \"ada\", may = [\"answer\", \"read\"] }]
  # tls = { certificate = \"serve.pem\", key = \"serve.key\" } # TLS 1.3: docs/serve.md
  # dangerous_listen_anywhere = true # tokens travel in clear text: only behind a proxy with TLS

serve.tokens (mode 600; at least 32 characters a token, for example of `openssl rand -hex 32`):
  [[token]]
  token = \"...\"
  name = \"support-host\"
  may = [\"check\", \"read\"]            # or answer and read: a caller does not approve its own calls
  # agents = [\"support-bot\"]         # whose sessions it opens; without it, the configuration's agent
  # any_principal = true             # it names the person on whose behalf a session is";

impl Serve {
    #[cfg(feature = "serve")]
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        use countersign_http::{ServeOptions, Service, openapi};
        use serde_json::json;

        use crate::output::{reporter, watch_signals};

        if self.openapi {
            out.bytes(openapi().as_bytes())?;
            return Ok(Exit::Done);
        }
        let config = self.config.read()?;
        let mut options = ServeOptions::default();
        options.listen = self.listen;
        options.pic_bridge = self.pic_bridge;
        let interrupt = watch_signals()?;
        let service = Service::prepare(config, &options, &reporter())?;
        let places = service.listens_on();
        out.result(&json!({"ok": true, "listens_on": places}), &format!("listens on {}", places.join(", ")))?;
        out.flush()?;
        service.run(&interrupt)?;
        Ok(interrupt.signal().map_or(Exit::Done, Exit::from))
    }

    #[cfg(not(feature = "serve"))]
    pub(crate) fn run(&self, _: &mut Output) -> Result<Exit, Failure> {
        let _ = (&self.config, self.listen, self.pic_bridge, self.openapi);
        Err(Failure::new("FEATURE_MISSING", "`serve` needs a build with the feature `serve`"))
    }
}
