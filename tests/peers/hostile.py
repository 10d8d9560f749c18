"""Puts the gateway between hostile peers: a server of each era that attacks, at each transport, and clients of each era that do.

Usage: hostile.py COUNTERSIGN NODE_MODULES. The server is `hostile_server.py`; the clients write their messages themselves. Each attack has
to end with an answer, with nothing of it in any message, and with the next call served. Prints one line a check and ends with a count.
"""

import contextlib
import itertools
import json
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from checks import check, told
from mcp_serve import HELLO, META, TOKENS, all_records, stated
from peers import COUNTERSIGN, set_up
from remote import free_port

SERVER = [sys.executable, str(Path(__file__).with_name("hostile_server.py"))]
RULES = {"act": {"impact": "read", "approval": "not_required"}}
PATIENCE = 20
# The attacks that end with a true answer, and the codes of the other ones.
TRUE = ["plain", "other ids", "ids of no kind", "twice", "requests", "notifications", "progress of others", "a decision",
        "a decision in its content", "no JSON", "members twice", "a flood", "changed tools"]
CODES = {
    "asks for input": "SERVER_ANSWER", "asks beside a result": "SERVER_ANSWER", "a type of its own": "SERVER_ANSWER", "a task": "SERVER_ANSWER",
    "a task of the other era": "SERVER_ANSWER", "a code of the gate": "server:APPROVAL_REQUIRED", "an address": "SERVER_ANSWER",
    "members by an escape": "SERVER_ANSWER", "result and error": "SERVER_ANSWER",
    "a lone surrogate": "SERVER_ANSWER", "depth": "SERVER_ANSWER", "length": "SERVER_ANSWER",
}
HTTP_CODES = {
    "http: a redirect": "SERVER_NO_ANSWER", "http: a page": "SERVER_NO_ANSWER", "http: statuses": "SERVER_NO_ANSWER",
    "http: a sign-in": "SERVER_NO_ANSWER", "http: half an answer": "SERVER_NO_ANSWER", "http: headers without end": "SERVER_NO_ANSWER",
    "http: a broken stream": "SERVER_NO_ANSWER",
}
PASSES = {"notifications/tools/list_changed", "notifications/message", "notifications/progress"}
count = itertools.count(1)


class Stdio:
    """A client over standard input and output that writes its messages itself."""

    def __init__(self, folder):
        self.process = subprocess.Popen([COUNTERSIGN, "mcp", "run", "--config", folder / "gateway.toml"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=(folder / "stderr.txt").open("a"))
        self.seen, self.waiting, self.lock = [], {}, threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            self.seen.append(message)
            with self.lock:
                waits = self.waiting.get(message.get("id")) if "method" not in message else None
            if waits:
                waits.put(message)

    def write(self, text):
        with self.lock:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()

    def ask(self, message):
        """Returns the answer, and all that came so far."""
        waits = self.waiting[message["id"]] = queue.Queue()
        self.write(json.dumps(message))
        with contextlib.suppress(queue.Empty):
            return waits.get(timeout=PATIENCE)
        return None

    def abandon(self, message):
        self.write(json.dumps(message))
        params = {"requestId": message["id"]} | ({"_meta": META} if "_meta" in message["params"] else {})
        self.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))

    def raw(self, text, id, expects=True):
        """Sends a line. Returns the answer under its id, or without one."""
        old = len(self.seen)
        self.write(text)
        if not expects:
            self.ask({"jsonrpc": "2.0", "id": f"after-{next(count)}", "method": "tools/list", "params": self.meta})
        ends = time.monotonic() + (PATIENCE if expects else 0.2)
        while True:
            for message in self.seen[old:]:
                if message.get("id") in (id, None) and "method" not in message:
                    return message
            if time.monotonic() > ends:
                return None
            time.sleep(0.002)

    def end(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE) == 0


