"""Puts the gateway between clients and a server at a URL, over standard input and output and over HTTP.

Usage: remote.py COUNTERSIGN NODE_MODULES. The client and the server are the package `mcp`. Prints one line a check and ends with a count.
"""

import asyncio
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import check, told
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_serve import TOKENS, client
from peers import COUNTERSIGN, countersign, dump, record, refusal, set_up

FREE, ASKED = {"impact": "read", "approval": "not_required"}, {"impact": "write", "approval": "required"}
RULES = {"test_simple_text": FREE, "test_tool_with_progress": FREE, "test_error_handling": FREE, "test_x_mcp_header": FREE,
         "test_reconnection": FREE, "test_image_content": ASKED}
TEXT = "This is a simple text response for testing."
MODES = (("2026-07-28", "2026-07-28"), ("auto", "2026-07-28"), ("legacy", "2025-11-25"))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def remote(folder):
    port, log = free_port(), folder / "requests.jsonl"
    log.touch()
    process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("remote_server.py")), str(port), str(log)])
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp", log
    finally:
        process.terminate()
        process.wait(20)


def configured(folder, url, more='[server.remote]\ntoken_file = "server.token"\n'):
    """Writes the configuration for the server at this URL. Returns the command of the gateway."""
    text = (folder / "base.toml").read_text()
    (folder / "gateway.toml").write_text(text.replace('[server]\n', f'[server]\nurl = "{url}"\n') + more)
    return [str(COUNTERSIGN), "mcp", "run", "--config", str(folder / "gateway.toml")]


