//! Requests a second and waiting times of `POST /v1/check`, beside an axum handler that returns a constant.
//!
//! `ratios-serve COUNTERSIGN` starts both servers as processes of their own and asks them in turn, with the same requests
//! over the same number of connections. Servers and clients share the machine's cores.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    reason = "a program that measures fails by panicking, reads the clock and prints"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::routing::post;
use countersign_approval_token::{MintTerms, mint};
use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{CallFacts, Millis, Timestamp, ToolId};
use countersign_keys::file::read_server_secret;
use countersign_keys::{Keyring, RunKeys};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Calls of one round: as many as a session may have without an outcome.
const CALLS: usize = 1_000;
const ROUNDS: usize = 5;
const ARGS: &str = r#"{"text":"a call of usual size","to":"someone@example.com"}"#;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().expect("usage: ratios-serve COUNTERSIGN");
    if binary == "constant" {
        return constant();
    }
    let binary = Path::new(&binary).canonicalize().unwrap();
    println!("{:<32} {:>11} {:>12} {:>10} {:>10}", "", "connections", "requests/s", "p50 us", "p99 us");
    for connections in [1, 8, 32] {
        let mut own = Command::new(std::env::current_exe().unwrap());
        let mut child = own.arg("constant").stdout(Stdio::piped()).spawn().unwrap();
        let port = first_line(&mut child).trim().parse().unwrap();
        let body = r#"{"session":"s","tool":"free","args":{}}"#.to_owned();
        measure("axum, a constant", connections, || (port, vec![body.clone(); CALLS]), |_| {});
        child.kill().unwrap();
        child.wait().unwrap();
        for durability in ["system", "group"] {
            let service = Service::start(&binary, durability);
            for tool in ["free", "approved"] {
                let name = format!("{tool} call, {durability}");
                measure(&name, connections, || service.round(tool), |()| service.end());
            }
        }
    }
}

/// Serves a constant answer, with the runtime and the protocol settings of the service.
fn constant() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        let routes = Router::new().route("/v1/check", post(async || "{\"decision\":\"accept\"}"));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let routes = TowerToHyperService::new(routes.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), routes));
        }
    });
}

/// Runs the rounds and prints the medians. `before` and `after` of a round are not timed.
fn measure(name: &str, connections: usize, before: impl Fn() -> (u16, Vec<String>), after: impl Fn(())) {
    let mut rounds: Vec<(f64, f64, f64)> = (0..ROUNDS)
        .map(|_| {
            let (port, bodies) = before();
            let begun = Instant::now();
            let mut times = ask_all(port, connections, &bodies);
            let seconds = begun.elapsed().as_secs_f64();
            after(());
            times.sort_unstable();
            let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6;
            (times.len() as f64 / seconds, at(50), at(99))
        })
        .collect();
    rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (rate, half, most) = rounds[ROUNDS / 2];
    println!("{name:<32} {connections:>11} {rate:>12.0} {half:>10.0} {most:>10.0}");
}