class Http:
    """A client over HTTP that writes its messages itself."""

    def __init__(self, folder):
        self.gateway = subprocess.Popen([COUNTERSIGN, "mcp", "serve", "--config", folder / "gateway.toml"], stdout=subprocess.PIPE,
                                        stderr=(folder / "stderr.txt").open("a"), text=True)
        self.host = re.search(r"http://([^/]+)", self.gateway.stdout.readline()).group(1)
        self.seen, self.session = [], {}

    def post(self, text, headers, abandoned=False):
        connection = HTTPConnection(self.host, timeout=1 if abandoned else PATIENCE)
        given = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKENS['ada']}"}
        connection.request("POST", "/mcp", text.encode(), given | {name.replace("_", "-"): value.encode() for name, value in headers.items()})
        try:
            answer = connection.getresponse()
            body = answer.read().decode()
        except (OSError, HTTPException):
            return None, []
        finally:
            connection.close()
        if answer.headers.get("Mcp-Session-Id"):
            self.session = {"Mcp_Session_Id": answer.headers["Mcp-Session-Id"], "MCP_Protocol_Version": "2025-11-25"}
        texts = re.findall(r"^data: ?(.+)$", body, re.M) if "event-stream" in answer.headers.get("Content-Type", "") else [body] if body else []
        messages = [json.loads(text) for text in texts if text.strip()]
        self.seen += messages
        return answer.status, messages

    def headers(self, message):
        if "_meta" in message.get("params", {}):
            return stated(message["method"], message["params"].get("name"))
        return self.session

    def ask(self, message):
        _, messages = self.post(json.dumps(message), self.headers(message))
        return next((it for it in messages if it.get("id") == message["id"] and "method" not in it), None)

    def write(self, text):
        self.post(text, self.headers(json.loads(text)))

    def abandon(self, message):
        self.post(json.dumps(message), self.headers(message), abandoned=True)

    def raw(self, text, id, expects=True):
        try:
            headers = self.headers(json.loads(text))
        except (ValueError, AttributeError, RecursionError):
            headers = stated("tools/call", "act") if self.meta else self.session
        status, messages = self.post(text, headers)
        return messages[0] if messages else {"error": {}} if status and status >= 400 else None

    def end(self):
        self.gateway.send_signal(signal.SIGTERM)
        return self.gateway.wait(30) == 128 + signal.SIGTERM


def begin(kind, era, folder):
    client = kind(folder)
    client.meta = {"_meta": META} if era == "stateless" else {}
    if era == "handshake":
        client.ask({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO})
        client.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    return client


def call(client, attack, word, name="act"):
    params = {"name": name, "arguments": {"attack": attack, "word": word}, **client.meta}
    return {"jsonrpc": "2.0", "id": next(count), "method": "tools/call", "params": params}


def code_of(answer):
    if answer is None:
        return "no answer"
    if "error" in answer:
        return (answer["error"].get("data") or {}).get("code", answer["error"].get("code"))
    decision = answer["result"].get("_meta", {}).get("dev.countersign/decision", {})
    return decision.get("code") if answer["result"].get("isError") else None


def runs(client):
    """Whether a call gets its own answer."""
    word = f"word-{next(count)}"
    answer = client.ask(call(client, "plain", word))
    return code_of(answer) is None and answer["result"]["content"] == [{"type": "text", "text": word}]


def leaks(client, own):
    """What came through that may not."""
    def is_bad(message):
        text = json.dumps(message)
        is_other = ("id" in message or message["method"] not in PASSES) if "method" in message else message.get("id") not in own
        return is_other or "forged" in text or "evil.example" in text or "obey" in text or "wiped" in text or '"ACCEPT"' in text
    return [message for message in client.seen if is_bad(message)]


def accepted_in(folder):
    """The number of calls that were accepted."""
    return sum(it["type"] == "decision" and "code" not in it for it in all_records(folder))


