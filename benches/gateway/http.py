"""Measures what a gateway adds to a call over HTTP, beside a plain axum reverse proxy and a fastmcp proxy, in the same run.

Usage: http.py COUNTERSIGN [--json] [--rounds N] [--no-peer]

All subjects stand in front of the same server, which costs next to nothing, and are asked in turn over one connection each. The added
time of one is the median of its round trips in a round less that of the server alone. `ratios-http` has to stand beside COUNTERSIGN; for
the peer, a virtual environment with a pinned fastmcp is made under `target`.
"""

import argparse
import gc
import json
import re
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from shared import fastmcp, figure, prepare

TOKEN = "0123456789abcdef0123456789abcdef"
# The rest of the table `[server]`, and the endpoint.
ENDS = """url = "http://127.0.0.1:{port}/mcp"
era = "stateless"
[server.remote]
addresses = ["127.0.0.1/32"]
[serve]
token_file = "serve.tokens"
listen = "127.0.0.1:0"
"""
PROXY = """
import sys
from fastmcp.server import create_proxy
create_proxy(sys.argv[1], name="peer").run(transport="http", port=int(sys.argv[2]), show_banner=False, log_level="ERROR")
"""
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "ratios", "version": "1"}}
CALL = {"name": "get", "arguments": {"query": "rust", "limit": 7}}


class Subject:
    """A server that answers calls of the stateless era, and its round trips."""

    def __init__(self, port, calls=200):
        self.port, self.calls, self.number = port, calls, 0
        self.connect()
        answer = self.trip(self.request())[1]
        assert b'"done"' in answer, answer

    def connect(self):
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self):
        self.number += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": {**CALL, "_meta": META}})
        return (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
                "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"
                f"Mcp-Name: get\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()

    def trip(self, request):
        """Sends a request and reads the response; returns the nanoseconds between and the response."""
        began = time.perf_counter_ns()
        self.socket.sendall(request)
        answer = b""
        while not is_whole(answer):
            part = self.socket.recv(1 << 16)
            if not part:
                raise SystemExit(f"a subject has closed its connection: {answer}")
            answer += part
        return time.perf_counter_ns() - began, answer

    def round(self):
        """The median round trip of a round's calls, in microseconds, over a new connection: a server may close one that is idle."""
        self.connect()
        self.trip(self.request())
        return statistics.median(self.trip(self.request())[0] for _ in range(self.calls)) / 1e3


def is_whole(answer):
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.I)
    return bool(end) and (len(body) >= int(length[1]) if length else body.endswith(b"0\r\n\r\n"))


def started(command, folder=None):
    """Starts a process that prints its port. Returns the port."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    PROCESSES.append(process)
    return int(re.search(r"(\d+)(/mcp)?\s*$", process.stdout.readline())[1])


def gateway(folder, port, durability):
    """Writes keys, a registry and a configuration, and starts the gateway. Returns its port."""
    prepare(BINARY, folder, durability, ENDS.format(port=port), ["--config", "gateway.toml"])
    (folder / "serve.tokens").write_text(f'[[token]]\ntoken = "{TOKEN}"\nname = "ada"\nmay = ["check"]\n')
    (folder / "serve.tokens").chmod(0o600)
    return started([BINARY, "mcp", "serve", "--config", "gateway.toml"], folder)


def peer(work, port):
    """Starts a proxy in a virtual environment with fastmcp. Returns its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = free.getsockname()[1]
    PROCESSES.append(subprocess.Popen([*fastmcp(BINARY, work, PROXY), f"http://127.0.0.1:{port}/mcp", str(own)],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", own)).close()
            return own
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the peer did not start")


def row(name, values, note=""):
    median, spread = figure(values)
    return {"row": name, "figure": median, "spread": spread, "unit": "x", "note": note}


def measure(work):
    peers = BINARY.with_name("ratios-http")
    server = started([peers, "server"])
    subjects = {"direct": Subject(server), "proxy": Subject(started([peers, "proxy", str(server)]))}
    for durability in ("system", "group"):
        subjects[durability] = Subject(gateway(work / durability, server, durability))
    if not ARGUMENTS.no_peer:
        subjects["fastmcp"] = Subject(peer(work, server), calls=20)
    for subject in subjects.values():
        subject.round()
    gc.disable()
    rounds = [{name: subject.round() for name, subject in subjects.items()} for _ in range(ARGUMENTS.rounds)]
    gc.enable()
    added = {name: [one[name] - one["direct"] for one in rounds] for name in subjects}
    behind = ", ".join(f"{name} {statistics.median(one[name] for one in rounds):.0f}" for name in subjects)
    ratio = lambda above, below: [a / b for a, b in zip(added[above], added[below])]
    rows = [row("gateway, `system`, added time / axum reverse proxy", ratio("system", "proxy"), note=f"medians in us: {behind}"),
            row("gateway, `group`, added time / axum reverse proxy", ratio("group", "proxy"))]
    if not ARGUMENTS.no_peer:
        rows += [row(f"gateway, `{name}`, added time / fastmcp proxy", ratio(name, "fastmcp")) for name in ("system", "group")]
    return rows


parser = argparse.ArgumentParser()
parser.add_argument("countersign", type=Path)
parser.add_argument("--json", action="store_true")
parser.add_argument("--rounds", type=int, default=15)
parser.add_argument("--no-peer", action="store_true")
ARGUMENTS = parser.parse_args()
BINARY = ARGUMENTS.countersign.resolve()
PROCESSES = []

with tempfile.TemporaryDirectory(dir=BINARY.parent) as temporary:
    try:
        ROWS = measure(Path(temporary))
    finally:
        for process in PROCESSES:
            process.terminate()
            process.wait(timeout=60)
if ARGUMENTS.json:
    print(json.dumps({"rounds": ARGUMENTS.rounds, "rows": ROWS}, indent=2))
else:
    print("| row | figure | spread | behind it |\n| --- | --- | --- | --- |")
    for one in ROWS:
        print(f"| {one['row']} | {one['figure']:.3g} {one['unit']} | {one['spread']:.2g} | {one['note']} |")
