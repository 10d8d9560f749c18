mod forms;
mod gateway;
mod inspect;
pub(crate) mod plans;
mod run;
mod serve;
mod settings;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Stand between an MCP client and an MCP server.
///
/// In the client's configuration, put `countersign mcp run --config FILE --` in front of the command that starts the
/// server. The client then sees the tools that the session discloses, and each call goes through the gate.
#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Run a server behind the gate, on standard input and output.
    #[command(after_help = RUN_HELP)]
    Run(run::McpRunArgs),
    /// Serve Streamable HTTP: each caller's sessions run behind the gate, each with a server of its own.
    #[command(after_help = SERVE_HELP)]
    Serve(serve::McpServe),
    /// Start a server, list its tools, and print a registry draft in which each is as tight as can be.
    #[command(
        after_help = "Example:\n  countersign mcp inspect --name desk -- ./desk-server > registry.json"
    )]
    Inspect(inspect::Inspect),
}

impl Mcp {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Run(verb) => verb.run(out),
            Self::Serve(verb) => verb.run(out),
            Self::Inspect(verb) => verb.run(out),
        }
    }
}

/// End of the help of `mcp serve`.
const SERVE_HELP: &str = "\
Example:
  countersign mcp serve --config gateway.toml -- npx -y @modelcontextprotocol/server-filesystem /srv/docs

gateway.toml is that of `mcp run`, with
  [serve]
  listen = \"127.0.0.1:7582\"          # the default; --listen overrides it
  token_file = \"serve.tokens\"        # callers: that of `serve`; `may` has to include check
  hosts = [\"gate.example\"]           # names of the endpoint, besides loopback addresses
  sessions = 64                      # at a time; a caller has at most a quarter of them
  idle = \"15m\"                       # without a request for so long, a session is ended
  # tls = { certificate = \"serve.pem\", key = \"serve.key\" } # TLS 1.3: docs/serve.md
  # [serve.oauth]                    # access tokens of an authorization server
  # issuer = \"https://login.example\"
  # resource = \"https://gate.example/mcp\" # the endpoint's URL as clients know it
  # jwks_file = \"jwks.json\"
The endpoint's path is /mcp. The principal of a session is the caller's name.";

/// End of the help of `mcp run`. A test reads the configuration in it.
const RUN_HELP: &str = "\
Example:
  countersign mcp run --config gateway.toml -- npx -y @modelcontextprotocol/server-filesystem /srv/docs

gateway.toml (paths are taken from its own folder):
  [registry]
  file = \"registry.dsse.json\"
  trust_root = \"trust-root.json\"
  state = \"registry.state.json\"    # made by the gateway: no older registry is taken later
  max_age = \"30d\"                  # optional
  [session]
  agent = \"support-bot\"
  principal = \"alice@example.com\"
  goal = \"Answer open tickets\"     # or goal_file; optional
  ttl = \"1h\"                       # optional
  tools = [\"search\"]               # optional: all that the registry lists
  [approval]                         # optional: without it no call can be approved
  key_file = \"approval.key.json\"
  store = \"approvals.sqlite\"       # made by the gateway
  audience = \"desk-gateway\"        # optional: the server's name
  ttl = \"10m\"                      # optional
  # notify = [\"notify-send\", \"a call waits\"] # optional: a command for each question
  hold = \"5m\"                      # optional: without it a call that waits is refused at once
  [proposals]                        # optional: without it no action proposal is checked
  profile = \"strict\"               # or pic-0.9, pic-0.8
  keyring = \"keyring.json\"         # optional: whose attestations count
  evidence_root = \"evidence\"       # optional: the folder of evidence files
  # endorsed = \"endorsed.dsse.json\" # optional: evidence that operators endorsed for calls
  # policy = \"pic-policy.json\"     # optional: impacts by tool, as PIC has them
  high_impacts = [\"external\"]      # optional: besides money, privacy and irreversible
  audience = \"desk-gateway\"        # optional: that of approvals
  max_attestation_age = \"1d\"       # optional
  announce = \"schema\"              # optional: or tool, both, nothing
  # sign_with = [\"./sign.sh\"]      # optional: a command that signs attestations
  # store = \"attestations.sqlite\"  # needed where there is no [approval]
  [plan]                             # optional
  rule = \"by_tool\"                 # or always: every call needs a plan
  submit = true                      # the client may submit plans; they need the goal above
  approve = \"where_needed\"         # or whole: a person approves every plan
  # file = \"plan.json\"             # a plan to start with
  # approval_file = \"plan.token\"   # an approval of that plan; it needs --session
  [record]
  folder = \"log\"                   # made by the gateway
  key_file = \"log.key.json\"        # a key of the log's own (`keys generate --kind log`)
  origin = \"example.com/log\"       # the name of that key
  durability = \"group\"             # optional: or every, system
  state = \"record.state\"           # optional: beside the registry's; the log goes on from it
  # segment = 67108864               # bytes of a segment: 65536 to 1073741824
  # checkpoint_file = \"kept.note\"  # kept elsewhere: the log has to go on from it
  # refused_calls = { burst = 1000, per_second = 10 } # with entries of their own; others are summed
  # refused_messages = { burst = 50, per_second = 5 } # the same for messages that are no calls
  # [record.arguments]               # values to record; they stay in the log for ever:
  # \"desk:refund\" = [\"/amount\"]    # by tool, as JSON Pointers
  [limits]                           # optional, each of them; these are the defaults
  client_line = 4194304              # longest line of the client, in bytes
  server_line = 16777216             # longest line of the server, in bytes
  outstanding = 1024                 # requests that may be unanswered, each way
  list_wait = \"10s\"                # for the server to list its tools
  drain = \"10s\"                    # for answers after the client left
  [server]                           # or several [[server]]: docs/several.md
  name = \"desk\"
  # command = [\"sh\", \"server.sh\"]  # in place of the command after `--`
  methods = []                       # further client methods, by exact name
  server_methods = []                # further server methods, by exact name
  era = \"auto\"                       # of MCP, towards the server: or handshake, stateless
  client_era = \"auto\"                # towards the client: or handshake, stateless
  # [observe]                        # a shadow mode with a stated end: docs/gateway.md
  # [metrics]                        # needs a build with the feature prometheus: docs/metrics.md
  # [traces]                         # needs a build with the feature otel: docs/traces.md";