fn ask_all(port: u16, connections: usize, bodies: &[String]) -> Vec<Duration> {
    std::thread::scope(|scope| {
        let shares = bodies.chunks(bodies.len().div_ceil(connections));
        let clients: Vec<_> = shares.map(|share| scope.spawn(move || ask_share(port, share))).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

fn ask_share(port: u16, bodies: &[String]) -> Vec<Duration> {
    let mut peer = Peer::connect(port);
    let ask = |body: &String| {
        let begun = Instant::now();
        let answer = peer.ask("POST", "/v1/check", body);
        let time = begun.elapsed();
        assert!(answer.contains("\"decision\":\"accept\""), "{answer}");
        time
    };
    bodies.iter().map(ask).collect()
}

/// A client's connection.
struct Peer(BufReader<TcpStream>);

impl Peer {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> String {
        let mut request = String::new();
        write!(
            request,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the server closed the connection");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }
}

/// The real service, with its files in a folder of its own.
struct Service {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Service {
    fn start(binary: &Path, durability: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let verb = |line: &str| {
            let done = Command::new(binary).args(line.split(' ')).current_dir(&folder).output().unwrap();
            assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        };
        verb("keys generate --kind ed25519 --out op.key --public-out op.pub");
        verb("keys generate --kind hmac --out gate.key");
        verb("keys generate --kind log --origin example.com/bench --out log.key");
        verb("keys trust --threshold 1 --out root.json op.pub");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("draft.json", &draft().to_string());
        verb("registry sign draft.json --key op.key --ttl 1d --out registry.json");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        write("gateway.toml", &config(durability, port));
        write("tokens", &format!("[[token]]\ntoken = \"{TOKEN}\"\nname = \"bench\"\nmay = [\"check\"]\n"));
        Command::new("chmod").args(["600", "tokens"]).current_dir(&folder).status().unwrap();
        let mut serve = Command::new(binary);
        serve.arg("serve").args(["--config", "gateway.toml"]).current_dir(&folder);
        let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        first_line(&mut child);
        Self { child, port, folder }
    }

    /// Opens the round's session and returns its calls.
    fn round(&self, tool: &str) -> (u16, Vec<String>) {
        let answer = Peer::connect(self.port).ask("POST", "/v1/sessions", r#"{"session":"bench"}"#);
        assert!(answer.contains("\"session\":\"bench\""), "{answer}");
        let secret = read_server_secret(&self.folder.path().join("gate.key")).unwrap();
        let keys = Keyring::new(secret).for_run(&"bench".parse().unwrap());
        let call = |_| {
            let id = format!("call-{:032x}", u128::from(fresh()));
            let approval = (tool == "approved").then(|| approval(&keys, &id));
            let body = json!({"session": "bench", "tool": tool, "call_id": id, "approval": approval});
            let body = body.to_string();
            format!("{},\"args\":{ARGS}}}", body.strip_suffix('}').unwrap())
        };
        (self.port, (0..CALLS).map(call).collect())
    }

    fn end(&self) {
        Peer::connect(self.port).ask("DELETE", "/v1/sessions/bench", "");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A number that was not used before.
fn fresh() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Mints an approval of the call with this id.
fn approval(keys: &RunKeys, id: &str) -> String {
    let args = read(ARGS.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
    let tool = ToolId::new("desk", "approved").unwrap();
    let facts =
        CallFacts::new(id.parse().unwrap(), tool, args.digest(), Recipe::Jcs1, "alice".parse().unwrap())
            .agent("bench-bot".parse().unwrap())
            .session("bench".parse().unwrap())
            .registry_version(1)
            .audience("desk".parse().unwrap());
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let now = Timestamp::from_millis(u64::try_from(now).unwrap()).unwrap();
    let ttl = Millis::from_secs(300);
    let terms = MintTerms::new(format!("token-{id}").parse().unwrap(), "ada".parse().unwrap(), now, ttl);
    mint(keys, &facts, &terms, ttl).unwrap().as_str().to_owned()
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line
}

fn draft() -> Value {
    let tool = |name: &str, approval: &str| {
        json!({
            "server": "desk", "name": name, "impact": "write", "approval": approval, "ask": "not_required",
            "args_schema": {
                "type": "object", "required": ["text"], "additionalProperties": false,
                "properties": {"text": {"type": "string"}, "to": {"type": "string"}},
            },
        })
    };
    json!({
        "format": "countersign-registry-1", "version": 1,
        "agents": [{
            "agent": "bench-bot", "version": 1, "registered_by": "ops", "max_session": "1h",
            "tools": [{"server": "desk", "name": "free"}, {"server": "desk", "name": "approved"}],
        }],
        "tools": [tool("free", "not_required"), tool("approved", "required")],
    })
}

fn config(durability: &str, port: u16) -> String {
    format!(
        "[registry]\nfile = \"registry.json\"\ntrust_root = \"root.json\"\nstate = \"registry.state\"\n\
         [session]\nagent = \"bench-bot\"\nprincipal = \"alice\"\n\
         [approval]\nkey_file = \"gate.key\"\nstore = \"approvals.sqlite\"\n\
         [record]\nfolder = \"log\"\nkey_file = \"log.key\"\norigin = \"example.com/bench\"\n\
         durability = \"{durability}\"\n\
         [server]\nname = \"desk\"\n\
         [serve]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"tokens\"\n"
    )
}
