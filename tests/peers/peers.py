"""Puts the gateway between a client and servers that nobody here wrote, and checks what comes through.

Usage: peers.py COUNTERSIGN NODE_MODULES [PART...]

COUNTERSIGN is the binary; NODE_MODULES holds @modelcontextprotocol/server-filesystem, server-everything and
inspector. The client is the package `mcp`. A PART is `filesystem`, `everything`, `stubborn` or `eras`; all by default. Prints one line a
check and ends with a count.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import check, told
from mcp import Client, ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, TextContent

COUNTERSIGN = Path(sys.argv[1]).resolve()
MODULES = Path(sys.argv[2]).resolve()
NODE = MODULES / ".bin" / "node"
DECISION = "dev.countersign/decision"
GOAL = "Tidy up the notes in the documents folder"
ASK = {"dev.countersign/ask": GOAL}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def server(package, script, *args):
    return [str(NODE), str(MODULES / "@modelcontextprotocol" / package / script), *args]


def countersign(folder, *args):
    done = subprocess.run([COUNTERSIGN, *args], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise SystemExit(f"countersign {' '.join(args)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def set_up(folder, name, command, rules, era="auto"):
    """Keys, a registry drafted from the server's tools with rules relaxed on purpose, and the gateway's configuration."""
    countersign(folder, "keys", "generate", "--kind", "ed25519", "--out", "op.key", "--public-out", "op.pub")
    countersign(folder, "keys", "generate", "--kind", "hmac", "--out", "approval.key")
    countersign(folder, "keys", "generate", "--kind", "log", "--origin", "peers.example/log", "--out", "log.key",
                "--public-out", "log.vkey")
    countersign(folder, "keys", "trust", "--threshold", "1", "--out", "root.json", "op.pub")
    source = command if command[0] == "--url" else ["--", *command]
    draft = json.loads(countersign(folder, "mcp", "inspect", "--name", name, "--era", era, *source))
    tools = [dict(tool, **rules[tool["name"]]) for tool in draft["tools"] if tool["name"] in rules]
    draft["tools"] = tools
    draft["agents"] = [{
        "agent": "tidy-bot",
        "version": 1,
        "registered_by": "operator",
        "tools": [{"server": name, "name": tool["name"]} for tool in tools],
        "output_tags": [],
        "max_session": "1h",
    }]
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
goal = "{GOAL}"
ttl = "1h"
[approval]
key_file = "approval.key"
store = "approvals.sqlite"
audience = "peers"
ttl = "10m"
[record]
folder = "log"
key_file = "log.key"
origin = "peers.example/log"
[server]
name = "{name}"
""")
    return [str(COUNTERSIGN), "mcp", "run", "--config", str(folder / "gateway.toml"), "--", *command]


@contextlib.asynccontextmanager
async def session(command, **callbacks):
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(parameters) as (reader, writer):
        async with ClientSession(reader, writer, **callbacks) as client:
            await client.initialize()
            yield client


