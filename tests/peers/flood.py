"""Floods a gateway from each side and measures what an honest call and the record pay.

Usage: flood.py COUNTERSIGN [SECONDS [MILLISECONDS]]

Three floods of SECONDS each (default 60): refused calls of the client, calls of a revoked agent, refused messages of
the server. Checks the bytes added to the log and that every refusal is counted; reports how long an honest call took
without and with the flood. With MILLISECONDS, a longer delay of the median honest call is a failure too; it needs an
idle machine.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from checks import check, told

SERVER = """
import json, sys, threading
flood, lock = threading.Event(), threading.Lock()
def say(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\\n")
        sys.stdout.flush()
def answer(message, result):
    say({"jsonrpc": "2.0", "id": message["id"], "result": result})
sent = 0
def pour():
    global sent
    while flood.is_set():
        say({"jsonrpc": "2.0", "method": "notifications/made_up"})
        sent += 1
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        answer(message, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
        tool = lambda name: {"name": name, "description": "A tool", "inputSchema": schema}
        answer(message, {"tools": [tool("get"), tool("pour"), tool("stop")]})
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "pour":
            flood.set()
            pourer = threading.Thread(target=pour)
            pourer.start()
        elif name == "stop":
            flood.clear()
            pourer.join()
        answer(message, {"content": [{"type": "text", "text": str(sent)}]})
"""

CONFIG = """
[registry]
file = "registry.json"
trust_root = "root.json"
state = "registry.state"
[session]
agent = "bot"
principal = "user@example.com"
ttl = "1h"
[record]
folder = "log"
key_file = "log.key"
origin = "flood.example/log"
[limits]
drain = "2m"
[server]
name = "s"
"""

COUNTERSIGN = Path(sys.argv[1]).resolve()
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
BOUND = float(sys.argv[3]) if len(sys.argv) > 3 else None


def countersign(folder, *args):
    done = subprocess.run([COUNTERSIGN, *args], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise SystemExit(f"countersign {' '.join(args)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


class Gateway:
    """A client of a gateway, with one thread that reads its answers."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "server.py").write_text(SERVER)
        (folder / "gateway.toml").write_text(CONFIG)
        command = ["python3", str(folder / "server.py")]
        countersign(folder, "keys", "generate", "--kind", "ed25519", "--out", "op.key", "--public-out", "op.pub")
        countersign(folder, "keys", "generate", "--kind", "log", "--origin", "flood.example/log", "--out", "log.key")
        countersign(folder, "keys", "trust", "--threshold", "1", "--out", "root.json", "op.pub")
        draft = json.loads(countersign(folder, "mcp", "inspect", "--name", "s", "--", *command))
        for tool in draft["tools"]:
            tool.update(impact="read", approval="not_required", ask="not_required")
        tools = [{"server": "s", "name": tool["name"]} for tool in draft["tools"]]
        draft["agents"] = [{"agent": "bot", "version": 1, "registered_by": "operator", "tools": tools,
                            "output_tags": [], "max_session": "1h"}]
        (folder / "draft.json").write_text(json.dumps(draft))
        countersign(folder, "registry", "sign", "draft.json", "--key", "op.key", "--ttl", "1d", "--out", "registry.json")
        self.process = subprocess.Popen(
            [COUNTERSIGN, "mcp", "run", "--config", "gateway.toml", "--", *command], cwd=folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(folder / "err").open("wb"))
        self.lock, self.answers, self.came = threading.Lock(), {}, threading.Condition()
        self.next = self.seen = 0
        threading.Thread(target=self.read, daemon=True).start()
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": "flood", "version": "1"}})
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def read(self):
        for line in self.process.stdout:
            # Answers to the flood are counted and not parsed: this client must keep up.
            self.seen += 1
            if b'"honest-' in line:
                message = json.loads(line)
                with self.came:
                    self.answers[message["id"]] = message
                    self.came.notify_all()

    def write(self, line):
        with self.lock:
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def say(self, message):
        self.write(json.dumps(message).encode() + b"\n")

    def ask(self, method, params):
        self.next += 1
        number = f"honest-{self.next}"
        self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        with self.came:
            if not self.came.wait_for(lambda: number in self.answers, timeout=120):
                raise SystemExit(f"no answer to {method}: {(self.folder / 'err').read_text()}")
            return self.answers.pop(number)

    def call(self, name):
        begin = time.monotonic()
        answer = self.ask("tools/call", {"name": name, "arguments": {"n": self.next}})
        if "error" in answer or answer["result"].get("isError"):
            raise SystemExit(f"an honest call was refused: {answer}")
        return time.monotonic() - begin, answer["result"]["content"][0]["text"]

    def honest(self, seconds):
        end, times = time.monotonic() + seconds, []
        while time.monotonic() < end:
            times.append(self.call("get")[0])
            time.sleep(0.05)
        return times

    def bytes(self):
        return sum(file.stat().st_size for file in (self.folder / "log").iterdir() if not file.name.endswith(".side"))

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=120)

    def refused(self, code):
        """Refusals on record: entries of their own and what the sums count."""
        own = sums = 0
        for file in sorted((self.folder / "log").glob("*.jsonl")):
            for line in file.read_bytes().splitlines():
                entry = json.loads(line) if line.startswith(b"{") else {}
                if entry.get("code") == code:
                    own += 1
                if entry.get("type") == "refused":
                    sums += sum(row["count"] for row in entry["rows"] if row["code"] == code)
        return own + sums


def report(name, before, during):
    delay = statistics.median(during) - statistics.median(before)
    worst = sorted(during)[int(len(during) * 0.99)] - statistics.median(before)
    print(f"      {name}: an honest call took {1e3 * statistics.median(before):.1f} ms before, "
          f"{1e3 * statistics.median(during):.1f} ms in the flood; delay: median {1e3 * delay:.1f} ms, 99 % {1e3 * worst:.1f} ms")
    if BOUND is not None:
        check(f"{name}: the median honest call is delayed by under {BOUND:g} ms", 1e3 * delay < BOUND, delay)


def pour_calls(gateway, stop):
    # A window: a gateway refuses what is over its number of outstanding requests, honest calls too.
    sent, start = 0, gateway.seen
    while not stop.is_set():
        if sent - (gateway.seen - start) > 200:
            time.sleep(0.0005)
            continue
        lines = b"".join(
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"made_up_%d","arguments":{}}}\n' % (n, n % 1000)
            for n in range(sent, sent + 20))
        gateway.write(lines)
        sent += 20
    return sent


