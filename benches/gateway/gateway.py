"""Measures what a gateway adds to a call over standard input and output, beside a relay in C, in the same run.

Usage: gateway.py COUNTERSIGN [--json] [--rounds N] [--no-peer] [--no-million]

All subjects stand in front of the same server, which costs next to nothing, and are asked in turn. The added time of
one is the median of its round trips in a round less that of the server alone. Needs `cc`; for the peer, a virtual
environment with a pinned fastmcp is made under `target`; for the log of a million entries, `ratios-fill` has to stand
beside COUNTERSIGN.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared import ORIGIN, fastmcp, figure, prepare

HERE = Path(__file__).resolve().parent
# What a configuration says about signals.
SIGNALS = {"": "", ", with [signals]": '[signals]\non_drop = "quarantine"\n'}
PROXY = """
import sys
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
create_proxy(StdioTransport(command=sys.argv[1], args=[]), name="peer").run(show_banner=False, log_level="ERROR")
"""


class Subject:
    """A process that answers calls, and its round trips."""

    def __init__(self, command, folder=None, calls=40):
        self.calls, self.number = calls, 0
        started = time.perf_counter()
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, bufsize=0)
        self.write, self.read = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.rest = b""
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": "ratios", "version": "1"}})
        self.first = (time.perf_counter() - started) * 1e3
        os.write(self.write, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        answer = self.ask("tools/call", {"name": "get", "arguments": {"query": "rust", "limit": 7}})
        assert b'"done"' in answer, answer

    def line(self, method, params):
        self.number += 1
        return json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}).encode() + b"\n"

    def ask(self, method, params):
        return self.trip(self.line(method, params))[1]

    def trip(self, line):
        """Writes a line and reads one; returns the nanoseconds between and the answer."""
        began = time.perf_counter_ns()
        os.write(self.write, line)
        answer = b""
        while not answer.endswith(b"\n"):
            part = os.read(self.read, 1 << 16)
            if not part:
                self.errors.seek(0)
                raise SystemExit(f"a subject has ended: {self.errors.read().decode()}")
            answer += part
        return time.perf_counter_ns() - began, answer

    def round(self):
        """The median round trip of a round's calls, in microseconds."""
        trips = []
        for _ in range(self.calls):
            line = self.line("tools/call", {"name": "get", "arguments": {"query": "rust", "limit": 7}})
            trips.append(self.trip(line)[0])
        return statistics.median(trips) / 1e3

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Disk:
    """One write and one fdatasync of a record's size for each call: at the end of a file, or over what a filled file has there."""

    SIZE = 700

    def __init__(self, path, filled=0, calls=40):
        self.calls, self.at = calls, 0
        self.file = os.open(path, os.O_CREAT | os.O_WRONLY)
        os.pwrite(self.file, b"\n" * (filled * calls * self.SIZE), 0)
        os.fsync(self.file)

    def round(self):
        times = []
        for _ in range(self.calls):
            began = time.perf_counter_ns()
            os.pwrite(self.file, b"x" * self.SIZE, self.at)
            os.fdatasync(self.file)
            times.append(time.perf_counter_ns() - began)
            self.at += self.SIZE
        return statistics.median(times) / 1e3


def gateway(folder, server, durability, signals=""):
    """Writes keys, a registry and a configuration; returns the gateway's command."""
    prepare(BINARY, folder, durability, SIGNALS[signals], ["--name", "s", "--", server])
    return [BINARY, "mcp", "run", "--config", "gateway.toml", "--", server]


def row(name, values, unit, goal, aim=None, note=""):
    median, spread = figure(values) if len(values) > 1 else (values[0], 0.0)
    return {"row": name, "goal": goal, "aim": aim, "figure": median, "spread": spread, "unit": unit,
            "met": median <= goal, "note": note}


