"""The real Claude Code with `countersign hook` before its tools: shell, editor and an MCP tool, allowed, refused and approved
while the host waits; and a hook that is missing, crashes, hangs or writes broken output.

Usage: claude.py COUNTERSIGN CLAUDE

CLAUDE is the program in the PyPI wheel `claude-agent-sdk` (pip download claude-agent-sdk==0.2.187; unzip; `_bundled/claude`). A
scripted model on the loopback interface asks for one tool call and then ends. No account and no other network is needed. Needs Python
alone. Prints one line a check and ends with a count.
"""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from checks import check, told

COUNTERSIGN, CLAUDE = (str(Path(path).resolve()) for path in sys.argv[1:3])
SERVER = [sys.executable, str(Path(__file__).with_name("counting_server.py").resolve())]
CONFIG = """
[registry]
file = "registry.json"
trust_root = "root.json"
state = "registry.state"
[session]
agent = "claude-code"
principal = "nobody"
[approval]
key_file = "approval.key"
store = "approvals.sqlite"
[record]
folder = "log"
key_file = "log.key"
origin = "peers.example/claude"
[server]
name = "claude-code"
"""


class Model(http.server.BaseHTTPRequestHandler):
    """Asks for the call in `wanted` once, and ends when it has a result."""

    protocol_version = "HTTP/1.1"
    wanted = None
    results = []

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(b"", "text/plain")

    do_GET = do_HEAD

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if "count_tokens" in self.path:
            return self.answer(b'{"input_tokens":1}', "application/json")
        found = [
            part
            for message in request.get("messages", [])
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "tool_result"
        ]
        if found:
            Model.results.append(found[-1])
        if found or not request.get("tools"):
            block, reason = {"type": "text", "text": "done"}, "end_turn"
        else:
            block, reason = {"type": "tool_use", "id": "toolu_1", **Model.wanted}, "tool_use"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model"), "content": [], "stop_reason": None,
                   "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        if not request.get("stream"):
            message |= {"content": [block], "stop_reason": reason}
            return self.answer(json.dumps(message).encode(), "application/json")
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": "done"}
        if reason == "tool_use":
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        self.answer("".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode(), "text/event-stream")

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def sign(work, listed, rule):
    """Makes a configuration in which the three tools of this test are listed under one rule, or not listed."""
    work.mkdir()

    def run(*args):
        return subprocess.run([COUNTERSIGN, *args], cwd=work, check=True, capture_output=True, text=True).stdout

    run("keys", "generate", "--kind", "ed25519", "--out", "operator.key", "--public-out", "operator.pub")
    run("keys", "generate", "--kind", "hmac", "--out", "approval.key")
    run("keys", "generate", "--kind", "log", "--origin", "peers.example/claude", "--out", "log.key", "--public-out", "log.vkey")
    run("keys", "trust", "--threshold", "1", "--out", "root.json", "operator.pub")
    draft = json.loads(run("registry", "draft", "--host", "claude-code", "--root", str(work), "--tool", "mcp__desk__pay"))
    names = ("Bash", "Write", "mcp__desk__pay")
    for tool in draft["tools"]:
        if tool["name"] in names:
            tool["approval"] = rule
    if not listed:
        draft["agents"][0]["tools"] = [tool for tool in draft["agents"][0]["tools"] if tool["name"] not in names]
    (work / "draft.json").write_text(json.dumps(draft))
    run("registry", "sign", "draft.json", "--key", "operator.key", "--ttl", "1h", "--out", "registry.json")
    (work / "gateway.toml").write_text(CONFIG)
    os.chmod(work / "gateway.toml", 0o644)
    return work