def attacked(what, client, over_http):
    """The attacks of a server."""
    own = {"hello"}
    listed = client.ask({"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": client.meta})
    check(f"{what}: one tool is listed", [it["name"] for it in listed["result"]["tools"]] == ["act"], listed)
    client.seen.clear()
    long = {"length": "SERVER_NO_ANSWER"} if over_http else {}
    codes = dict.fromkeys(TRUE) | CODES | long | (HTTP_CODES | {"http: another's session": None} if over_http else {"a message within a line": None})
    for attack, code in codes.items():
        word = f"word-{next(count)}"
        message = call(client, attack, word)
        own.add(message["id"])
        answer = client.ask(message)
        is_true = code is not None or word in str(answer)
        check(f"{what}: {attack}", code_of(answer) == code and is_true, str(answer)[:300])
    pair = [call(client, "another's answer", f"word-{next(count)}") for _ in range(2)]
    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(client.ask, pair))
    # An answer on the stream of another's request does not count.
    lost = "SERVER_NO_ANSWER" if over_http else None
    words = [f'"{asked["params"]["arguments"]["word"]}"' for asked in pair]
    is_own = all(word in json.dumps(it) or code_of(it) == lost is not None for word, it in zip(words, answers, strict=True))
    check(f"{what}: answers in another order", is_own, answers)
    client.abandon(call(client, "silence", "x"))
    first = next(count)
    check(f"{what}: the next call is served", runs(client))
    own |= {message["id"] for message in pair} | set(range(first, next(count)))
    check(f"{what}: nothing of it came through", not leaks(client, own), str(leaks(client, own))[:600])


def attacks(what, client, folder):
    """The attacks of a client. Each gets an error, or nothing where it is no request."""
    meta, n = client.meta, lambda: next(count)
    ask = lambda method, params, id=None: {"jsonrpc": "2.0", "id": n() if id is None else id, "method": method, "params": {**params, **meta}}
    act = {"name": "act", "arguments": {"attack": "plain", "word": "w"}}
    retry = {"requestState": "0" * 32, "inputResponses": {"request": {"action": "accept"}}}
    other = {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}}
    whole = json.dumps(ask("tools/call", act, f"whole-{n()}"))
    rows = {
        "an undisclosed tool": json.dumps(call(client, "plain", "w", "wipe")),
        "a tool by another case": json.dumps(call(client, "plain", "w", "Act")),
        "a tool by a look-alike": json.dumps(call(client, "plain", "w", "\u0430ct")),
        "a tool of an empty name": json.dumps(call(client, "plain", "w", "")),
        "a prototype": json.dumps(call(client, "plain", "w", "__proto__")),
        "arguments that are no object": json.dumps(ask("tools/call", {"name": "act", "arguments": [1]})),
        "a member twice": whole.replace('"name"', '"name": "wipe", "name"', 1),
        "a member by an escape": whole.replace('"name"', '"n\\u0061me": "wipe", "name"', 1),
        "a batch": f"[{whole}]", "half a message": whole[:-3], "trailing data": whole + "{}", "a byte order mark": "\ufeff" + whole,
        "another version of JSON-RPC": whole.replace('"2.0"', '"1.0"'), "a number beyond a double": whole.replace('"w"', "1e999"),
        "depth": whole.replace('"w"', "[" * 5_000 + "]" * 5_000), "an id of null": json.dumps({**ask("tools/call", act), "id": None}),
        "an id that is a fraction": json.dumps(ask("tools/call", act, 1.5)), "an id that is an object": json.dumps(ask("tools/call", act, {"a": 1})),
        "a retry of nothing": json.dumps(ask("tools/call", {**act, **retry})), "a task of another": json.dumps(ask("tasks/get", {"taskId": "t"})),
        "an unlisted read": json.dumps(ask("resources/read", {"uri": "file:///etc/passwd"})), "an invented method": json.dumps(ask("made/up", {})),
        "a revision of the future": json.dumps({"jsonrpc": "2.0", "id": n(), "method": "tools/call", "params": {**act, **other}}),
        "a handshake too many": json.dumps(ask("initialize", HELLO)),
    }
    silent = {
        "an answer to nothing": {"jsonrpc": "2.0", "id": 99_999, "result": {}}, "a form's answer": {"jsonrpc": "2.0", "id": "form-" + "0" * 32, "result": {"action": "accept"}},
        "an input's answer": {"jsonrpc": "2.0", "id": "input-" + "0" * 32, "result": {"action": "accept"}},
        "a call without an id": {"jsonrpc": "2.0", "method": "tools/call", "params": {**act, **meta}},
        "a cancellation of another's": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "hello", **meta}},
    }
    for row, text in rows.items():
        own = re.search(r'"id": ("[^"]*"|[^,}]+)', text).group(1)
        answer = client.raw(text, json.loads(own) if not own.startswith("{") else None)
        refused = answer is not None and ("error" in answer or answer.get("result", {}).get("isError") is True)
        check(f"{what}: {row}", refused, str(answer)[:300])
    for row, message in silent.items():
        answer = client.raw(json.dumps(message), message.get("id"), expects=False)
        check(f"{what}: {row}", answer is None or "result" not in answer, answer)
    twice = json.dumps(ask("tools/call", {"name": "act", "arguments": {"attack": "silence", "word": "w"}}, "twice"))
    if isinstance(client, Stdio):
        client.write(twice)
        answer = client.raw(twice.replace("silence", "plain"), "twice", expects=False)
        check(f"{what}: an id in use", answer is None, answer)
    # Only the first of the two calls under one id may run. Its decision may still be on its way to the disk.
    expected, ends = (1 if isinstance(client, Stdio) else 0), time.monotonic() + PATIENCE
    while (accepted := accepted_in(folder)) < expected and time.monotonic() < ends:
        time.sleep(0.05)
    check(f"{what}: nothing of it was accepted", accepted == expected, accepted)
    check(f"{what}: the next call is served", runs(client))


