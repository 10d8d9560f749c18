"""Reads what the gateway exports with readers that nobody here wrote: Prometheus' parser and OTLP's own messages.

Usage: telemetry.py COUNTERSIGN NODE_MODULES

COUNTERSIGN is the binary, built with the features `prometheus` and `otel`; NODE_MODULES holds
@modelcontextprotocol/server-filesystem. Needs the packages `prometheus-client` and `opentelemetry-proto`. Prints one
line a check and ends with a count.
"""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from checks import check, told
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from prometheus_client.parser import text_string_to_metric_families

COUNTERSIGN = Path(sys.argv[1]).resolve()
MODULES = Path(sys.argv[2]).resolve()
OWN_NODE = MODULES / ".bin" / "node"
NODE = str(OWN_NODE) if OWN_NODE.exists() else shutil.which("node")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
MADE_UP = 50
OUTAGES = ("REGISTRY_STALE", "STORE_CLOCK_AHEAD", "STORE_UNAVAILABLE", "AUDIT_UNAVAILABLE", "INTERNAL")
SECRET = "a-name-that-is-nobodys-business"


class Collector:
    """Receives OTLP over HTTP, or accepts requests and never answers them."""

    def __init__(self, answers=True):
        self.requests, self.headers, self.paths = [], [], []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.paths.append(self.path)
                collector.headers.append(dict(self.headers))
                collector.requests.append(body)
                if not answers:
                    time.sleep(60)
                reply = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def messages(self):
        return [ExportTraceServiceRequest.FromString(body) for body in self.requests]

    def spans(self):
        return [span for message in self.messages() for resource in message.resource_spans
                for scope in resource.scope_spans for span in scope.spans]


