"""Puts the gateway between the clients and servers of an SDK, of both eras, over standard input and output and over HTTP.

Usage: sdks.py COUNTERSIGN NODE_MODULES [RMCP_PEER]. NODE_MODULES holds @modelcontextprotocol/client, server and node of the TypeScript SDK, whose
client and server are `typescript_client.mjs` and `typescript_server.mjs`. RMCP_PEER is the program of `rmcp`, for the Rust SDK; without it,
that is left out. Each pair lists, calls, is refused, approves and is refused again. Prints one line a check and ends with a count.
"""

import contextlib
import itertools
import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import check, told
from mcp_serve import TOKENS
from peers import COUNTERSIGN, MODULES, NODE, countersign, record, set_up
from remote import free_port

HERE = Path(__file__).parent
MODES = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}
FREE, ASKED = {"impact": "read", "approval": "not_required"}, {"impact": "money", "approval": "required"}
RULES = {"echo": FREE, "pay": ASKED, "later": {**FREE, "tasks": "allowed"}, "resources/read": FREE, "prompts/get/hi": FREE}
TEXT = "h\u00e9 \u4e16\u754c \U0001f600 \u202e \\ \n"


RMCP = sys.argv[3:4]
SDKS = {"TypeScript": [str(NODE), str(HERE / "typescript_{}.mjs"), str(MODULES)], **({"Rust": [str(Path(RMCP[0]).resolve()), "{}"]} if RMCP else {})}


def program(sdk, kind, *args):
    return [part.replace("{}", kind) for part in SDKS[sdk]] + [str(arg) for arg in args]


class Client:
    """A process with a client of a mode."""

    def __init__(self, sdk, mode, *to):
        command = program(sdk, "client", mode, *to)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.read()

    def read(self):
        line = self.process.stdout.readline()
        assert line, "the client has ended"
        return json.loads(line)

    def ask(self, method, *args):
        self.process.stdin.write(json.dumps([method, *args]) + "\n")
        self.process.stdin.flush()
        return self.read()

    def call(self, name, text):
        return self.ask("callTool", {"name": name, "arguments": {"text": text}})

    def end(self):
        self.process.stdin.close()
        return self.process.wait(20)


def refusal(result):
    return result.get("_meta", {}).get("dev.countersign/decision", {}).get("code") if result.get("isError") else None


def uses(what, one, folder):
    listed = sorted(tool["name"] for tool in one.ask("listTools")["tools"])
    check(f"{what} lists", listed == (["echo", "later", "pay"] if "Rust" in what else ["echo", "pay"]), listed)
    done = one.call("echo", TEXT)
    check(f"{what} calls", done.get("content") == [{"type": "text", "text": TEXT}] and not done.get("isError"), done)
    check(f"{what} is refused", refusal(one.call("fail", "x")) == "UNDISCLOSED_TOOL")
    waits = one.call("pay", what)
    check(f"{what} waits for an approval", refusal(waits) == "APPROVAL_REQUIRED", waits)
    countersign(folder, "approve", waits["_meta"]["dev.countersign/decision"]["approval_id"], "--config", "gateway.toml", "--yes")
    done = one.call("pay", what)
    check(f"{what} runs the approved call", done["content"][0]["text"] == what, done)
    check(f"{what} is refused again", refusal(one.call("pay", what)) == "APPROVAL_REQUIRED")
    read = one.ask("readResource", {"uri": "note://a"})
    check(f"{what} reads a resource", read.get("contents", [{}])[0].get("text") == "a note", read)
    read = one.ask("readResource", {"uri": "note://b"})
    check(f"{what} is refused another", read["error"]["code"] == 403 and read["error"]["data"]["code"] == "ARGS_SCHEMA", read)
    got = one.ask("getPrompt", {"name": "hi"})
    check(f"{what} gets a prompt", got.get("messages", [{}])[0].get("content", {}).get("text") == "hi", got)


