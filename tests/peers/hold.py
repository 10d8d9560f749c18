"""Calls that wait for a person while the client waits for them: the Python SDK's client, the real gateway, `approve` from
other processes.

Usage: hold.py COUNTERSIGN [SECONDS]

One call is approved after SECONDS, 90 by default. Needs the package `mcp`. Prints one line a check and ends with a count.
"""

import asyncio
import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import check, told
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult

COUNTERSIGN = Path(sys.argv[1]).resolve()
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 90
SERVER = [sys.executable, str(Path(__file__).with_name("counting_server.py"))]
DECISION = "dev.countersign/decision"
# Recipients of all questions: one of the equal calls asks twice.
ASKED = ["late", "silent", "denied", "cancelled", "twice", "both", "equal", "equal", "\u202eevil", "no", "skipped", "next", "last"]
CONFIG = """
[registry]
file = "registry.json"
trust_root = "root.json"
state = "registry.state"
[session]
agent = "pay-bot"
principal = "user@example.com"
ttl = "1h"
[approval]
key_file = "approval.key"
store = "approvals.sqlite"
hold = "5m"
notify = ["sh", "-c", "echo $COUNTERSIGN_ID $COUNTERSIGN_TOOL $COUNTERSIGN_VALUE_1 >> notified"]
notify_values = ["/to"]
[record]
folder = "log"
key_file = "log.key"
origin = "peers.example/hold"
[server]
name = "bank"
"""


