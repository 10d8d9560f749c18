"""Runs the MCP conformance suite against a server of both eras: directly, and through `countersign mcp serve` that starts the server, and
that reaches it by its URL.

Usage: conformance.py COUNTERSIGN NODE_MODULES [REVISION...]

NODE_MODULES holds @modelcontextprotocol/conformance. No scenario that passes directly may fail through the gateway, but for
those in `conformance_expected.txt`, each with its reason. One of those that passes is wrong as well. The suite waits for some
answers for 0.5 s, which a slow disk can exceed: the gateway's files are in memory where the system allows it, and a scenario that
fails runs again, twice at most. Prints one line a check and ends with a count.
"""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import check, told
from mcp_serve import TOKENS, served
from peers import MODULES, NODE, countersign

SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
SERVER = [sys.executable, str(Path(__file__).with_name("conforming_server.py"))]
METHODS = ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"]
OPEN = {"impact": "read", "approval": "not_required", "args_schema": {"type": "object"}, "constraints": []}
ASKS = ["sampling/createMessage", "elicitation/create", "roots/list"]
IN_MEMORY = Path("/dev/shm")
RUNS = 3
ERAS = {"2025-11-25": "auto", "2026-07-28": "stateless"}


def expected(revision):
    """Scenarios that may fail through the gateway."""
    lines = Path(__file__).with_name("conformance_expected.txt").read_text().splitlines()
    listed = [line.split(None, 2) for line in lines if line and not line.startswith("#")]
    assert all(len(line) == 3 for line in listed), "a scenario has no reason"
    return {scenario for of, scenario, _ in listed if of == revision}


async def suite(revision, url):
    """Returns the numbers of checks that pass and fail, by scenario."""
    with tempfile.TemporaryDirectory() as folder:
        run = await asyncio.create_subprocess_exec(NODE, SUITE, "server", "--url", url, "--requirements", revision, cwd=folder,
                                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = (await run.communicate())[0].decode()
    found = re.findall(r"^[✓✗] ([\w/-]+): (\d+) passed, (\d+) failed", text, re.M)
    return {scenario: (int(passed), int(failed)) for scenario, passed, failed in found}


def fails(results, scenario):
    return results.get(scenario, (0, 1))[1] > 0


@contextlib.asynccontextmanager
async def with_token(url):
    """Adds the credential that the suite cannot be given. Each connection has one request."""
    host, port = re.match(r"http://([^:]+):(\d+)", url).groups()
    more = f"Authorization: Bearer {TOKENS['ada']}\r\nConnection: close\r\n".encode()

    async def relay(reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader, writer):
        first = await reader.readline()
        to_reader, to_writer = await asyncio.open_connection(host, port)
        to_writer.write(first + more)
        # A client that leaves closes its connection, which cancels its request.
        await asyncio.gather(relay(reader, to_writer), relay(to_reader, writer))

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listener:
        yield f"http://localhost:{listener.sockets[0].getsockname()[1]}/mcp"


async def wait_for(port):
    for _ in range(200):
        with contextlib.suppress(OSError):
            (await asyncio.open_connection("127.0.0.1", port))[1].close()
            return
        await asyncio.sleep(0.1)
    raise SystemExit("the server did not start")


async def compare(folder, revision, port):
    direct = subprocess.Popen([*SERVER, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await wait_for(port)
        plain = await suite(revision, f"http://localhost:{port}/mcp")
        check(f"conformance {revision}: the suite runs directly", sum(passed for passed, _ in plain.values()) > 60, plain)
        for way, serves, url in (("started", None, ""), ("by URL", [], f'url = "http://localhost:{port}/mcp"\n')):
            place = folder / way
            place.mkdir()
            await through_gateway(place, revision, plain, f"{revision}, {way}", serves, url)
    finally:
        direct.terminate()
        direct.wait()


async def through_gateway(folder, revision, plain, what, serves, more):
    tools = json.loads(countersign(folder, "mcp", "inspect", "--name", "conforming", "--", *SERVER))["tools"]
    # Resources, prompts and completions are entries of the draft like tools.
    rules = {tool["name"]: OPEN for tool in tools}
    lists = more + f"methods = {json.dumps(METHODS)}\nserver_methods = {json.dumps(ASKS)}\nera = \"{ERAS[revision]}\"\n"
    allowed = expected(revision)
    should_pass = [scenario for scenario, (_, failed) in plain.items() if not failed and scenario not in allowed]
    with served(folder, "conforming", SERVER, rules, lists, serves=serves) as (url, _):
        async with with_token(url) as bridge:
            through = await suite(revision, bridge)
            for run in range(1, RUNS):
                again = [scenario for scenario in should_pass if fails(through, scenario)]
                if not again:
                    break
                print(f"conformance {what}: run {run + 1}, for {[(scenario, through.get(scenario)) for scenario in again]}")
                later = await suite(revision, bridge)
                through |= {scenario: later[scenario] for scenario in again if scenario in later}
    check(f"conformance {what}: the same scenarios run through the gateway", plain.keys() == through.keys())
    for scenario, (_, failed) in plain.items():
        if not failed:
            check(f"conformance {what}: {scenario} " + ("fails for its reason" if scenario in allowed else "passes"),
                  fails(through, scenario) == (scenario in allowed), through.get(scenario))
    check(f"conformance {what}: each expected failure is a scenario", allowed <= plain.keys(), allowed - plain.keys())


def main():
    for at, revision in enumerate(sys.argv[3:] or ERAS):
        with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
            asyncio.run(compare(Path(folder).resolve(), revision, 3917 + at))
    sys.exit(told())


if __name__ == "__main__":
    main()
