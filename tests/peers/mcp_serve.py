"""Puts `countersign mcp serve` between clients over Streamable HTTP and servers over standard input and output.

Usage: mcp_serve.py COUNTERSIGN NODE_MODULES [SESSIONS [PART...]]

SESSIONS is the number of sessions that a caller opens and abandons, 500 by default. A PART is `eras`, `rules`, `streams` or `crowds`.
COUNTERSIGN is the binary; NODE_MODULES holds @modelcontextprotocol/server-everything and inspector. The clients are the package
`mcp`, the Inspector, and plain requests. Prints one line a check and ends with a count.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import httpx2
from checks import check, told
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from peers import MODULES, countersign, dump, refusal, server, set_up

TOKENS = {name: f"{name}-{'0123456789abcdef' * 2}" for name in ("ada", "bob")}
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "plain", "version": "1"}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "plain", "version": "1"}}


@contextlib.contextmanager
def served(folder, name, command, rules, more="", port=0, oauth="", serves=None, sessions=12):
    set_up(folder, name, command, rules)
    tokens = "".join(f'[[token]]\ntoken = "{token}"\nname = "{name}"\nmay = ["check"]\n' for name, token in TOKENS.items())
    (folder / "serve.tokens").write_text(tokens)
    (folder / "serve.tokens").chmod(0o600)
    with (folder / "gateway.toml").open("a") as config:
        config.write(f'{more}\n[serve]\ntoken_file = "serve.tokens"\nlisten = "127.0.0.1:{port}"\nsessions = {sessions}\n{oauth}')
    errors = (folder / "stderr.txt").open("w")
    started = command if serves is None else serves
    gateway = subprocess.Popen([COUNTERSIGN, "mcp", "serve", "--config", folder / "gateway.toml", *(["--", *started] if started else [])],
                               stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        line = gateway.stdout.readline()
        yield re.search(r"http://\S+", line).group(), gateway
    finally:
        gateway.send_signal(signal.SIGTERM)
        code = gateway.wait(30)
        check(f"{name}: a signal ends the endpoint in order", code == 128 + signal.SIGTERM, code)


def post(url, message, token=TOKENS["ada"], raw=None, method="POST", **headers):
    """Sends one plain request. Returns status, headers and body."""
    host, path = url.removeprefix("http://").split("/", 1)
    connection = HTTPConnection(host, timeout=30)
    given = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if token:
        given["Authorization"] = f"Bearer {token}"
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    given = {name: value for name, value in given.items() if value is not None}
    body = raw if raw is not None else json.dumps(message) if message is not None else None
    connection.request(method, "/" + path, body, given)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def request(method, params=None, id=1, **meta):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**(params or {}), "_meta": {**META, **meta}}}


def stated(method, name=None, version="2026-07-28"):
    return {"MCP_Protocol_Version": version, "Mcp_Method": method, **({"Mcp_Name": name} if name else {})}


def error_of(text):
    return json.loads(text).get("error", {}).get("code")


def all_records(folder):
    lines = [json.loads(line) for file in sorted((folder / "log").rglob("*.jsonl")) for line in file.read_text().split("\n")[:-1]]
    return [line for line in lines if "seq" in line]


@contextlib.asynccontextmanager
async def client(url, mode, name="ada", **options):
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKENS[name]}"}, timeout=30) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode, **options) as one:
            yield one


def inspector(url, mode):
    """The Inspector, whose client is the TypeScript SDK."""
    def asks(*args):
        done = subprocess.run([MODULES / ".bin" / "mcp-inspector", "--cli", url, "--transport", "http", "--protocol-era", mode,
                               "--header", f"Authorization: Bearer {TOKENS['ada']}", *args], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": f"{MODULES / '.bin'}:{os.environ['PATH']}"})
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    listed = asks("--method", "tools/list")
    check(f"http: Inspector {mode} lists", sorted(tool["name"] for tool in listed["tools"]) == ["ask", "plain"], listed)
    called = asks("--method", "tools/call", "--tool-name", "plain")
    check(f"http: Inspector {mode} calls", called["content"][0]["text"] == "done", called)


async def eras(folder):
    """A stock client in each of its modes, in front of a server of either era."""
    free, asked = {"impact": "read", "approval": "not_required"}, {"impact": "write", "approval": "required"}
    for era in ("both", "modern"):
        place = folder / era
        place.mkdir()
        command = [sys.executable, str(Path(__file__).with_name("asking_server.py")), str(place / "got.jsonl"), era]
        with served(place, "asking", command, {"plain": free, "ask": asked}) as (url, _):
            for mode, version in (("2026-07-28", "2026-07-28"), ("auto", "2026-07-28"), ("legacy", "2025-11-25")):
                what = f"http: {mode} and {era}"
                async with client(url, mode) as one, client(url, mode, "bob") as other:
                    check(f"{what} connects", one.protocol_version == version, one.protocol_version)
                    check(f"{what} lists", sorted(tool.name for tool in (await one.list_tools()).tools) == ["ask", "plain"])
                    both = await asyncio.gather(*(it.call_tool("plain", {}) for it in (one, other) * 10))
                    check(f"{what} calls", all(done.content[0].text == "done" for done in both), dump(both[0]))
                    unlisted = await one.call_tool("nothing", {})
                    check(f"{what} is refused", refusal(unlisted) == "UNDISCLOSED_TOOL", dump(unlisted))
                    waits = await one.call_tool("ask", {})
                    check(f"{what} waits for an approval", refusal(waits) == "APPROVAL_REQUIRED", dump(waits))
                    waiting = waits.meta["dev.countersign/decision"]["approval_id"]
                    countersign(place, "approve", waiting, "--config", "gateway.toml", "--yes")
                    try:
                        done = refusal(await one.call_tool("ask", {}))
                    except Exception as error:
                        # The server asks for input instead of answering, which is its fault.
                        done = getattr(error, "error", error)
                    check(f"{what} runs an approved call", getattr(done, "code", done) == -32603, done)
                    again = await one.call_tool("ask", {})
                    check(f"{what} is refused again", refusal(again) == "APPROVAL_REQUIRED", dump(again))
            if era == "both":
                for mode in ("legacy", "modern", "auto"):
                    inspector(url, mode)
        sessions = {line["session"]: line.get("principal") for line in all_records(place) if line["type"] == "session" and "principal" in line}
        check(f"http: {era}: the principal is the caller", set(sessions.values()) == {"ada", "bob"}, sessions)
        done = subprocess.run([COUNTERSIGN, "audit", "verify", place / "log", "--key", place / "log.vkey"], capture_output=True, text=True)
        check(f"http: {era}: the logs verify", done.returncode == 0 and "logs verified" in done.stdout, (done.stdout, done.stderr))


def rules(folder):
    """Plain requests: who may call, and what a header may say."""
    free = {"impact": "read", "approval": "not_required"}
    command = [sys.executable, str(Path(__file__).with_name("asking_server.py")), str(folder / "got.jsonl"), "both"]
    with served(folder, "asking", command, {"plain": free}, "[limits]\nclient_line = 65536\n") as (url, _):
        call = request("tools/call", {"name": "plain", "arguments": {}})
        told_call = stated("tools/call", "plain")
        status, headers, text = post(url, call, None, **told_call)
        check("http: no token is 401", status == 401 and headers["WWW-Authenticate"].startswith("Bearer"), (status, text))
        check("http: a wrong token is 401", post(url, call, "x" * 40, **told_call)[0] == 401)
        check("http: a token in the query is 401", post(url + "?access_token=" + TOKENS["ada"], call, None, **told_call)[0] == 401)
        check("http: a foreign origin is 403", post(url, call, Origin="http://evil.example", **told_call)[0] == 403)
        check("http: a foreign host is 403", post(url, call, Host="evil.example", **told_call)[0] == 403)
        own = "http://" + url.removeprefix("http://").split("/")[0]
        status, _, text = post(url, call, Origin=own, **told_call)
        check("http: a call with matching headers runs", status == 200 and '"done"' in text, (status, text))
        check("http: its id comes back", json.loads(text)["id"] == 1, text)
        for what, wrong in [("version", {"MCP_Protocol_Version": "2025-11-25"}), ("method", {"Mcp_Method": "tools/list"}),
                            ("name", {"Mcp_Name": "nothing"}), ("name's case", {"Mcp_Name": "Plain"}),
                            ("missing version", {"MCP_Protocol_Version": None}), ("missing method", {"Mcp_Method": None}),
                            ("missing name", {"Mcp_Name": None}), ("encoded name", {"Mcp_Name": "=?base64?bm90aGluZw==?="})]:
            status, _, text = post(url, call, **{**told_call, **wrong})
            check(f"http: another {what} is 400", status == 400 and error_of(text) == -32020 and json.loads(text)["id"] == 1, (status, text))
        status, _, text = post(url, call, **{**told_call, "Mcp_Name": "=?base64?cGxhaW4=?="})
        check("http: an encoded name is decoded", status == 200, (status, text))
        other = request("tools/list", **{"io.modelcontextprotocol/protocolVersion": "2099-01-01"})
        status, _, text = post(url, other, **stated("tools/list", version="2099-01-01"))
        check("http: an unknown revision is 400", status == 400 and error_of(text) == -32022, (status, text))
        status, _, text = post(url, request("tools/destroy"), **stated("tools/destroy"))
        check("http: an unknown method is 404", status == 404 and error_of(text) == -32601, (status, text))
        check("http: GET without a session is 405", post(url, None, method="GET")[0] == 405)
        check("http: PUT is 405", post(url, call, method="PUT")[0] == 405)
        check("http: another path is 404", post(url + "s", call, **told_call)[0] == 404)
        check("http: a client that takes no stream is 406", post(url, call, Accept="application/json", **told_call)[0] == 406)
        check("http: another type is 415", post(url, call, Content_Type="text/plain", **told_call)[0] == 415)
        big = request("tools/call", {"name": "plain", "arguments": {"x": "y" * 65536}})
        check("http: a message over the limit is 413", post(url, big, **told_call)[0] == 413)
        for what, raw in [("no JSON", "{"), ("a batch", json.dumps([call])), ("a name twice", '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}'),
                          ("a line feed in a string", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pl\nain"}}')]:
            status, _, text = post(url, None, raw=raw, **told_call)
            check(f"http: {what} is 400", status == 400 and "error" in json.loads(text), (status, text))

        begin = {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": HELLO}
        status, headers, text = post(url, begin)
        session = headers["Mcp-Session-Id"]
        check("http: initialize begins a session", status == 200 and len(session) > 32 and json.loads(text)["id"] == "a", (status, text))
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        plain = {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "plain", "arguments": {}}}
        of_session = {"Mcp_Session_Id": session, "MCP_Protocol_Version": "2025-11-25"}
        status, _, text = post(url, ready, **of_session)
        check("http: a notification is 202", status == 202 and not text, (status, text))
        status, _, text = post(url, plain, **of_session)
        check("http: a call of the session runs", status == 200 and json.loads(text)["id"] == "b" and '"done"' in text, (status, text))
        check("http: without the session it is 400", post(url, plain)[0] == 400)
        check("http: another's session is 404", post(url, plain, TOKENS["bob"], **of_session)[0] == 404)
        check("http: an invented session is 404", post(url, plain, Mcp_Session_Id="mcp-" + "0" * 32)[0] == 404)
        check("http: another revision is 400", post(url, plain, **{**of_session, "MCP_Protocol_Version": "2025-06-18"})[0] == 400)
        check("http: the end of another's session is 404", post(url, None, TOKENS["bob"], method="DELETE", **of_session)[0] == 404)
        check("http: the session ends", post(url, None, method="DELETE", **of_session)[0] in (200, 204))
        check("http: an ended session is 404", post(url, plain, **of_session)[0] == 404)
        opened = [post(url, begin) for _ in range(12)]
        kept = [headers["Mcp-Session-Id"] for status, headers, _ in opened if status == 200]
        full = [status for status, _, _ in opened if status != 200]
        check("http: abandoned sessions make room", not full and len(set(kept)) == 12, (len(kept), full))
        status = [post(url, {**plain, "id": n}, Mcp_Session_Id=kept[n])[0] for n in (0, -1)]
        check("http: the latest sessions are kept", status == [404, 200], status)
        status, _, text = post(url, call, TOKENS["bob"], **told_call)
        check("http: another caller is served meanwhile", status == 200 and '"done"' in text, (status, text))
    late = folder / "late"
    late.mkdir()
    slow = ["sh", "-c", 'test "$0" = now || sleep 7; exec "$@"', str(late), *command]
    set_up_command = ["sh", "-c", 'exec "$@"', "now", *command]
    with served(late, "asking", set_up_command, {"plain": free}, serves=slow) as (url, _):
        status, headers, text = post(url, begin)
        session = headers["Mcp-Session-Id"]
        check("http: a server that starts slowly is initialized", status == 200 and '"id": "a"' in text.replace('":"', '": "'), (status, text))
        status, _, text = post(url, plain, Mcp_Session_Id=session)
        post(url, ready, Mcp_Session_Id=session)
        status, _, text = post(url, {**plain, "id": "c"}, Mcp_Session_Id=session)
        check("http: its session goes on", status == 200 and '"done"' in text, (status, text))
    codes = [line.get("code") for line in all_records(folder) if line["type"] == "decision"]
    check("http: the bodies that were no message are on record", codes.count("MALFORMED_CALL") == 1, codes)
    refused = [line.get("code") for line in all_records(folder) if line["type"] == "gateway"]
    check("http: so are the refused messages", {"JSON_SYNTAX", "BATCH"} & set(refused) != set(), refused)


def events(answer, most=1_000):
    """Reads events as pairs of id and message, until the stream ends."""
    found, id = [], None
    for line in answer:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            id = value
        elif name == "data":
            message = json.loads(value) if value else None
            if message and message.get("method") == "notifications/tools/list_changed":
                continue
            found.append((id, message))
            if len(found) == most:
                break
    return found


def resumed(url):
    """A stream of the handshake era that breaks off goes on."""
    session = post(url, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})[1]["Mcp-Session-Id"]
    post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, Mcp_Session_Id=session)
    host, path = url.removeprefix("http://").split("/", 1)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "Authorization": f"Bearer {TOKENS['ada']}", "Mcp-Session-Id": session}

    def stream(method, body=None, **more):
        connection = HTTPConnection(host, timeout=30)
        connection.request(method, "/" + path, body, headers | more)
        return connection, connection.getresponse()

    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "trigger-long-running-operation", "arguments": {"duration": 3, "steps": 3}, "_meta": {"progressToken": "p"}}}
    connection, answer = stream("POST", json.dumps(call))
    (first, progress), = events(answer, 1)
    check("http: an event of the handshake era has an id", first and progress["params"]["progress"] == 1, (first, progress))
    connection.sock.close()
    answer.close()
    rest = events(stream("GET", **{"Last-Event-ID": first})[1])
    got = [message["params"]["progress"] if "params" in message else message["id"] for _, message in rest]
    check("http: a broken stream goes on behind its last event", got == [2, 3, 2] and "result" in rest[-1][1], rest)
    again = events(stream("GET", **{"Last-Event-ID": rest[0][0]})[1])
    check("http: it can be resumed once it has ended", [id for id, _ in again] == [id for id, _ in rest[1:]], again)
    for wrong in ("x", "99-1", "1"):
        status = stream("GET", **{"Last-Event-ID": wrong})[1].status
        check(f"http: the unknown event {wrong} is 400", status == 400, status)
    slow = {**call, "id": 3, "params": {**call["params"], "arguments": {"duration": 8, "steps": 1}, "_meta": {}}}
    connection, answer = stream("POST", json.dumps(slow))
    (first, nothing), = events(answer, 1)
    check("http: a stream begins with an event without data", first and nothing is None, (first, nothing))
    connection.sock.close()
    answer.close()
    time.sleep(5)
    rest = events(stream("GET", **{"Last-Event-ID": first})[1])
    check("http: an answer that came meanwhile is kept", [message.get("id") for _, message in rest] == [3], rest)


async def streams(folder):
    """Progress, cancellation, and the server's own messages."""
    free = {"impact": "read", "approval": "not_required"}
    command = server("server-everything", "dist/index.js", "stdio")
    names = ["echo", "trigger-long-running-operation", "get-sum"]
    with served(folder, "everything", command, {name: free for name in names}) as (url, gateway):
        for mode in ("2026-07-28", "legacy"):
            async with client(url, mode) as one, client(url, mode) as two:
                async def slow(it):
                    seen = []
                    async def on_progress(progress, total, message):
                        seen.append(progress)
                    done = await it.call_tool("trigger-long-running-operation", {"duration": 2, "steps": 4}, progress_callback=on_progress)
                    return seen, done
                for seen, done in await asyncio.gather(slow(one), slow(two)):
                    check(f"http: {mode}: progress comes before the answer", seen == [1, 2, 3, 4] and not done.is_error, (seen, dump(done)))
                long = await asyncio.wait_for(one.call_tool("trigger-long-running-operation", {"duration": 8, "steps": 2}), 20)
                check(f"http: {mode}: an answer after the first seconds comes", not long.is_error, dump(long))
                text = "ü\n\r\n\u2028" * 40_000
                done = await one.call_tool("echo", {"message": text})
                check(f"http: {mode}: a long text comes back", done.content[0].text == f"Echo: {text}")
        call = request("tools/call", {"name": "trigger-long-running-operation", "arguments": {"duration": 60, "steps": 60}}, progressToken=7)
        host, path = url.removeprefix("http://").split("/", 1)
        connection = HTTPConnection(host, timeout=30)
        connection.request("POST", "/" + path, json.dumps(call), {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKENS['ada']}",
            "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "trigger-long-running-operation"})
        answer = connection.getresponse()
        event = [answer.readline().decode() for _ in range(2)]
        progress = json.loads(event[1].removeprefix("data: "))
        check("http: the client's own progress token comes back", progress["params"]["progressToken"] == 7, event)
        connection.sock.close()
        answer.close()
        connection.close()
        deadline = time.monotonic() + 10
        unknown = 0
        while not unknown and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            unknown = sum(line.get("outcome") == "unknown" for line in all_records(folder))
        check("http: leaving cancels the call", unknown == 1, unknown)
        resumed(url)
        children = subprocess.run(["pgrep", "-P", str(gateway.pid)], capture_output=True, text=True).stdout.split()
    left = [child for child in children if Path(f"/proc/{child}").exists()]
    check("http: no server is left", children and not left, (children, left))


def abandon(url, sessions):
    """Opens sessions from six threads, and ends none. Returns the statuses of the answers, counted."""
    codes, begin = collections.Counter(), {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}

    def opens():
        while codes.total() < sessions:
            codes[post(url, begin)[0]] += 1

    threads = [threading.Thread(target=opens) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return codes


async def crowds(folder):
    """A caller with slow connections and abandoned sessions, beside one that behaves."""
    sessions = int((sys.argv[3:4] or ["500"])[0])
    free = {"impact": "read", "approval": "not_required"}
    command = ["sh", str(Path(__file__).with_name("small_server.sh"))]

    def size(pid):
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1)) // 1024

    async def timed(one, while_it_runs=None, calls=300):
        """Calls in turn, so often or until the other ends. Returns the times in milliseconds, and whether each call was answered."""
        times, answered = [], 0
        while len(times) < calls or while_it_runs and not while_it_runs.done():
            begin = time.perf_counter()
            done = await one.call_tool("plain", {})
            times.append((time.perf_counter() - begin) * 1e3)
            answered += done.content[0].text == "done"
        return times, answered == len(times)

    def p99(times):
        return sorted(times)[len(times) * 99 // 100]

    with served(folder, "asking", command, {"plain": free}, sessions=100) as (url, gateway):
        host, port = re.match(r"http://([^:]+):(\d+)", url).groups()
        async with client(url, "2026-07-28", "bob") as one:
            await timed(one)
            (alone, _), before = await timed(one), size(gateway.pid)
            slow = []
            for n in range(1_000):
                reader, writer = await asyncio.open_connection(host, port)
                # Half a head, or a whole one and half a body.
                writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
                if n % 2:
                    writer.write(f"Authorization: Bearer {TOKENS['ada']}\r\nContent-Type: application/json\r\n"
                                 "Accept: application/json, text/event-stream\r\nContent-Length: 60000\r\n\r\n{".encode())
                slow.append((reader, writer))
            (slowly, is_served), held = await timed(one), size(gateway.pid)
            check("http: 1,000 slow connections take little memory", held - before < 64, (before, held))
            check("http: a good client is served beside them", is_served)
            ends = await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in slow), return_exceptions=True), 40)
            check("http: each slow connection is closed", len(ends) == 1_000, len(ends))
            for _, writer in slow:
                writer.close()

            # In a process of its own: the good client's times are not to include its work.
            with concurrent.futures.ProcessPoolExecutor(1) as pool:
                crowd = asyncio.get_running_loop().run_in_executor(pool, abandon, url, sessions)
                (beside, is_served) = await timed(one, crowd)
                check("http: a good client is served beside abandoned sessions", is_served)
                codes = await crowd
            (after, is_served), held = await timed(one), size(gateway.pid)
            check("http: a good client is served after them", is_served)
            check("http: abandoned sessions make room for one another", set(codes) == {200} and codes.total() >= sessions, codes)
            print(f"      {dict(codes)}; its p99: {p99(alone + after):.1f} ms alone ({p99(alone):.1f} before, {p99(after):.1f} after), "
                  f"{p99(slowly):.1f} ms beside slow connections, {p99(beside):.1f} ms beside sessions that are opened ({len(beside)} calls)")
            print(f"      resident memory: {before} MiB before, {held} MiB after them")
            check("http: abandoned sessions take little memory", held - before < 64, (before, held))
            children = subprocess.run(["pgrep", "-P", str(gateway.pid)], capture_output=True, text=True).stdout.split()
            check("http: one caller has no more than its share of servers", len(children) <= 26, len(children))


COUNTERSIGN = Path(sys.argv[1]).resolve()


def main():
    for part in (eras, rules, streams, crowds):
        if sys.argv[4:] and part.__name__ not in sys.argv[4:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            run = part(Path(folder).resolve())
            if asyncio.iscoroutine(run):
                asyncio.run(run)
    sys.exit(told())


if __name__ == "__main__":
    main()