def countersign(folder, *args):
    done = subprocess.run([COUNTERSIGN, *args], cwd=folder, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit(f"countersign {' '.join(args)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def set_up(folder):
    countersign(folder, "keys", "generate", "--kind", "ed25519", "--out", "op.key", "--public-out", "op.pub")
    countersign(folder, "keys", "generate", "--kind", "hmac", "--out", "approval.key")
    countersign(folder, "keys", "generate", "--kind", "log", "--origin", "peers.example/hold", "--out", "log.key")
    countersign(folder, "keys", "trust", "--threshold", "1", "--out", "root.json", "op.pub")
    command = [*SERVER, str(folder / "paid")]
    draft = json.loads(countersign(folder, "mcp", "inspect", "--name", "bank", "--", *command))
    draft["agents"] = [{
        "agent": "pay-bot", "version": 1, "registered_by": "operator", "output_tags": [], "max_session": "1h",
        "tools": [{"server": "bank", "name": "pay"}],
    }]
    draft["tools"] = [dict(tool, impact="money", approval="required", evidence="not_required", ask="not_required") for tool in draft["tools"]]
    (folder / "draft.json").write_text(json.dumps(draft))
    countersign(folder, "registry", "sign", "draft.json", "--key", "op.key", "--ttl", "1d", "--out", "registry.json")
    (folder / "gateway.toml").write_text(CONFIG)
    return [str(COUNTERSIGN), "mcp", "run", "--config", str(folder / "gateway.toml"), "--", *command]


@contextlib.asynccontextmanager
async def session(command, **callbacks):
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer, **callbacks) as client:
        await client.initialize()
        yield client


class Call:
    """A call under way, and what the client is told meanwhile."""

    def __init__(self, client, to, progress=True):
        self.messages = []
        self.to = to

        async def on_progress(progress, total, message):
            self.messages.append((progress, message))

        callback = {"progress_callback": on_progress} if progress else {}
        self.task = asyncio.create_task(client.call_tool("pay", {"to": to}, **callback))

    async def question(self):
        for _ in range(600):
            if self.messages:
                return self.messages[-1][1].removeprefix("waits for approval: ")
            await asyncio.sleep(0.05)
        raise SystemExit(f"no progress for the call to {self.to}")


def code(result):
    return (result.meta or {}).get(DECISION, {}).get("code") if result.is_error else None


def runs(folder):
    file = folder / "paid"
    return [json.loads(line)["to"] for line in file.read_text().splitlines()] if file.exists() else []


async def approve(folder, *args):
    process = await asyncio.create_subprocess_exec(
        COUNTERSIGN, "approve", *args, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await process.communicate()
    return process.returncode, (out + err).decode()


async def late_yes(folder, client):
    call = Call(client, "late")
    silent = Call(client, "silent", progress=False)
    question = await call.question()
    await asyncio.sleep(SECONDS)
    check("nothing has run before the answer", "late" not in runs(folder) and "silent" not in runs(folder))
    check("a progress notification came every 15 s", len(call.messages) >= SECONDS // 15, call.messages)
    check("progress rises", sorted({step for step, _ in call.messages}) == [step for step, _ in call.messages])
    check("the approval is taken", (await approve(folder, question, "--by", "ada", "--yes"))[0] == 0)
    result = await asyncio.wait_for(call.task, 20)
    check("the client has its result", not result.is_error and result.content[0].text == "paid", result)
    listed = json.loads((await approve(folder, "list", "--json"))[1])["pending"]
    other = next(it["call_id"] for it in listed if "silent" in it["args"])
    await approve(folder, other, "--by", "ada", "--yes")
    result = await asyncio.wait_for(silent.task, 20)
    check("so has a call without a progress token", not result.is_error, result)


async def no(folder, client):
    call = Call(client, "denied")
    await approve(folder, await call.question(), "--deny", "--by", "ada", "--reason", "ask finance first")
    result = await asyncio.wait_for(call.task, 20)
    text = result.content[0].text
    check("a denial answers at once, with the reason", code(result) == "APPROVAL_DENIED" and "ask finance first" in text, result)


async def cancelled(folder, client):
    call = Call(client, "cancelled")
    question = await call.question()
    call.task.cancel()
    await asyncio.sleep(1)
    await approve(folder, question, "--by", "ada", "--yes")
    await asyncio.sleep(1)
    check("a cancelled call does not run when it is approved late", "cancelled" not in runs(folder))


async def two_answers(folder, client):
    for to, second in [("twice", ["--yes"]), ("both", ["--deny"])]:
        call = Call(client, to)
        question = await call.question()
        answers = await asyncio.gather(
            approve(folder, question, "--by", "ada", "--yes"), approve(folder, question, "--by", "bob", *second))
        result = await asyncio.wait_for(call.task, 20)
        ran = runs(folder).count(to)
        check(f"two answers at once count as one ({to})", ran == (0 if result.is_error else 1), (answers, result))
        if to == "twice":
            check("one of two approvals is refused", sorted(status for status, _ in answers) == [0, 1], answers)


async def equal_calls(folder, client):
    first, second = Call(client, "equal"), Call(client, "equal")
    question = await first.question()
    check("equal calls share a question", await second.question() == question)
    await approve(folder, question, "--by", "ada", "--yes")
    await asyncio.wait([first.task, second.task], return_when=asyncio.FIRST_COMPLETED, timeout=20)
    left = second if first.task.done() else first
    for _ in range(200):
        if left.messages[-1][1] != f"waits for approval: {question}":
            break
        await asyncio.sleep(0.05)
    check("one approval runs one of them", runs(folder).count("equal") == 1 and not left.task.done())
    await approve(folder, await left.question(), "--deny", "--by", "ada")
    check("the other asks again", code(await asyncio.wait_for(left.task, 20)) == "APPROVAL_DENIED")


def until(screen, wanted):
    """Reads the terminal until it shows `wanted`."""
    text = ""
    while wanted not in text:
        ready, _, _ = select.select([screen], [], [], 30)
        if not ready:
            raise SystemExit(f"the terminal shows no {wanted!r}: {text}")
        text += os.read(screen, 65536).decode(errors="replace")
    return text


async def watched(folder, client):
    screen, terminal = pty.openpty()
    watcher = subprocess.Popen(
        [COUNTERSIGN, "approve", "--watch", "--by", "ada"], cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal)

    async def answered(to, *lines):
        call = Call(client, to)
        shown = await asyncio.to_thread(until, screen, "q: quit] ")
        for line, prompt in lines:
            os.write(screen, line.encode() + b"\n")
            await asyncio.to_thread(until, screen, prompt)
        return await asyncio.wait_for(call.task, 20), shown

    result, shown = await answered("\u202eevil", ("what?", "q: quit] "), ("y", "approved by ada"))
    check("--watch rings the bell and shows the call", "\x07" in shown and "bank:pay" in shown, shown)
    check("it shows invisible characters", "\\u202eevil" in shown and "\u202e" not in shown, shown)
    check("y approves", not result.is_error, result)
    result, _ = await answered("no", ("n", "empty for none): "), ("not today", "denied by ada"))
    check("n denies, with a reason", "not today" in result.content[0].text, result)
    skipped = Call(client, "skipped")
    await asyncio.to_thread(until, screen, "q: quit] ")
    os.write(screen, b"s\n")
    result, shown = await answered("next", ("y", "approved by ada"))
    check("s skips to the next call", "next" in shown and not skipped.task.done(), shown)
    await approve(folder, await skipped.question(), "--deny")
    await asyncio.wait_for(skipped.task, 20)
    last = Call(client, "last")
    await asyncio.to_thread(until, screen, "q: quit] ")
    os.write(screen, b"q\n")
    check("q ends it", await asyncio.to_thread(watcher.wait, 20) == 0)
    await approve(folder, await last.question(), "--deny")
    await asyncio.wait_for(last.task, 20)


async def asked_by_form(folder, command):
    """A client that shows forms, at a gateway that may ask there."""
    (folder / "gateway.toml").write_text(CONFIG.replace('hold = "5m"', 'hold = "5m"\nelicit = "form"'))
    forms, answers = [], {
        "form-yes": ElicitResult(action="accept", content={"approve": True}),
        "form-no": ElicitResult(action="decline"),
        "form-closed": ElicitResult(action="cancel"),
    }

    async def person(_, params):
        forms.append(params.message)
        return next(answer for to, answer in answers.items() if f'"{to}"' in params.message)

    async with session(command, elicitation_callback=person) as client:
        yes = await asyncio.wait_for(Call(client, "form-yes", progress=False).task, 20)
        check("a yes in the client's form runs the call", not yes.is_error and runs(folder).count("form-yes") == 1, yes)
        check("the form shows tool and arguments", "bank:pay" in forms[0] and '"form-yes"' in forms[0], forms)
        no = await asyncio.wait_for(Call(client, "form-no", progress=False).task, 20)
        check("a no in the form denies it", code(no) == "APPROVAL_DENIED" and "form-no" not in runs(folder), no)
        closed = Call(client, "form-closed")
        question = await closed.question()
        await asyncio.sleep(1)
        check("a closed form leaves the question open", not closed.task.done() and len(forms) == 3, forms)
        await approve(folder, question, "--by", "ada", "--yes")
        check("which is answered elsewhere", not (await asyncio.wait_for(closed.task, 20)).is_error)
        for question in json.loads((await approve(folder, "list", "--json"))[1])["pending"]:
            raise SystemExit(f"a question is left: {question}")
    approvers = [line["approver"] for line in entries(folder) if line["type"] == "decision" and line["verdict"] == "accept"][-2:]
    check("the record names the form, and no person, as approver", approvers == ["mcp:form", "ada"], approvers)


async def asked_in_result(folder, command):
    """A client of the stateless era is asked in place of the result, and sends the call once more with the answer."""
    forms = []

    async def person(_, params):
        forms.append(params.message)
        return ElicitResult(action="accept", content={"approve": '"no ' not in params.message, "reason": "not now"})

    for mode in ("auto", "2026-07-28"):
        parameters = StdioServerParameters(command=command[0], args=command[1:], cwd=folder)
        async with Client(stdio_client(parameters), mode=mode, elicitation_callback=person) as client:
            check(f"{mode} is of the stateless era with forms on", client.protocol_version == "2026-07-28")
            yes, no = f"yes {mode}", f"no {mode}"
            done = await asyncio.wait_for(client.call_tool("pay", {"to": yes}), 20)
            check(f"{mode}: a yes runs the call once", not done.is_error and runs(folder).count(yes) == 1, done)
            check(f"{mode}: the form shows tool and arguments", "bank:pay" in forms[-1] and yes in forms[-1], forms)
            denied = await asyncio.wait_for(client.call_tool("pay", {"to": no}), 20)
            check(f"{mode}: a no denies it, with its reason",
                  code(denied) == "APPROVAL_DENIED" and "not now" in denied.content[0].text and no not in runs(folder), denied)
    approvers = [line["approver"] for line in entries(folder) if line["type"] == "decision" and line["verdict"] == "accept"][-2:]
    check("the record names the form for them too", approvers == ["mcp:form"] * 2, approvers)


def entries(folder):
    lines = [json.loads(line) for file in sorted((folder / "log").rglob("*.jsonl")) for line in file.read_text().splitlines()]
    return [line for line in lines if "seq" in line]


def killed(folder, command):
    """Kills a gateway while its call waits; the answer comes later."""
    gateway = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def send(message):
        gateway.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        gateway.stdin.flush()

    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    send({"id": 1, "method": "initialize", "params": hello})
    gateway.stdout.readline()
    send({"method": "notifications/initialized"})
    send({"id": 2, "method": "tools/call", "params": {"name": "pay", "arguments": {"to": "killed"}, "_meta": {"progressToken": 1}}})
    line = ""
    while "progress" not in line:
        line = gateway.stdout.readline()
    question = json.loads(line)["params"]["message"].removeprefix("waits for approval: ")
    os.killpg(gateway.pid, signal.SIGKILL)
    gateway.wait()
    subprocess.run([COUNTERSIGN, "approve", question, "--by", "ada", "--yes"], cwd=folder, capture_output=True, timeout=60)
    time.sleep(1)
    check("a call of a killed gateway never runs", "killed" not in runs(folder))


async def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = set_up(folder)
        async with session(command) as client:
            await asyncio.gather(
                late_yes(folder, client), no(folder, client), cancelled(folder, client), two_answers(folder, client),
                equal_calls(folder, client))
            await watched(folder, client)
        notified = [line.split(" ", 2)[1:] for line in (folder / "notified").read_text().splitlines()]
        check("each question is notified of, once", sorted(notified) == sorted(["pay", f'"{to}"'] for to in ASKED), notified)
        accepted = [line for line in entries(folder) if line["type"] == "decision" and line["verdict"] == "accept"]
        check("each run has an acceptance with approver on record",
              len(accepted) == len(runs(folder)) and all(line["approver"] in ("ada", "bob") for line in accepted), accepted)
        check("no call ran twice", len(runs(folder)) == len(set(runs(folder))), runs(folder))
        await asked_by_form(folder, command)
        await asked_in_result(folder, command)
        killed(folder, command)
    return told()


sys.exit(asyncio.run(main()))