def requests(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


async def uses(what, one, folder):
    """Lists, calls, is refused, approves, and is refused again."""
    check(f"{what} lists", sorted(tool.name for tool in (await one.list_tools()).tools) == sorted(RULES))
    done = await asyncio.gather(*(one.call_tool("test_simple_text", {}) for _ in range(20)))
    check(f"{what} calls", all(it.content[0].text == TEXT for it in done), dump(done[0]))
    done = await one.call_tool("test_x_mcp_header", {"region": "Zürich"})
    check(f"{what} repeats an argument in a header", not done.is_error, dump(done))
    failed = await one.call_tool("test_error_handling", {})
    check(f"{what} gets a tool's error", failed.is_error and refusal(failed) is None, dump(failed))
    unlisted = await one.call_tool("test_audio_content", {})
    check(f"{what} is refused", refusal(unlisted) == "UNDISCLOSED_TOOL", dump(unlisted))
    waits = await one.call_tool("test_image_content", {})
    check(f"{what} waits for an approval", refusal(waits) == "APPROVAL_REQUIRED", dump(waits))
    waiting = waits.meta["dev.countersign/decision"]["approval_id"]
    countersign(folder, "approve", waiting, "--config", "gateway.toml", "--yes")
    done = await one.call_tool("test_image_content", {})
    check(f"{what} runs an approved call", done.content[0].type == "image", dump(done))
    again = await one.call_tool("test_image_content", {})
    check(f"{what} is refused again", refusal(again) == "APPROVAL_REQUIRED", dump(again))


async def over_stdio(folder, url, log, era):
    """A server of both eras gets a handshake, unless the operator fixes the era."""
    gateway = configured(folder, url)
    config = folder / "gateway.toml"
    config.write_text(config.read_text().replace("[server]\n", f'[server]\nera = "{era}"\n'))
    log.write_text("")
    for mode, version in MODES:
        parameters = StdioServerParameters(command=gateway[0], args=gateway[1:])
        seen = []

        async def progress(at, total, message, seen=seen):
            seen.append(at)

        async with Client(stdio_client(parameters), mode=mode) as one:
            check(f"{era}: stdio {mode} connects", one.protocol_version == version, one.protocol_version)
            await uses(f"{era}: stdio {mode}", one, folder)
            await one.call_tool("test_tool_with_progress", {}, progress_callback=progress)
            check(f"{era}: stdio {mode} gets progress", len(seen) >= 2, seen)
            done = await one.call_tool("test_reconnection", {})
            check(f"{era}: stdio {mode} outlives a stream that breaks off", not done.is_error, dump(done))
    sent = requests(log)
    ended = sum(one["method"] == "DELETE" for one in sent)
    check(f"{era}: each session is ended at the server", ended == (len(MODES) if era == "auto" else 0), ended)
    stated = {one.get("mcp-protocol-version") for one in sent if one.get("mcp-method") == "tools/call"}
    check(f"{era}: calls state the era", stated == {"2025-11-25" if era == "auto" else "2026-07-28"}, stated)
    check(f"{era}: no request has a token of a client", {one.get("authorization") for one in requests(log)} == {"Bearer fixed"})


async def over_http(folder, uses, **options):
    """Serves the configuration, and has a client of each mode use it."""
    tokens = "".join(f'[[token]]\ntoken = "{token}"\nname = "{name}"\nmay = ["check"]\n' for name, token in TOKENS.items())
    (folder / "serve.tokens").write_text(tokens)
    (folder / "serve.tokens").chmod(0o600)
    with (folder / "gateway.toml").open("a") as config:
        config.write('[serve]\ntoken_file = "serve.tokens"\nlisten = "127.0.0.1:0"\n')
    gateway = subprocess.Popen([COUNTERSIGN, "mcp", "serve", "--config", folder / "gateway.toml"], stdout=subprocess.PIPE, text=True)
    try:
        own = re.search(r"http://\S+", gateway.stdout.readline()).group()
        for mode, version in MODES:
            async with client(own, mode, **options) as one:
                check(f"http {mode} connects", one.protocol_version == version, one.protocol_version)
                await uses(f"http {mode}", one, folder)
    finally:
        gateway.send_signal(signal.SIGTERM)
        check("http: a signal ends the endpoint in order", gateway.wait(30) == 128 + signal.SIGTERM)


async def first_call(gateway):
    parameters = StdioServerParameters(command=gateway[0], args=gateway[1:])
    try:
        async with asyncio.timeout(60):
            async with Client(stdio_client(parameters), mode="legacy") as one:
                return (await one.call_tool("test_simple_text", {})).content[0].text
    except BaseException as error:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return str(error)


async def rules(folder, url, log):
    """Credentials, redirects, addresses."""
    port = url.split(":")[2].split("/")[0]
    oauth = f'[server.remote.oauth]\ntoken_url = "http://127.0.0.1:{port}/token"\nclient_id = "client"\nclient_secret_file = "client.secret"\n'
    before = len(requests(log))
    done = await first_call(configured(folder, url, oauth))
    check("a client's credentials get access tokens", done == TEXT, done)
    asked = [one for one in requests(log)[before:] if one["path"] == "/token"]
    check("a token that the server refuses is replaced", len(asked) >= 2, asked)
    done = await first_call(configured(folder, url.replace("/mcp", "/moved")))
    check("a redirect within the origin is followed", done == TEXT, done)
    before = len(requests(log))
    done = await first_call(configured(folder, url.replace("/mcp", "/away")))
    check("a redirect to another host is not followed", "gave no answer" in done, done)
    check("it gets no request", all(one["path"] == "/away" for one in requests(log)[before:]), requests(log)[before:])
    done = await first_call(configured(folder, url, ""))
    check("a missing credential is an error", "gave no answer" in done, done)
    done = await first_call(configured(folder, f"http://127.0.0.1:{free_port()}/mcp"))
    check("a server that is down is an error", "could not be reached" in done, done)
    done = await first_call(configured(folder, f"http://localhost:{port}/mcp"))
    check("localhost is this machine", done == TEXT, done)
    for wrong, code in ((f"http://192.0.2.1:{port}/mcp", "SERVER_URL"), ("ftp://127.0.0.1/", "SERVER_URL"), ("https://a@b/", "SERVER_URL")):
        ended = subprocess.run(configured(folder, wrong), input="", capture_output=True, text=True)
        check(f"{wrong} is no server", ended.returncode == 1 and code in ended.stderr, (ended.returncode, ended.stderr))
    ended = subprocess.run([*configured(folder, url), "--", "cat"], input="", capture_output=True, text=True)
    check("a URL and a command conflict", "CONFIG_CONFLICT" in ended.stderr, ended.stderr)
    outcomes = [line for line in record(folder) if line["type"] == "outcome"]
    check("outcomes are recorded", len(outcomes) > 100, len(outcomes))
    done = subprocess.run([COUNTERSIGN, "audit", "verify", folder / "log", "--key", folder / "log.vkey"], capture_output=True, text=True)
    check("the logs verify", done.returncode == 0 and "verified" in done.stdout, (done.stdout, done.stderr))


async def main(folder):
    for name, text in (("server.token", "fixed"), ("client.secret", "sec+ret")):
        (folder / name).write_text(text + "\n")
        (folder / name).chmod(0o600)
    with remote(folder) as (url, log):
        set_up(folder, "remote", ["--url", url, "--token-file", "server.token"], RULES)
        (folder / "gateway.toml").rename(folder / "base.toml")
        log.write_text("")
        for era in ("auto", "stateless"):
            await over_stdio(folder, url, log, era)
        configured(folder, url)
        await over_http(folder, uses)
        await rules(folder, url, log)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary).resolve()))
    sys.exit(told())