@contextlib.contextmanager
def configured(era, over_http, durability):
    """A folder with the configuration for a hostile server of this era."""
    with tempfile.TemporaryDirectory() as name:
        folder, started = Path(name).resolve(), None
        where, source = f"command = {json.dumps([*SERVER, era])}\n", [*SERVER, era]
        remote = ""
        if over_http:
            port = free_port()
            started = subprocess.Popen([*SERVER, era, str(port)], stderr=subprocess.DEVNULL)
            for _ in range(100):
                with contextlib.suppress(OSError):
                    HTTPConnection(f"127.0.0.1:{port}", timeout=1).connect()
                    break
                time.sleep(0.1)
            url = f"http://127.0.0.1:{port}/mcp"
            where, source = f'url = "{url}"\n', ["--url", url, "--address", "127.0.0.1/32"]
            remote = '[server.remote]\naddresses = ["127.0.0.1/32"]\n'
        set_up(folder, "hostile", source, RULES, era)
        tokens = "".join(f'[[token]]\ntoken = "{token}"\nname = "{name}"\nmay = ["check"]\n' for name, token in TOKENS.items())
        (folder / "serve.tokens").write_text(tokens)
        (folder / "serve.tokens").chmod(0o600)
        config = folder / "gateway.toml"
        config.write_text(config.read_text().replace("[record]\n", f'[record]\ndurability = "{durability}"\n')
                          + f'{where}era = "{era}"\n{remote}[serve]\ntoken_file = "serve.tokens"\nlisten = "127.0.0.1:0"\n')
        try:
            yield folder
        finally:
            if started:
                started.kill()
                started.wait()


def one(server_era, server_http, kind, client_era):
    at = f"{'URL' if server_http else 'stdio'} server, {server_era} era; {kind.__name__.lower()} client, {client_era} era"
    # Each durability with each pair of eras and transports: the gateway decides in another thread under `system`.
    durability = ("group", "system")[(server_era == client_era) ^ server_http ^ (kind is Http)]
    with configured(server_era, server_http, durability) as folder:
        client = begin(kind, client_era, folder)
        try:
            # First, so that the calls that run can be counted.
            attacks(f"{at}: client attacks", client, folder)
            attacked(f"{at}: server attacks", client, server_http)
        finally:
            check(f"{at}: ends in order", client.end())
        accepted = accepted_in(folder)
        outcomes = sum(it["type"] == "outcome" for it in all_records(folder))
        check(f"{at}: each accepted call has one outcome", accepted == outcomes, (accepted, outcomes))


def main():
    for pair in itertools.product(("handshake", "stateless"), (False, True), (Stdio, Http), ("handshake", "stateless")):
        one(*pair)


if __name__ == "__main__":
    main()
    sys.exit(told())