class Gateway:
    """The real gateway in front of the real server, with a client."""

    def __init__(self, folder, **environment):
        docs = folder / "docs"
        server = [NODE, str(MODULES / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"), str(docs)]
        command = [COUNTERSIGN, "mcp", "run", "--config", "gateway.toml", "--", *server]
        self.process = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.errors = []
        self.reader = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self.reader.start()
        self.number = 0
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})
        self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tell(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.number += 1
        self.tell({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.number and "method" not in message:
                return message["result"]
        raise SystemExit(f"the gateway ended: {self.errors}")

    def call(self, tool, arguments, traceparent=None):
        meta = {"_meta": {"traceparent": traceparent}} if traceparent is not None else {}
        return self.ask("tools/call", name=tool, arguments=arguments, **meta)

    def end(self):
        """Closes its input. Returns the time until it ended, and its output."""
        began = time.monotonic()
        self.process.stdin.close()
        code = self.process.wait(60)
        self.reader.join(10)
        said = [line for line in self.errors if re.match("(error|warning) ", line)]
        return time.monotonic() - began, code, said


def countersign(folder, *args):
    done = subprocess.run([COUNTERSIGN, *args], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise SystemExit(f"countersign {' '.join(args)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def set_up(folder, exports):
    docs = folder / "docs"
    docs.mkdir()
    (docs / f"{SECRET}.txt").write_text("hello\n")
    countersign(folder, "keys", "generate", "--kind", "ed25519", "--out", "op.key", "--public-out", "op.pub")
    countersign(folder, "keys", "trust", "--threshold", "1", "--out", "root.json", "op.pub")
    countersign(folder, "keys", "generate", "--kind", "log", "--origin", "example.com/log", "--out", "log.key",
                "--public-out", "log.vkey")
    index = MODULES / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
    draft = json.loads(countersign(folder, "mcp", "inspect", "--name", "files", "--", NODE, str(index), str(docs)))
    rule = {"impact": "read", "approval": "not_required",
            "constraints": [{"kind": "path_within", "at": "/path", "roots": [str(docs)]}]}
    draft["tools"] = [dict(tool, **rule) for tool in draft["tools"] if tool["name"] in ("read_text_file", "write_file")]
    draft["agents"] = [{"agent": "tidy-bot", "version": 1, "registered_by": "operator", "output_tags": [],
                        "max_session": "1h", "tools": [{"server": "files", "name": "read_text_file"}]}]
    (folder / "draft.json").write_text(json.dumps(draft))
    countersign(folder, "registry", "sign", "draft.json", "--key", "op.key", "--ttl", "1d", "--out", "registry.json")
    (folder / "gateway.toml").write_text(f"""
[registry]
file = "registry.json"
trust_root = "root.json"
state = "registry.state"
[session]
agent = "tidy-bot"
principal = "user@example.com"
goal = "Tidy up the notes"
ttl = "1h"
[record]
folder = "log"
key_file = "log.key"
origin = "example.com/log"
[server]
name = "files"
{exports}
""")
    return docs


def scrape(folder):
    """The metrics that the gateway writes next."""
    file, begins = folder / "countersign.prom", time.time()
    for _ in range(100):
        text = file.read_text()
        written = re.search(r"^countersign_written_seconds{.*} (.*)$", text, re.MULTILINE)
        if written and float(written[1]) > begins:
            return text
        time.sleep(0.1)
    raise SystemExit(f"the file is not written: {text}")


def documented():
    """Name to type and labels, from the table of the documentation."""
    rows = [line.split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `countersign_")]
    return {row[1].strip(" `"): (row[2].strip(), frozenset(re.findall("`([^`]+)`", row[4]))) for row in rows}


def exported(families):
    """Name to type and labels, from the scraped families. Prometheus' parser strips `_total` from a counter's name."""
    found = {}
    for family in families:
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = frozenset(label for sample in family.samples for label in sample.labels) - {"le"}
        found[name] = (family.type, labels)
    return found


def value(families, name, **labels):
    return sum(sample.value for family in families for sample in family.samples
               if sample.name == name and labels.items() <= sample.labels.items())


def attributes(span):
    def plain(one):
        return getattr(one, one.WhichOneof("value"))
    return {pair.key: plain(pair.value) for pair in span.attributes}


def served(folder, answers):
    """The service has the gateway's counts, while the gateway runs and from the same configuration."""
    token = "t" * 32
    (folder / "serve.tokens").write_text(f'[[token]]\ntoken = "{token}"\nname = "prometheus"\nmay = ["read"]\n')
    (folder / "serve.tokens").chmod(0o600)
    port = free_port()
    config = (folder / "gateway.toml").read_text()
    (folder / "serve.toml").write_text(f'{config}\n[serve]\nlisten = "127.0.0.1:{port}"\ntoken_file = "serve.tokens"\n')
    service = subprocess.Popen([COUNTERSIGN, "serve", "--config", str(folder / "serve.toml")], stdout=subprocess.DEVNULL)

    def get(credential):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {credential}"})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()

    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        status, kind, text = get(token)
        check("the service answers a scrape", status == 200 and kind.startswith("text/plain"), (status, kind))
        families = list(text_string_to_metric_families(text))
        check("with the gateway's counts", value(families, "countersign_answers_total") == answers, text)
        check("and no gauge of the gateway", value(families, "countersign_alarm_raised", agent="tidy-bot") == 0, text)
        check("no one else reads them", get("x" * 32)[0] == 401)
        file = folder / "countersign.prom"
        good = file.read_text()
        file.write_text(good.replace("# EOF", ""))
        status, _, text = get(token)
        damaged = status, json.loads(text)["code"]
        file.write_text(good)
        check("a damaged file fails the scrape", damaged[0] == 503, damaged)
    finally:
        service.terminate()
        service.wait(20)


def everything(folder):
    collector = Collector()
    docs = set_up(folder, f"""
[metrics]
file = "countersign.prom"
interval = "1s"
[traces]
endpoint = "{collector.endpoint}"
service_name = "tidy-desk"
""")
    gateway = Gateway(folder, OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20t0ken")
    first = {"families": list(text_string_to_metric_families(scrape(folder)))}
    check("nothing says a rate before the first decision",
          not [s for f in first["families"] if f.name == "countersign_acceptance_ratio" for s in f.samples], first)
    begins = first["families"]
    zeros = {(sample.labels.get("code"), sample.value) for family in begins for sample in family.samples
             if sample.name == "countersign_unavailable_total"}
    check("each outage code begins at 0", zeros == {(code, 0) for code in OUTAGES}, zeros)
    attempts = [sample.value for family in begins for sample in family.samples
                if sample.name == "countersign_undisclosed_attempts_total"]
    check("undisclosed attempts begin at 0", attempts == [0], attempts)
    age = time.time() - value(begins, "countersign_session_started_seconds", agent="tidy-bot")
    check("the session's start is its time", 0 <= age < 120, age)
    age = time.time() - value(begins, "countersign_written_seconds", agent="tidy-bot")
    check("the file has its time", -1 <= age < 60, age)
    path = str(docs / f"{SECRET}.txt")
    good = gateway.call("read_text_file", {"path": path}, f"00-{TRACE}-{PARENT}-01")
    check("a call comes through", not good.get("isError"), good)
    gateway.call("read_text_file", {"path": path}, f"00-{TRACE}-{PARENT}-00")
    gateway.call("read_text_file", {"path": path})
    gateway.call("read_text_file", {"path": path}, f"01-{TRACE}-{PARENT}-01")
    gateway.call("read_text_file", {"path": str(docs / "missing.txt")}, f"00-{TRACE}-{PARENT}-01")
    gateway.call("read_text_file", {"path": "/etc/passwd"}, f"00-{TRACE}-{PARENT}-01")
    for number in range(MADE_UP):
        gateway.call(f"made_up_{number}", {"x": SECRET})
    gateway.call("write_file", {"path": path, "content": SECRET})

    text = scrape(folder)
    families = list(text_string_to_metric_families(text))
    answers = 5 + 1 + MADE_UP + 1
    # No checkpoint is kept elsewhere here, so its two gauges are missing.
    due = {name: form for name, form in documented().items() if not name.startswith("countersign_checkpoint_")}
    check("all but two are due without a kept checkpoint", len(due) == len(documented()) - 2, due)
    check("the documented names, types and labels are exported", exported(families) == due, (exported(families), due))
    check("each is described", all(family.documentation for family in families), families)
    mine = {"agent": "tidy-bot"}
    check("accepted calls are counted", value(families, "countersign_answers_total", code="ACCEPTED", server="files",
          tool="read_text_file", **mine) == 5, text)
    check("so are refusals by code", value(families, "countersign_answers_total", code="ARGS_CONSTRAINT", **mine) == 1)
    check("all answers are", value(families, "countersign_answers_total") == answers, text)
    unknown = [sample for family in families for sample in family.samples if sample.labels.get("tool") == "(unknown)"]
    check("fifty made-up names make one series", len(unknown) == 1 and unknown[0].value == MADE_UP
          and unknown[0].labels["server"] == "(unknown)" and unknown[0].labels["code"] == "UNDISCLOSED_TOOL", unknown)
    check("a tool that only others have has a name", value(families, "countersign_answers_total", tool="write_file",
          code="UNDISCLOSED_TOOL") == 1, text)
    check("undisclosed attempts are counted",
          value(families, "countersign_undisclosed_attempts_total", **mine) == MADE_UP + 1)
    rate = value(families, "countersign_acceptance_ratio", **mine)
    check("the acceptance is that of the calls", abs(rate - 5 / answers) < 1e-9, rate)
    check("outcomes are counted", (value(families, "countersign_outcomes_total", outcome="returned"),
          value(families, "countersign_outcomes_total", outcome="failed")) == (4, 1), text)
    check("every answer was timed", value(families, "countersign_answer_duration_seconds_count") == answers, text)
    bounds = [sample.labels["le"] for family in families for sample in family.samples
              if sample.name == "countersign_answer_duration_seconds_bucket"]
    check("the histogram's bounds are the gate's", (bounds[0], bounds[-2], bounds[-1], len(bounds))
          == ("0.000001", "10", "+Inf", 23), bounds)
    check("no argument and no made-up name is in the metrics", SECRET not in text and "made_up" not in text, text)
    level = value(families, "countersign_alarm_level_ratio", **mine)
    check("the alarm's level is between 0 and 1", 0 < level <= 1, level)
    check("it is raised by now", value(families, "countersign_alarm_raised", **mine) == (level == 1), text)
    served(folder, answers)
    gateway.call("read_text_file", {"path": path})
    took, code, said = gateway.end()
    check("the gateway ends well", (code, [line for line in said if "TRACES" in line]) == (0, []), (code, said))
    last = list(text_string_to_metric_families((folder / "countersign.prom").read_text()))
    check("the file says at the end what there was", value(last, "countersign_answers_total") == answers + 1)
    check("it has no gauges of a gateway that ended", not [f for f in last if f.type == "gauge"], last)
    check("nothing else is left", [file.name for file in folder.glob(".countersign-*")] == [])

    entries = [json.loads(line) for line in countersign(folder, "audit", "show", "log", "--json").splitlines()]
    decisions = {entry["seq"]: entry for entry in entries if entry["type"] == "decision"}
    spans = collector.spans()
    check("each call has a span", len(spans) == len(decisions) == answers + 1, (len(spans), len(decisions)))
    check("sent where they were to go", set(collector.paths) == {"/v1/traces"}, collector.paths)
    check("with the headers of the environment",
          all(headers.get("authorization") == "Bearer t0ken" for headers in collector.headers), collector.headers)
    about = {frozenset((pair.key, pair.value.string_value) for pair in resource.resource.attributes
                       if pair.key == "service.name") for message in collector.messages() for resource in message.resource_spans}
    check("the service has its name", about == {frozenset({("service.name", "tidy-desk")})}, about)
    by_number = {attributes(span)["countersign.record.sequence"]: span for span in spans}
    check("each names its entry in the record, with its code", all(
        attributes(span)["countersign.code"] == decisions[number].get("code", "ACCEPTED")
        and attributes(span)["gen_ai.tool.call.id"] == decisions[number]["call_id"]
        and attributes(span)["gen_ai.conversation.id"] == decisions[number]["session"]
        and attributes(span)["countersign.registry.version"] == decisions[number]["registry_version"]
        and span.start_time_unix_nano == decisions[number]["time"] * 1_000_000
        for number, span in by_number.items()) and by_number.keys() == decisions.keys())
    ordered = [by_number[number] for number in sorted(by_number)]
    check("the parent is the client's span, sampled or not",
          all(span.trace_id.hex() == TRACE and span.parent_span_id.hex() == PARENT for span in ordered[:2]), ordered[:2])
    check("what is no traceparent of version 00 makes no parent",
          all(span.trace_id.hex() != TRACE and not span.parent_span_id for span in ordered[2:4]), ordered[2:4])
    check("an accepted call is no error and lasts", ordered[0].status.code == Status.STATUS_CODE_UNSET
          and ordered[0].end_time_unix_nano >= ordered[0].start_time_unix_nano, ordered[0])
    check("its name is the tool's, its kind that of a server",
          (ordered[0].name, ordered[0].kind) == ("execute_tool read_text_file", Span.SPAN_KIND_SERVER), ordered[0])
    check("the conventions' attributes are there", attributes(ordered[0]).items() >= {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read_text_file", "gen_ai.agent.id": "tidy-bot",
        "mcp.method.name": "tools/call", "jsonrpc.request.id": "2", "network.transport": "pipe"}.items(), ordered[0])
    errors = [attributes(span).get("error.type") for span in ordered[:7]]
    check("errors have a type", errors == [None] * 4 + ["tool_error", "ARGS_CONSTRAINT", "UNDISCLOSED_TOOL"], errors)
    check("and the status of one", [span.status.code for span in ordered[4:7]] == [Status.STATUS_CODE_ERROR] * 3)
    check("a made-up name is nobody's", all(span.name == "execute_tool (unknown)" for span in ordered[6:7 + MADE_UP]))
    raw = b"".join(collector.requests)
    check("no argument, person, goal or made-up name is in a span", not [
        secret for secret in (SECRET, "made_up", "/etc/passwd", "user@example.com", "Tidy up", "missing.txt")
        if secret.encode() in raw])


def several_sessions(folder):
    set_up(folder, '[metrics]\nfile = "countersign.prom"\ninterval = "1s"')

    def written():
        return list(text_string_to_metric_families((folder / "countersign.prom").read_text()))

    for attempts in (30, 40):
        gateway = Gateway(folder)
        for number in range(attempts):
            gateway.call(f"made_up_{number}", {})
        gateway.end()
    check("sessions of 30 and 40 attempts into one file are 70",
          value(written(), "countersign_undisclosed_attempts_total", agent="tidy-bot") == 70, written())
    check("their answers were timed together", value(written(), "countersign_answer_duration_seconds_count") == 70)
    gateway = Gateway(folder)
    gateway.call("made_up", {})
    time.sleep(3)
    gateway.process.kill()
    gateway.process.wait(60)
    check("one that was killed leaves its counters", value(written(), "countersign_undisclosed_attempts_total") == 71)
    age = time.time() - value(written(), "countersign_written_seconds", agent="tidy-bot")
    check("and their age", 0 <= age < 60, age)


def without_a_collector(folder, collector, endpoint, name):
    docs = set_up(folder, f'[traces]\nendpoint = "{endpoint}"\n')
    gateway = Gateway(folder)
    path = {"path": str(docs / f"{SECRET}.txt")}
    began = time.monotonic()
    answers = [gateway.call("read_text_file", path) for _ in range(600)]
    took = time.monotonic() - began
    check(f"{name}: every call is answered", not [answer for answer in answers if answer.get("isError")])
    check(f"{name}: none waits for it", took < 20, took)
    took, code, said = gateway.end()
    check(f"{name}: the end waits a little", code == 0 and took < 10, (code, took))
    lost = [line for line in said if line.startswith("warning TRACES_LOST: 600 spans ")]
    check(f"{name}: what was lost is told", len(lost) == 1, said)
    if collector:
        check(f"{name}: it was asked", collector.requests)


def main():
    with tempfile.TemporaryDirectory() as folder:
        everything(Path(folder).resolve())
    with tempfile.TemporaryDirectory() as folder:
        several_sessions(Path(folder).resolve())
    with tempfile.TemporaryDirectory() as folder:
        nowhere = f"http://127.0.0.1:{free_port()}/v1/traces"
        without_a_collector(Path(folder).resolve(), None, nowhere, "no collector")
    with tempfile.TemporaryDirectory() as folder:
        silent = Collector(answers=False)
        without_a_collector(Path(folder).resolve(), silent, silent.endpoint, "a collector that never answers")
    sys.exit(told())


main()