def dump(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def refusal(result):
    return (result.meta or {}).get(DECISION, {}).get("code") if result.is_error else None


def record(folder):
    lines = [json.loads(line) for file in sorted((folder / "log").glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [line for line in lines if "seq" in line]


async def filesystem(folder):
    docs = folder / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("hello\n")
    (folder / "secret.txt").write_text("secret\n")
    direct = server("server-filesystem", "dist/index.js", str(docs))
    within = [{"kind": "path_within", "at": "/path", "roots": [str(docs)]}]
    gateway = set_up(folder, "files", direct, {
        "read_text_file": {"impact": "read", "approval": "not_required", "constraints": within},
        "list_directory": {"impact": "read", "approval": "not_required", "constraints": within},
        "write_file": {"impact": "write", "approval": "required", "ask": "required", "constraints": within},
    })
    async with session(direct) as plain, session(gateway) as client:
        all_tools = {tool.name: dump(tool) for tool in (await plain.list_tools()).tools}
        shown = {tool.name: dump(tool) for tool in (await client.list_tools()).tools}
        check("only the disclosed tools are listed", sorted(shown) == ["list_directory", "read_text_file", "write_file"], shown)
        check("a listed tool is as the server defines it", all(all_tools[name] == tool for name, tool in shown.items()))
        path = str(docs / "a.txt")
        for name, args in [("read_text_file", {"path": path}), ("list_directory", {"path": str(docs)}),
                           ("read_text_file", {"path": str(docs / "missing.txt")})]:
            through, straight = await client.call_tool(name, args), await plain.call_tool(name, args)
            check(f"{name} answers as without the gateway", dump(through) == dump(straight), dump(through))
        edit = {"path": path, "edits": [{"oldText": "hello", "newText": "bye"}]}
        check("an undisclosed write is refused", refusal(await client.call_tool("edit_file", edit)) == "UNDISCLOSED_TOOL")
        check("so is a tool that does not exist", refusal(await client.call_tool("rm_rf", {})) == "UNDISCLOSED_TOOL")
        for outside in [str(folder / "secret.txt"), f"{docs}/../secret.txt", "/etc/passwd"]:
            result = await client.call_tool("read_text_file", {"path": outside})
            check(f"a path outside the folder is refused ({Path(outside).name})", refusal(result) == "ARGS_CONSTRAINT", dump(result))
        check("no refused call touched a file", (docs / "a.txt").read_text() == "hello\n")

        write = {"path": str(docs / "new.txt"), "content": "approved\n"}
        check("a write without the goal is refused", refusal(await client.call_tool("write_file", write)) == "ASK_REQUIRED")
        drifted = await client.call_tool("write_file", write, meta={"dev.countersign/ask": "Delete everything"})
        check("a write under another goal is refused", refusal(drifted) == "ASK_DRIFT")
        asked = await client.call_tool("write_file", write, meta=ASK)
        check("a write waits for its approval", refusal(asked) == "APPROVAL_REQUIRED", dump(asked))
        again = await client.call_tool("write_file", write, meta=ASK)
        ids = [result.meta[DECISION]["approval_id"] for result in (asked, again)]
        check("asking again waits for the same approval", ids[0] == ids[1], ids)
        countersign(folder, "approve", ids[0], "--config", "gateway.toml", "--yes")
        changed = await client.call_tool("write_file", dict(write, content="other\n"), meta=ASK)
        check("other content is another call", refusal(changed) == "APPROVAL_REQUIRED" and not (docs / "new.txt").exists())
        written = await client.call_tool("write_file", write, meta=ASK)
        check("the approved write goes through", not written.is_error and (docs / "new.txt").read_text() == "approved\n", dump(written))
        (docs / "new.txt").write_text("changed since\n")
        replay = await client.call_tool("write_file", write, meta=ASK)
        check("exactly once", refusal(replay) == "APPROVAL_REQUIRED" and (docs / "new.txt").read_text() == "changed since\n")
        countersign(folder, "approve", replay.meta[DECISION]["approval_id"], "--config", "gateway.toml", "--deny", "--by", "olga")
        for spelled in [write, dict(reversed(write.items()))]:
            denied = await client.call_tool("write_file", spelled, meta=dict(ASK, traceparent=TRACE))
            check("a person's no is the last word, however the call is spelled", refusal(denied) == "APPROVAL_DENIED", dump(denied))
            check("and the agent is not told whose it is", "olga" not in json.dumps(dump(denied)), dump(denied))
        waiting = json.loads(countersign(folder, "approve", "list", "--config", "gateway.toml", "--json"))["pending"]
        check("nobody is asked about it again", [json.loads(call["args"])["content"] for call in waiting] == ["other\n"], waiting)
    decisions = [line for line in record(folder) if line["type"] == "decision"]
    check("every call is on record", len(decisions) == 17, len(decisions))
    check("with whose no it was, and its place in the trace",
          [(line.get("denied_by"), line.get("trace")) for line in decisions[-3:]]
          == [(None, None), ("olga", TRACE), ("olga", TRACE)], decisions[-3:])
    inspector(gateway, docs)


def inspector(gateway, docs):
    """The Inspector's command line, as a second third-party client."""
    env = dict(os.environ, PATH=f"{MODULES / '.bin'}:{os.environ['PATH']}")
    config = docs.parent / "inspector.json"
    config.write_text(json.dumps({"mcpServers": {"files": {"command": gateway[0], "args": gateway[1:]}}}))

    def run(era, *args):
        done = subprocess.run([MODULES / ".bin" / "mcp-inspector", "--cli", "--config", config, "--server", "files", "--protocol-era", era, *args],
                              env=env, capture_output=True, text=True, timeout=120)
        # The output before the JSON is the server's log.
        start = done.stdout.find("{")
        return json.loads(done.stdout[start:]) if start >= 0 else {"stderr": done.stderr}

    for era in ("legacy", "auto", "modern"):
        tools = run(era, "--method", "tools/list")
        check(f"the Inspector lists the disclosed tools ({era})",
              [tool["name"] for tool in tools.get("tools", [])] == ["read_text_file", "write_file", "list_directory"], tools)
        read = run(era, "--method", "tools/call", "--tool-name", "read_text_file", "--tool-arg", f"path={docs / 'a.txt'}")
        check(f"the Inspector reads a file ({era})", read.get("content", [{}])[0].get("text") == "hello\n", read)
        refused = run(era, "--method", "tools/call", "--tool-name", "read_text_file", "--tool-arg", "path=/etc/passwd")
        check(f"the Inspector is refused a path outside ({era})", refused.get("_meta", {}).get(DECISION, {}).get("code") == "ARGS_CONSTRAINT", refused)


async def everything(folder):
    direct = server("server-everything", "dist/index.js", "stdio")
    free = {"impact": "read", "approval": "not_required"}
    names = ["echo", "get-sum", "get-tiny-image", "get-structured-content", "get-resource-links",
             "get-annotated-message", "trigger-long-running-operation"]
    gateway = set_up(folder, "everything", direct, {name: free for name in names})
    progress = {"direct": [], "gateway": []}

    def watch(kind):
        async def on_progress(done, total, message):
            progress[kind].append((done, total, message))
        return on_progress

    async with session(direct) as plain, session(gateway) as client:
        shown = [tool.name for tool in (await client.list_tools()).tools]
        check("everything: only the disclosed tools are listed", sorted(shown) == sorted(names), shown)
        for name, args in [("echo", {"message": "h\u00e9 \u4e16\u754c \U0001f600 \u202e \\ \n"}), ("get-sum", {"a": 1.5, "b": 2}),
                           ("get-tiny-image", {}), ("get-structured-content", {"location": "Chicago"}),
                           ("get-resource-links", {"count": 3}),
                           ("get-annotated-message", {"messageType": "success", "includeImage": True})]:
            through, straight = await client.call_tool(name, args), await plain.call_tool(name, args)
            check(f"everything: {name} answers as without the gateway", dump(through) == dump(straight), dump(through))
        bad = await client.call_tool("get-sum", {"a": "one", "b": 2})
        check("everything: arguments that do not fit the schema are refused", refusal(bad) == "ARGS_SCHEMA", dump(bad))
        long = {"duration": 1, "steps": 3}
        through = await client.call_tool("trigger-long-running-operation", long, progress_callback=watch("gateway"))
        straight = await plain.call_tool("trigger-long-running-operation", long, progress_callback=watch("direct"))
        check("everything: a long call answers as without the gateway", dump(through) == dump(straight))
        check("everything: its progress comes through", progress["gateway"] and progress["gateway"] == progress["direct"], progress)
        calls = [client.call_tool("echo", {"message": f"m{n}"}) for n in range(50)]
        texts = [result.content[0].text for result in await asyncio.gather(*calls)]
        check("everything: fifty calls at once are answered each", texts == [f"Echo: m{n}" for n in range(50)], texts)
        try:
            await client.read_resource("demo://resource/static/document/architecture.md")
            check("everything: a method that is not allowed is refused", False)
        except MCPError as error:
            check("everything: a method that is not allowed is refused", error.error.code == -32601, error)
    kinds = {line["type"] for line in record(folder)}
    check("everything: session, server, decisions, outcomes, refused messages and the end are on record",
          kinds == {"session", "server", "decision", "outcome", "gateway", "end"}, kinds)


# A server that ignores the end of its input and every signal that can be ignored, as does its child process.
STUBBORN = """
import json, os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
child = subprocess.Popen(["sleep", "600"], **quiet)
with open(sys.argv[1], "w") as pids:
    pids.write(f"{os.getppid()} {os.getpid()} {child.pid}")
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("quick", "hangs")]
for line in sys.stdin:
    message = json.loads(line)
    answer = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": tools},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }.get(message["method"])
    if "id" in message and message.get("params", {}).get("name") != "hangs":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
time.sleep(600)
"""


def is_running(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def stubborn(folder):
    """Each signal, in a call and between calls, and a client that leaves: no process of the server remains."""
    (folder / "server.py").write_text(STUBBORN)
    pids = folder / "pids.txt"
    free = {"impact": "read", "approval": "not_required"}
    gateway = set_up(folder, "stubborn", [sys.executable, str(folder / "server.py"), str(pids)], {"quick": free, "hangs": free})
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, None):
        for in_call in (False, True):
            what = f"{number.name if number else 'the client leaves'} {'in a call' if in_call else 'between calls'}"
            async with session(gateway) as client:
                done = await client.call_tool("quick", {})
                check(f"{what}: the server answers", not done.is_error, dump(done))
                ours, *theirs = map(int, pids.read_text().split())
                check(f"{what}: the server runs", all(map(is_running, theirs)))
                waiting = asyncio.create_task(client.call_tool("hangs", {})) if in_call else None
                await asyncio.sleep(0.3)
                if number:
                    os.kill(ours, number)
                    await asyncio.sleep(3)
                    check(f"{what}: no process is left after three seconds", not any(map(is_running, [ours, *theirs])))
                if waiting and number:
                    try:
                        await waiting
                        check(f"{what}: the call fails", False)
                    except MCPError as error:
                        check(f"{what}: the call fails", (error.error.data or {}).get("code") == "GATEWAY_STOPPED", error)
                elif waiting:
                    waiting.cancel()
            time.sleep(0.1)
            check(f"{what}: no process is left in the end", not any(map(is_running, [ours, *theirs])))
            ends = [line["outcome"] for line in record(folder) if line["type"] == "outcome"]
            check(f"{what}: the outcome is on record", ends[-1] == ("unknown" if in_call else "returned"), ends)
    key = countersign(folder, "keys", "show", "log.key", "--origin", "peers.example/log").split()[-1]
    countersign(folder, "audit", "verify", "log", "--key", key)


async def eras(folder):
    """A stock client in each of its modes, in front of a server of the handshake era and of one that makes no handshake."""
    for era in ("both", "modern"):
        (folder / era).mkdir()
        await eras_of(folder / era, era)


async def eras_of(folder, era):
    """The server requests input instead of answering."""
    got = folder / "got.jsonl"
    direct = [sys.executable, str(Path(__file__).with_name("asking_server.py")), str(got), era]
    free = {"impact": "read", "approval": "not_required"}
    gateway = set_up(folder, "asking", direct, {"plain": free, "ask": free})
    asked = []

    def callback(result):
        async def on_request(*request):
            asked.append(type(result).__name__)
            return result
        return on_request

    def client(command, mode):
        sample = CreateMessageResult(role="assistant", model="m", content=TextContent(type="text", text="the secret"))
        return Client(StdioServerParameters(command=command[0], args=command[1:]), mode=mode,
                      sampling_callback=callback(sample), elicitation_callback=callback(ElicitResult(action="decline")),
                      list_roots_callback=callback(ListRootsResult(roots=[])))

    async def refused(wanted):
        try:
            return await wanted
        except MCPError as error:
            return error.error

    async with client(direct, "2026-07-28") as plain:
        result = await plain.call_tool("ask", {})
        check(f"eras: {era}: without the gateway the server's questions are answered", len(asked) == 3 and not result.is_error, asked)
    asked.clear()
    got.unlink()
    for mode, version in (("2026-07-28", "2026-07-28"), ("auto", "2026-07-28"), ("legacy", "2025-11-25")):
        async with client(gateway, mode) as one:
            check(f"eras: {mode} and {era} connects", one.protocol_version == version, one.protocol_version)
            check(f"eras: {mode} and {era} lists", sorted(tool.name for tool in (await one.list_tools()).tools) == ["ask", "plain"])
            done = await one.call_tool("plain", {})
            check(f"eras: {mode} and {era} calls", done.content[0].text == "done", dump(done))
            error = await refused(one.call_tool("ask", {}))
            check(f"eras: {mode} and {era} gets no question in place of a result", getattr(error, "code", 0) == -32603, error)
            unlisted = await one.call_tool("nothing", {})
            check(f"eras: {mode} and {era} is refused", unlisted.is_error and "UNDISCLOSED_TOOL" in unlisted.content[0].text, dump(unlisted))
    check(f"eras: {era}: the server's questions were put to nobody", not asked, asked)
    calls = [json.loads(line) for line in got.read_text().splitlines() if '"tools/call"' in line]
    metadata = [any(name.startswith("io.modelcontextprotocol/") for name in call["params"].get("_meta", {})) for call in calls]
    check(f"eras: {era}: the server sees its own era", metadata == [era == "modern"] * 6, metadata)
    lines = record(folder)
    codes = [line["code"] for line in lines if line["type"] == "gateway"]
    check(f"eras: {era}: each refused message is on record, and no probe", codes == ["SERVER_ANSWER"] * 3, codes)
    outcomes = [line["outcome"] for line in lines if line["type"] == "outcome"]
    check(f"eras: {era}: how the calls ended is on record", outcomes == ["returned", "unknown"] * 3, outcomes)
    codes = [line.get("code") for line in lines if line["type"] == "decision"]
    check(f"eras: {era}: a decision says nothing of the client's era", codes == [None, None, "UNDISCLOSED_TOOL"] * 3, codes)


def main():
    parts = {part.__name__: part for part in (filesystem, everything, stubborn, eras)}
    for part in [parts[name] for name in sys.argv[3:]] or parts.values():
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(part(Path(folder).resolve()))
    sys.exit(told())


if __name__ == "__main__":
    main()
