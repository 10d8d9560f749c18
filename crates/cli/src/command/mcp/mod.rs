mod client;
mod inspect;
mod run;

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};

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
    Run(run::Run),
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
            Self::Inspect(verb) => verb.run(out),
        }
    }
}

/// What `mcp run --help` ends with. The configuration in it is read by a test.
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
  [proposals]                        # optional: without it no action proposal is looked at
  profile = \"strict\"               # or pic-0.9, pic-0.8
  keyring = \"keyring.json\"         # optional: whose attestations count
  evidence_root = \"evidence\"       # optional: the folder of evidence files
  # endorsed = \"endorsed.dsse.json\" # optional: digests of evidence, signed under the trust root
  # policy = \"pic-policy.json\"     # optional: impacts by tool, as PIC has them
  high_impacts = [\"external\"]      # optional: besides money, privacy and irreversible
  audience = \"desk-gateway\"        # optional: that of approvals
  max_attestation_age = \"1d\"       # optional
  # store = \"attestations.sqlite\"  # needed where there is no [approval]
  [record]
  file = \"record.jsonl\"            # made by the gateway
  [server]
  name = \"desk\"
  methods = []                       # further client methods, by exact name
  server_methods = []                # further server methods, by exact name";

/// How long a server and what it started may still clean up once they are told to end.
#[cfg(unix)]
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(100);

/// A server's process. It is ended when this goes, in whatever way that comes about, and with it what it started; a
/// server that ended by itself is taken at its word about what it left behind.
#[derive(Debug)]
struct Server(Child);

impl Server {
    /// Starts the server with pipes for its input and output; what it says on standard error is passed on.
    fn start(command: &[OsString]) -> Result<Self, Failure> {
        let (program, args) = command
            .split_first()
            .ok_or_else(|| Failure::usage("the command that starts the server is missing"))?;
        let mut command = Command::new(program);
        // A group of its own, so that what the server starts can be ended with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map(Self)
            .map_err(|error| Failure::new("SERVER_START", error.to_string()).about(program.display()))
    }

    /// Gives the server some time to end by itself, now that its input is closed.
    fn wait(&mut self, millis: u64) {
        for _ in 0..millis.div_euclid(20) {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Signals all that the server started, by the system's own tool: the standard library has nothing for groups.
    #[cfg(unix)]
    fn signal_group(&self, signal: &str) {
        let _ = Command::new("/bin/kill")
            .args([signal, "--", &format!("-{}", self.0.id())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        #[cfg(unix)]
        if matches!(self.0.try_wait(), Ok(None)) {
            // Until the leader is waited for, nobody else can have its number, nor the group's.
            self.signal_group("-TERM");
            std::thread::sleep(LAST_WORDS);
            self.signal_group("-KILL");
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
