"""Puts one gateway between clients and several servers, over standard input and output and over HTTP.

Usage: several.py COUNTERSIGN NODE_MODULES. The client is the package `mcp`. The servers are `server-filesystem`, a server of the package
`mcp` at a URL that is spoken to in the stateless era, a small server that counts, and a URL where no server is. Prints one line a check
and ends with a count.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from checks import check, told
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from peers import COUNTERSIGN, countersign, dump, refusal, server, set_up
from remote import MODES, TEXT, free_port, over_http, remote

FREE, ASKED = {"impact": "read", "approval": "not_required"}, {"impact": "write", "approval": "required"}
RULES = {"files": {"read_text_file": FREE, "write_file": ASKED, "list_directory": FREE},
         "far": {"test_simple_text": FREE, "test_tool_with_progress": FREE, "test_image_content": ASKED}, "till": {"pay": FREE}}
SHOWN = sorted(f"{name}__{tool}" for name, tools in RULES.items() for tool in tools)


def tables(folder, url):
    files = server("server-filesystem", "dist/index.js", str(folder / "docs"))
    till = [sys.executable, str(Path(__file__).with_name("counting_server.py")), str(folder / "paid.jsonl")]
    far = f'url = "{url}"\nera = "stateless"\n[server.remote]\ntoken_file = "server.token"\n'
    parts = {"files": f"command = {json.dumps(files)}\n", "far": far, "till": f"command = {json.dumps(till)}\n",
             "gone": f'url = "http://127.0.0.1:{free_port()}/mcp"\n'}
    return {name: f'[[server]]\nname = "{name}"\n{part}' for name, part in parts.items()}


def configure(folder, url):
    """Drafts one registry for all servers. Returns the command of the gateway."""
    (folder / "docs").mkdir()
    (folder / "docs" / "note.txt").write_text("hello")
    (folder / "server.token").write_text("fixed\n")
    (folder / "server.token").chmod(0o600)
    set_up(folder, "files", server("server-filesystem", "dist/index.js", str(folder / "docs")), RULES["files"])
    config = folder / "gateway.toml"
    alone = config.read_text().replace('[server]\nname = "files"\n', "")
    servers = tables(folder, url)
    config.write_text(alone + "".join(part for name, part in servers.items() if name != "gone"))
    draft = json.loads(countersign(folder, "mcp", "inspect", "--config", "gateway.toml"))
    check("one draft has the tools of all servers", {tool["server"] for tool in draft["tools"]} == set(RULES), draft["tools"])
    check("it is for the configuration's agent", draft["agents"][0]["agent"] == "tidy-bot", draft["agents"])
    draft["tools"] = [dict(tool, **RULES[tool["server"]][tool["name"]]) for tool in draft["tools"]
                      if tool["name"] in RULES[tool["server"]]]
    draft["version"] = 2
    draft["agents"][0]["tools"] = [{"server": tool["server"], "name": tool["name"]} for tool in draft["tools"]]
    (folder / "draft.json").write_text(json.dumps(draft))
    countersign(folder, "registry", "sign", "draft.json", "--key", "op.key", "--ttl", "1d", "--out", "registry.json", "--force")
    config.write_text(f"{alone}[limits]\nlist_wait = \"5s\"\n" + "".join(servers.values()))
    return [str(COUNTERSIGN), "mcp", "run", "--config", str(config)]


async def failure(call):
    """The text of a call's error."""
    try:
        return str(dump(await call))
    except Exception as error:
        return str(error)