def million(work, server, signals):
    """Milliseconds until the first answer over a log of a million entries."""
    folder = work / f"million-{len(signals)}"
    command = gateway(folder, server, "system", signals)
    subprocess.run([BINARY.with_name("ratios-fill"), folder, ORIGIN, "1000000"], check=True)
    Subject(command, folder).end()  # the first start reads every entry and saves the state
    times = []
    for _ in range(5):
        subject = Subject(command, folder)
        times.append(subject.first)
        subject.end()
    return row("first answer over a log of 1,000,000 entries" + signals, times, "ms", 250)


def measure(work):
    for name in ("relay", "echo"):
        subprocess.run(["cc", "-O2", "-o", work / name, HERE / f"{name}.c"], check=True)
    server = str(work / "echo")
    subjects = {"direct": Subject([server]), "relay": Subject([work / "relay", server]),
                "syncing relay": Subject([work / "relay", "-s", work / "relayed", server])}
    for durability in ("system", "group"):
        folder = work / durability
        subjects[durability] = Subject(gateway(folder, server, durability), folder)
    subjects["disk"] = Disk(work / "disk")
    # The rounds, and the first one, which does not count.
    subjects["filled disk"] = Disk(work / "filled", ARGUMENTS.rounds + 1)
    if not ARGUMENTS.no_peer:
        subjects["fastmcp"] = Subject([*fastmcp(BINARY, work, PROXY), server], calls=10)
    for subject in subjects.values():
        subject.round()
    gc.disable()
    rounds = [{name: subject.round() for name, subject in subjects.items()} for _ in range(ARGUMENTS.rounds)]
    gc.enable()
    for subject in subjects.values():
        if isinstance(subject, Subject):
            subject.end()
    added = {name: [one[name] - one["direct"] for one in rounds] for name in subjects}
    behind = ", ".join(f"{name} {statistics.median(one[name] for one in rounds):.0f}" for name in subjects)
    ratio = lambda above, below: [a / b for a, b in zip(added[above], below)]
    floor = [relay + 1.25 * one["disk"] for relay, one in zip(added["relay"], rounds)]
    rows = [
        row("gateway, `system`, added time / relay", ratio("system", added["relay"]), "x", 3, 2,
            f"medians in us: {behind}"),
        row("gateway, `group`, added time / (relay + 1.25 write + fdatasync)", ratio("group", floor), "x", 1,
            note="a relay that writes and syncs before it passes: "
                 f"{figure(ratio('syncing relay', floor))[0]:.2f} x"),
    ]
    if not ARGUMENTS.no_peer:
        rows.append(row("gateway, `system`, added time / fastmcp proxy", ratio("system", added["fastmcp"]), "x", 1 / 20))
        rows.append(row("gateway, `group`, added time / fastmcp proxy", ratio("group", added["fastmcp"]), "x", 1 / 4))
    if not ARGUMENTS.no_million:
        rows += [million(work, server, signals) for signals in SIGNALS]
    return rows


parser = argparse.ArgumentParser()
parser.add_argument("countersign", type=Path)
parser.add_argument("--json", action="store_true")
parser.add_argument("--rounds", type=int, default=15)
parser.add_argument("--no-peer", action="store_true")
parser.add_argument("--no-million", action="store_true")
ARGUMENTS = parser.parse_args()
BINARY = ARGUMENTS.countersign.resolve()

with tempfile.TemporaryDirectory(dir=BINARY.parent) as temporary:
    ROWS = measure(Path(temporary))
if ARGUMENTS.json:
    print(json.dumps({"rounds": ARGUMENTS.rounds, "rows": ROWS}, indent=2))
else:
    print("| row | goal | aim | figure | spread | | behind it |\n| --- | --- | --- | --- | --- | --- | --- |")
    for one in ROWS:
        aim = "" if one["aim"] is None else f"<= {one['aim']:.3g}"
        verdict = "met" if one["met"] else "missed"
        print(f"| {one['row']} | <= {one['goal']:.3g} | {aim} | {one['figure']:.3g} {one['unit']} "
              f"| {one['spread']:.2g} | {verdict} | {one['note']} |")
sys.exit(0 if all(one["met"] for one in ROWS) else 1)