def uses_tasks(what, one):
    """A call whose result the server promises, between peers of the stateless era."""
    task = one.ask("callToolOnce", {"name": "later", "arguments": {"text": what}})
    check(f"{what}: a call is answered with a task", task.get("resultType") == "task", task)
    asked = {"taskId": task.get("taskId")}
    state = one.ask("getTask", asked)
    check(f"{what}: the task is under way", state.get("status") == "working", state)
    state = one.ask("getTask", asked)
    check(f"{what}: the task has the result", state.get("result", {}).get("content", [{}])[0].get("text") == what, state)
    for other in (asked["taskId"], "task-99"):
        gone = one.ask("getTask", {"taskId": other})
        check(f"{what}: a task that has ended or is another's is unknown", gone["error"]["data"]["code"] == "TASK_UNKNOWN", gone)


def uses_form(what, one):
    done = one.call("pay", f"form {what}")
    check(f"{what}: a yes in its form runs the call", done.get("content", [{}])[0].get("text") == f"form {what}", done)


@contextlib.contextmanager
def served(folder):
    gateway = subprocess.Popen([COUNTERSIGN, "mcp", "serve", "--config", folder / "gateway.toml"], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://\S+", gateway.stdout.readline()).group()
    finally:
        gateway.send_signal(signal.SIGTERM)
        check("a signal ends the endpoint in order", gateway.wait(30) == 128 + signal.SIGTERM)


def pair(folder, sdk, era, over_http):
    """A server of an era, and clients of all modes over both transports."""
    at = f"{sdk}, server of {'the stateless era' if era == 'stateless' else 'both eras'}, {'HTTP' if over_http else 'stdio'}"
    started = None
    # A server of the Rust SDK ends if it is asked for a handshake that it does not make.
    pinned = "stateless" if sdk == "Rust" and era == "stateless" and not over_http else "auto"
    if over_http:
        port = free_port()
        started = subprocess.Popen(program(sdk, "server", era, port), stdout=subprocess.PIPE, text=True)
        started.stdout.readline()
        url = f"http://127.0.0.1:{port}/mcp"
        set_up(folder, "sdk", ["--url", url, "--address", "127.0.0.1/32"], RULES)
        more = f'url = "{url}"\n[server.remote]\naddresses = ["127.0.0.1/32"]\n'
    else:
        set_up(folder, "sdk", program(sdk, "server", era), RULES, pinned)
        more = f"command = {json.dumps(program(sdk, 'server', era))}\nera = \"{pinned}\"\n"
    tokens = "".join(f'[[token]]\ntoken = "{token}"\nname = "{name}"\nmay = ["check"]\n' for name, token in TOKENS.items())
    (folder / "serve.tokens").write_text(tokens)
    (folder / "serve.tokens").chmod(0o600)
    config = folder / "gateway.toml"
    config.write_text(config.read_text() + more + '[serve]\ntoken_file = "serve.tokens"\nlisten = "127.0.0.1:0"\n')
    try:
        for mode, version in MODES.items():
            one = Client(sdk, mode, "--", COUNTERSIGN, "mcp", "run", "--config", config)
            check(f"{at}; {mode} client, stdio: speaks its era", one.version == version, one.version)
            uses(f"{at}; {mode} client, stdio", one, folder)
            if sdk == "Rust" and era == "stateless" and mode != "legacy":
                uses_tasks(f"{at}; {mode} client, stdio", one)
            check(f"{at}; {mode} client, stdio: ends", one.end() == 0)
        with served(folder) as own:
            for mode, version in MODES.items():
                one = Client(sdk, mode, own, TOKENS["ada"])
                check(f"{at}; {mode} client, HTTP: speaks its era", one.version == version, one.version)
                uses(f"{at}; {mode} client, HTTP", one, folder)
                one.end()
        config.write_text(config.read_text().replace('ttl = "10m"', 'ttl = "10m"\nhold = "20s"\nelicit = "form"'))
        for mode in MODES:
            one = Client(sdk, mode, "--", COUNTERSIGN, "mcp", "run", "--config", config)
            uses_form(f"{at}; {mode} client", one)
            one.end()
    finally:
        if started:
            started.terminate()
            started.wait()
    kinds = {line["type"] for line in record(folder)}
    check(f"{at}: decisions and outcomes are on record", {"decision", "outcome"} <= kinds, kinds)


def main():
    for sdk, era, over_http in itertools.product(SDKS, ("both", "stateless"), (False, True)):
        with tempfile.TemporaryDirectory() as folder:
            pair(Path(folder).resolve(), sdk, era, over_http)
    sys.exit(told())


if __name__ == "__main__":
    main()