def approve(work, stop):
    """Approves each question of the store until `stop` is set."""
    while not stop.is_set():
        listed = subprocess.run([COUNTERSIGN, "approve", "list", "--config", "gateway.toml"], cwd=work, capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            if "claude-code:" in line:
                args = ["approve", line.split()[0], "--config", "gateway.toml", "--by", "ada", "--yes"]
                subprocess.run([COUNTERSIGN, *args], cwd=work, capture_output=True)
        time.sleep(0.2)


def ran(base, number, tool, hook):
    """Runs the host with this hook for one call. Returns whether the tool ran, and what the model read."""
    home, project, traces = base / f"home{number}", base / f"project{number}", base / f"traces{number}"
    for folder in (home / ".claude", project, traces):
        folder.mkdir(parents=True)
    trace = traces / "ran"
    Model.results = []
    Model.wanted = {
        "shell": {"name": "Bash", "input": {"command": f"touch {trace}"}},
        "editor": {"name": "Write", "input": {"file_path": str(trace), "content": "x"}},
        "MCP tool": {"name": "mcp__desk__pay", "input": {"to": "bob"}},
    }[tool]
    settings = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", **hook}]}]}}
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))
    servers = home / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {"desk": {"command": SERVER[0], "args": [*SERVER[1:], str(trace)]}}}))
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "ANTHROPIC_BASE_URL": URL, "ANTHROPIC_API_KEY": "sk-none", "IS_SANDBOX": "1",
           "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ENABLE_TOOL_SEARCH": "false"}
    args = [CLAUDE, "-p", "go", "--output-format", "json", "--dangerously-skip-permissions", "--mcp-config", str(servers), "--strict-mcp-config"]
    done = subprocess.run(args, cwd=project, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    read = json.dumps(Model.results[-1:]) or done.stdout + done.stderr
    return trace.exists(), read


def wrapped(base):
    """`wrap claude-code` in a project: the hook guards the host's own tools, the gateway those of the server."""
    home, project, programs = base / "wrapped-home", base / "wrapped", base / "bin"
    for folder in (home, project, programs):
        folder.mkdir()
    (programs / "claude").symlink_to(CLAUDE)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "ANTHROPIC_BASE_URL": URL, "ANTHROPIC_API_KEY": "sk-none",
           "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ENABLE_TOOL_SEARCH": "false"}
    paid, trace = project / "paid", project / "trace"
    servers = project / ".mcp.json"
    servers.write_text(json.dumps({"mcpServers": {"desk": {"command": SERVER[0], "args": [*SERVER[1:], str(paid)]}}}))
    before = servers.read_bytes()

    def countersign(*args):
        return subprocess.run([COUNTERSIGN, *args], cwd=project, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def go(name, **given):
        Model.results, Model.wanted = [], {"name": name, "input": given}
        args = [CLAUDE, "-p", "go", "--output-format", "json", "--dangerously-skip-permissions", "--mcp-config", str(servers), "--strict-mcp-config"]
        subprocess.run(args, cwd=project, env=env, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL)
        return json.dumps(Model.results[-1:])

    def answer(stop):
        while not stop.is_set():
            for line in countersign("approve", "list").stdout.splitlines():
                if "  until " in line:
                    countersign("approve", line.split()[0], "--by", "ada", "--yes")
            time.sleep(0.2)

    done = countersign("wrap", "claude-code", "--yes")
    check("wrap claude-code: server and hook in one command", done.returncode == 0 and "built-in tools" in done.stdout, done.stdout + done.stderr)
    (project / "notes.txt").write_text("the note")
    read = go("Read", file_path=str(project / "notes.txt"))
    check("reading inside the project is free", "the note" in read, read)
    stop = threading.Event()
    approver = threading.Thread(target=answer, args=(stop,))
    approver.start()
    read = go("Bash", command=f"touch {trace}")
    check("a shell command runs once a person approves it", trace.exists(), read)
    read = go("mcp__desk__pay", to="bob")
    check("an MCP call is asked about once, by the gateway", paid.exists() and paid.read_text().count("bob") == 1, read)
    stop.set()
    approver.join()
    read = go("mcp__other__pay", to="bob")
    check("an MCP tool without a gateway does not run", "error" in read, read)
    done = countersign("unwrap", "claude-code")
    check("unwrap leaves no trace in the project", done.returncode == 0 and servers.read_bytes() == before
          and not (project / ".claude" / "settings.local.json").exists(), done.stdout + done.stderr)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_port}"
version = subprocess.run([CLAUDE, "--version"], capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
print(version.stdout.strip())

with tempfile.TemporaryDirectory() as folder:
    base = Path(folder)
    free, closed, asks = sign(base / "free", True, "not_required"), sign(base / "closed", False, "required"), sign(base / "asks", True, "required")
    number = 0

    def hook(work, **more):
        command = f"{COUNTERSIGN} hook --config {work}/gateway.toml --host claude-code --host-timeout 40s"
        return {"command": command, "timeout": 40, "onFailure": "block", **more}

    for tool in ("shell", "editor", "MCP tool"):
        number += 1
        runs, read = ran(base, number, tool, hook(free))
        check(f"{tool}: an allowed call runs", runs and '"is_error": true' not in read, read)
        number += 1
        runs, read = ran(base, number, tool, hook(closed))
        check(f"{tool}: a refused call does not run, and the model reads the code", not runs and "UNDISCLOSED_TOOL" in read, read)
        number += 1
        stop = threading.Event()
        approver = threading.Thread(target=approve, args=(asks, stop))
        approver.start()
        runs, read = ran(base, number, tool, hook(asks))
        stop.set()
        approver.join()
        check(f"{tool}: a call that is approved while the host waits runs", runs, read)
    number += 1
    runs, read = ran(base, number, "shell", hook(asks, command=hook(asks)["command"].replace("40s", "3s")))
    check("a call that no one answers does not run", not runs and "APPROVAL_REQUIRED" in read, read)
    broken = {
        "missing": "/nonexistent/countersign hook",
        "crashed with 101": "exit 101",
        "killed": "kill -9 $$",
        "hung": "sleep 60",
        "with a configuration that is gone": f"{COUNTERSIGN} hook --config /nonexistent/gateway.toml",
        "with broken JSON as its decision": "echo '{\"hookSpecificOutput\": 7}'",
    }
    for name, command in broken.items():
        number += 1
        runs, read = ran(base, number, "shell", hook(free, command=command, timeout=2))
        check(f"a hook {name}: nothing runs", not runs, read)
    # The host takes text that is no JSON for the hook's output, and lets the call pass: docs/hooks.md. The hook prints nothing there.
    number += 1
    runs, read = ran(base, number, "shell", hook(free, command="echo '{broken'"))
    check("seen: text that is no JSON and exit 0 is an acceptance for the host", runs, read)
    number += 1
    runs, read = ran(base, number, "shell", {"command": "exit 101"})
    check("seen: without onFailure a crashed hook lets the call run", runs, read)
    shown = subprocess.run([COUNTERSIGN, "audit", "show", str(asks / "log"), "--json"], capture_output=True, text=True).stdout
    entries = [json.loads(line) for line in shown.splitlines()]
    accepted = [entry for entry in entries if entry["type"] == "decision" and entry["verdict"] == "accept"]
    check("the record has the three approved calls, each with its approver", len(accepted) == 3 and all("approval" in e for e in accepted), shown)
    verified = subprocess.run([COUNTERSIGN, "audit", "verify", str(asks / "log"), "--key", str(asks / "log.vkey")], capture_output=True)
    check("the record verifies", verified.returncode == 0, verified.stderr)
    wrapped(base)
sys.exit(told())