def flooded(gateway, seconds, honest):
    stop, sent = threading.Event(), []
    pourer = threading.Thread(target=lambda: sent.append(pour_calls(gateway, stop)))
    pourer.start()
    times = gateway.honest(seconds) if honest else time.sleep(seconds)
    stop.set()
    pourer.join()
    return sent[0], times


def client(folder):
    gateway = Gateway(folder)
    before = gateway.honest(3)
    size = gateway.bytes()
    sent, during = flooded(gateway, SECONDS, honest=True)
    gateway.end()
    honest = len(during)
    added = gateway.bytes() - size
    print(f"      client: {sent} refused calls, {honest} honest ones, {added} bytes")
    report("client", before, during)
    check("client: the flood adds under 2 MiB beside the honest calls", added - honest * 4096 < 2 << 20, added)
    check("client: every refused call is counted", gateway.refused("UNDISCLOSED_TOOL") == sent, gateway.refused("UNDISCLOSED_TOOL"))


def revoked(folder):
    gateway = Gateway(folder)
    gateway.call("get")
    countersign(folder, "registry", "revoke", "registry.json", "--agent", "bot", "--key", "op.key", "--ttl", "1d",
                "--out", "next.json")
    (folder / "next.json").replace(folder / "registry.json")
    time.sleep(3)
    size = gateway.bytes()
    sent, _ = flooded(gateway, SECONDS, honest=False)
    gateway.end()
    added = gateway.bytes() - size
    print(f"      revoked: {sent} calls, {added} bytes")
    check("revoked: the flood adds under 2 MiB", added < 2 << 20, added)
    check("revoked: every refused call is counted", gateway.refused("AGENT_REVOKED") == sent, gateway.refused("AGENT_REVOKED"))


def server(folder):
    gateway = Gateway(folder)
    before = gateway.honest(3)
    size = gateway.bytes()
    gateway.call("pour")
    during = gateway.honest(SECONDS)
    _, sent = gateway.call("stop")
    gateway.end()
    honest = len(during) + 2
    added = gateway.bytes() - size
    print(f"      server: {sent} refused messages, {honest} honest calls, {added} bytes")
    report("server", before, during)
    check("server: the flood adds under 256 KiB beside the honest calls", added - honest * 4096 < 256 << 10, added)
    check("server: every message is counted", gateway.refused("METHOD_NOT_ALLOWED") == int(sent), gateway.refused("METHOD_NOT_ALLOWED"))


for part in (client, revoked, server):
    with tempfile.TemporaryDirectory() as name:
        part(Path(name))
sys.exit(told())
