"""Puts the gateway between clients and servers of each era, and has the servers ask the clients for input.

Usage: input.py COUNTERSIGN NODE_MODULES. Client and server are the package `mcp`, over standard input and output and over HTTP. Prints one
line a check and ends with a count.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import check, told
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent
from peers import COUNTERSIGN, dump, record, set_up
from remote import MODES, free_port, over_http

DIRECT = [sys.executable, str(Path(__file__).with_name("conforming_server.py"))]
FREE = {"impact": "read", "approval": "not_required"}
ROUNDS = "test_input_required_result_"
# The tools of a server of each era, and what they return once they have been answered.
TOOLS = {
    "handshake": {"test_elicitation": '"Ann"', "test_sampling": "LLM response: Paris"},
    "stateless": {f"{ROUNDS}elicitation": "Ann", f"{ROUNDS}multiple_inputs": "file:///srv", f"{ROUNDS}multi_round": "both rounds are done"},
}
ARGS = {"test_sampling": {"prompt": "Which?"}, "test_elicitation": {"message": "Who?"}}


async def person(context, params):
    wanted = params.requested_schema["properties"]
    return ElicitResult(action="accept", content={name: True if it["type"] == "boolean" else "Ann" for name, it in wanted.items()})


async def model(context, params):
    return CreateMessageResult(role="assistant", model="m", content=TextContent(type="text", text="Paris"))


async def roots(context):
    return ListRootsResult(roots=[Root(uri="file:///srv")])


ANSWERS = {"elicitation_callback": person, "sampling_callback": model, "list_roots_callback": roots}


async def ended(call):
    try:
        return dump(await call)
    except MCPError as error:
        return (error.error.data or {}).get("code", error.error.message)


def uses(era):
    async def use(what, one, folder):
        for name, words in TOOLS[era].items():
            done = await one.call_tool(name, ARGS.get(name, {}))
            check(f"{era} server, {what}: {name}", words in done.content[0].text and not done.is_error, dump(done))
    return use


async def of(folder, era, url=None):
    rules = dict.fromkeys(TOOLS[era], FREE)
    source = ["--url", url, "--address", "127.0.0.1/32"] if url else DIRECT
    set_up(folder, "asks", source, rules, era)
    where = f'url = "{url}"\n' if url else f"command = {json.dumps(DIRECT)}\n"
    more = f'era = "{era}"\nserver_methods = ["elicitation/create", "sampling/createMessage", "roots/list"]\n'
    config = folder / "gateway.toml"
    config.write_text(config.read_text() + where + more + ('[server.remote]\naddresses = ["127.0.0.1/32"]\n' if url else ""))
    parameters = StdioServerParameters(command=str(COUNTERSIGN), args=["mcp", "run", "--config", str(config)])
    at = "URL" if url else "stdio"
    for mode, version in MODES:
        async with Client(stdio_client(parameters), mode=mode, **ANSWERS) as one:
            check(f"{era} server, {at}, {mode} client: speaks its era", one.protocol_version == version, one.protocol_version)
            await uses(era)(f"{at}, {mode} client, stdio", one, folder)
        async with Client(stdio_client(parameters), mode=mode) as one:
            # Without callbacks, a client declares nothing.
            name = next(iter(TOOLS[era]))
            done = await ended(one.call_tool(name, ARGS.get(name, {})))
            # Who asks in vain: a server of the handshake era repeats what it was answered.
            expected = {"handshake": {"legacy": "Elicitation not supported"}.get(mode, "server:METHOD_NOT_ALLOWED"), "stateless": "SERVER_ANSWER"}
            refused = done == expected[era]
            check(f"{era} server, {at}, {mode} client: asks no one who declares nothing", refused, done)
    calls = [line for line in record(folder) if line["type"] in ("decision", "outcome")]
    check(f"{era} server, {at}: each decision has its outcome", len(calls) % 2 == 0 and len(calls) > 0, len(calls))
    await over_http(folder, uses(era), **ANSWERS)


@contextlib.contextmanager
def at_url():
    port = free_port()
    process = subprocess.Popen([*DIRECT, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(20)


async def main():
    for era in TOOLS:
        with tempfile.TemporaryDirectory() as folder:
            await of(Path(folder).resolve(), era)
        with tempfile.TemporaryDirectory() as folder, at_url() as url:
            await of(Path(folder).resolve(), era, url)


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(told())