async def uses(what, one, folder):
    """Lists, calls each server, is refused, approves, and is refused again."""
    listed = sorted(tool.name for tool in (await one.list_tools()).tools)
    check(f"{what} lists the tools of all servers", listed == SHOWN, listed)
    note = await one.call_tool("files__read_text_file", {"path": str(folder / "docs" / "note.txt")})
    check(f"{what} calls one server", note.content[0].text == "hello", dump(note))
    done = await asyncio.gather(*(one.call_tool("far__test_simple_text", {}) for _ in range(20)),
                                *(one.call_tool("till__pay", {"to": what}) for _ in range(20)))
    check(f"{what} calls two servers at once", [it.content[0].text for it in done] == [TEXT] * 20 + ["paid"] * 20)
    seen = []

    async def progress(at, total, message):
        seen.append(at)

    await one.call_tool("far__test_tool_with_progress", {}, progress_callback=progress)
    check(f"{what} gets progress", len(seen) >= 2, seen)
    for name in ("read_text_file", "files__test_simple_text", "till__read_text_file", "files:read_text_file"):
        refused = await one.call_tool(name, {})
        check(f"{what} is refused {name}", refusal(refused) in ("UNDISCLOSED_TOOL", "MALFORMED_CALL"), dump(refused))
    gone = await failure(one.call_tool("gone__read", {}))
    check(f"{what} reaches no server that is gone", "UNDISCLOSED_TOOL" in gone or "isError" not in gone, gone)
    for name, args in (("files__write_file", {"path": str(folder / "docs" / "new.txt"), "content": what}),
                       ("far__test_image_content", {})):
        waits = await one.call_tool(name, args)
        check(f"{what} waits for an approval of {name}", refusal(waits) == "APPROVAL_REQUIRED", dump(waits))
        waiting = waits.meta["dev.countersign/decision"]["approval_id"]
        countersign(folder, "approve", waiting, "--config", "gateway.toml", "--yes")
        done = await one.call_tool(name, args)
        check(f"{what} runs the approved {name}", refusal(done) is None and not done.is_error, dump(done))
        again = await one.call_tool(name, args)
        check(f"{what} is refused {name} again", refusal(again) == "APPROVAL_REQUIRED", dump(again))
    check(f"{what} has written", (folder / "docs" / "new.txt").read_text() == what)


async def over_stdio(folder, gateway):
    parameters = StdioServerParameters(command=gateway[0], args=gateway[1:])
    for mode, version in MODES:
        async with Client(stdio_client(parameters), mode=mode) as one:
            check(f"stdio {mode} connects", one.protocol_version == version, one.protocol_version)
            await uses(f"stdio {mode}", one, folder)


def counting_servers():
    """The processes of the server that counts."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"counting_server.py" in (process / "cmdline").read_bytes():
                yield int(process.name)


async def killed(folder, gateway):
    """A server that is killed fails its own calls alone."""
    parameters = StdioServerParameters(command=gateway[0], args=gateway[1:])
    async with Client(stdio_client(parameters), mode="legacy") as one:
        await one.list_tools()
        for process in counting_servers():
            os.kill(process, signal.SIGKILL)
        failed = await failure(one.call_tool("till__pay", {"to": "x"}))
        check("a call of a killed server fails", "server" in failed and "paid" not in failed, failed)
        done = await one.call_tool("far__test_simple_text", {})
        check("the other servers go on", done.content[0].text == TEXT, dump(done))
        listed = [tool.name for tool in (await one.list_tools()).tools]
        check("its tools are listed no more", "till__pay" not in listed and len(listed) == len(SHOWN) - 1, listed)


async def main(folder):
    with remote(folder) as (url, _):
        gateway = configure(folder, url)
        await over_stdio(folder, gateway)
        await killed(folder, gateway)
        await over_http(folder, uses)
    # Sessions at one time have logs of their own, in numbered folders.
    logs = [folder / "log", *(log for log in (folder / "log").iterdir() if log.is_dir())]
    lines = [json.loads(line) for log in logs for file in log.glob("*.jsonl") for line in file.read_text().splitlines()]
    lines = [line for line in lines if "seq" in line]
    paid = (folder / "paid.jsonl").read_text().splitlines()
    tools = [line["tool"] for line in lines if line["type"] == "decision" and "code" not in line]
    # The call of the killed server may have been accepted too.
    decided = tools.count({"server": "till", "name": "pay"})
    check("each run of a tool was decided", len(paid) == 120 and decided in (120, 121), (len(paid), decided))
    sessions = {line["session"] for line in lines if line["type"] == "session"}
    ends = [line for line in lines if line["type"] == "end"]
    check("each session ends once", len(ends) == len(sessions) == len({line["session"] for line in ends}), (len(ends), len(sessions)))
    for log in logs:
        countersign(folder, "audit", "verify", str(log), "--key", "log.vkey")
    check("the logs verify", len(logs) > 1, logs)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary).resolve()))
    sys.exit(told())
