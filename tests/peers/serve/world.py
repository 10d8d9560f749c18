"""A small world for the service: keys, a signed registry, tokens, and the running binary."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

HOST, ADA, READER = "h" * 40, "a" * 40, "r" * 40
TOKENS = f"""
[[token]]
token = "{HOST}"
name = "support-host"
may = ["check"]
[[token]]
token = "{"o" * 40}"
name = "other-host"
may = ["check"]
agents = ["reader"]
any_principal = true
[[token]]
token = "{ADA}"
name = "ada"
may = ["answer"]
[[token]]
token = "{"b" * 40}"
name = "support-bot"
may = ["answer"]
[[token]]
token = "{READER}"
name = "auditor"
may = ["read"]
"""
CONFIG = """
[registry]
file = "registry.json"
trust_root = "root.json"
state = "registry.state"
[session]
agent = "support-bot"
principal = "alice"
[approval]
key_file = "approval.key"
store = "approvals.sqlite"
[record]
folder = "log"
key_file = "log.key"
origin = "peers.example/serve"
[server]
name = "desk"
[serve]
listen = "127.0.0.1:%d"
token_file = "tokens"
socket = "serve.sock"
idle = "%s"
sessions = 4
"""


def tool(name, impact, approval="not_required"):
    schema = {"type": "object", "properties": {"amount": {"type": "number"}}}
    return {"server": "desk", "name": name, "impact": impact, "approval": approval, "ask": "not_required", "args_schema": schema}


def agent(name, tools):
    return {"agent": name, "version": 1, "registered_by": "ops", "max_session": "1h",
            "tools": [{"server": "desk", "name": each} for each in tools]}


DRAFT = {
    "format": "countersign-registry-1", "version": 1,
    "agents": [agent("support-bot", ["search", "refund"]), agent("reader", ["search"])],
    "tools": [tool("search", "read"), tool("refund", "money", "required")],
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class World:
    """A folder with a service's files, and the service that runs in it."""

    # Called with each answer.
    validate = staticmethod(lambda *answer: None)

    def __init__(self, binary, folder, idle="15m"):
        self.binary, self.folder, self.port, self.process = binary, folder, free_port(), None
        self.verb("keys", "generate", "--kind", "ed25519", "--out", "op.key", "--public-out", "op.pub")
        self.verb("keys", "generate", "--kind", "hmac", "--out", "approval.key")
        self.verb("keys", "generate", "--kind", "log", "--origin", "peers.example/serve", "--out", "log.key", "--public-out", "log.vkey")
        self.verb("keys", "trust", "--threshold", "1", "--out", "root.json", "op.pub")
        (folder / "draft.json").write_text(json.dumps(DRAFT))
        self.verb("registry", "sign", "draft.json", "--key", "op.key", "--ttl", "1d", "--out", "registry.json")
        (folder / "gateway.toml").write_text(CONFIG % (self.port, idle))
        (folder / "tokens").write_text(TOKENS)
        (folder / "tokens").chmod(0o600)

    def verb(self, *args, code=0):
        done = subprocess.run([self.binary, *args], cwd=self.folder, capture_output=True, text=True, timeout=60)
        if code is not None and done.returncode != code:
            raise SystemExit(f"countersign {' '.join(args)}: exit {done.returncode}: {done.stderr}")
        return done

    def start(self, limit=None, *options):
        def limited():
            if limit:
                import resource
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        self.errors = (self.folder / "errors").open("a")
        self.process = subprocess.Popen(
            [self.binary, "serve", "--config", "gateway.toml", *options], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=self.errors, preexec_fn=limited)
        line = self.process.stdout.readline()
        if "listens on" not in line:
            raise SystemExit(f"serve did not start: {line} {(self.folder / 'errors').read_text()}")
        return self

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(20)

    def entries(self):
        files = sorted((self.folder / "log").rglob("*.jsonl"))
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [line for line in lines if "seq" in line]

    def raw(self, data=b"", timeout=5):
        peer = socket.create_connection(("127.0.0.1", self.port), timeout)
        peer.sendall(data)
        return peer

    def ask(self, method, path, body=None, token=None, headers=None, unix=False, timeout=30):
        """Sends one request and returns status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if unix:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(timeout)
            connection.sock.connect(str(self.folder / "serve.sock"))
        given = dict(headers or {})
        if token:
            given.setdefault("Authorization", f"Bearer {token}")
        if body is not None:
            given.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        kind = answer.getheader("Content-Type", "")
        value = json.loads(text) if "json" in kind and text else text
        if method != "HEAD":
            self.validate(method, path, answer.status, kind, value)
        return answer.status, dict(answer.getheaders()), value

    def post(self, path, body, token=HOST, **rest):
        status, _, answer = self.ask("POST", path, body, token, **rest)
        return status, answer

    def get(self, path, token=READER, **rest):
        status, _, answer = self.ask("GET", path, None, token, **rest)
        return status, answer

    def session(self, token=HOST, **body):
        status, answer = self.post("/v1/sessions", body, token)
        if status != 201:
            raise SystemExit(f"no session: {status} {answer}")
        return answer["session"]

    def call(self, session, name, args, **more):
        return self.post("/v1/check", {"session": session, "tool": name, "args": args, **more})[1]


def received(peer):
    """All bytes until the other side closes, or nothing comes for a while."""
    data = b""
    try:
        while part := peer.recv(65536):
            data += part
    except (TimeoutError, ConnectionError):
        data += b"(open)" if not data else b""
    return data


def status_of(data):
    found = re.match(rb"HTTP/1\.1 (\d+)", data)
    return int(found[1]) if found else None


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
