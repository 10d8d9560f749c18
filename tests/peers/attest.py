"""Calls that lack evidence: the Python SDK's client, which sets no `_meta`, the real gateway, `attest` from other processes.

Usage: attest.py COUNTERSIGN

Needs the package `mcp`. Prints one line a check and ends with a count.
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
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

COUNTERSIGN = Path(sys.argv[1]).resolve()
SERVER = [sys.executable, str(Path(__file__).with_name("counting_server.py"))]
DECISION = "dev.countersign/decision"
# The finance officer's whole command, at most 80 characters.
LINE = "countersign attest {} --key finance.key --key-id finance"
KEY = ["--key", "finance.key", "--key-id", "finance"]
# Signs standard input with a key that this process alone reads: Ed25519 (RFC 8032), by the package `cryptography` of the client.
SIGNER = """
import base64, json, os, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
assert os.environ["COUNTERSIGN_KEY_ID"] == "finance"
key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(json.load(open("finance.key"))["secret"]))
print(base64.b64encode(key.sign(sys.stdin.buffer.read())).decode())
"""
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
{approval}
[proposals]
keyring = "keyring.json"
evidence_root = "evidence"
{proposals}
[record]
folder = "log"
key_file = "log.key"
origin = "peers.example/attest"
[server]
name = "bank"
"""


def run(folder, *args, answer=None):
    return subprocess.run([COUNTERSIGN, *args], cwd=folder, input=answer, capture_output=True, text=True, timeout=60)


def countersign(folder, *args):
    done = run(folder, *args)
    if done.returncode != 0:
        raise SystemExit(f"countersign {' '.join(args)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def set_up(folder, approval="not_required", hold="", proposals=""):
    countersign(folder, "keys", "generate", "--kind", "ed25519", "--out", "op.key", "--public-out", "op.pub")
    countersign(folder, "keys", "generate", "--kind", "hmac", "--out", "approval.key")
    countersign(folder, "keys", "generate", "--kind", "log", "--origin", "peers.example/attest", "--out", "log.key")
    for name in ["finance", "clerk", "other"]:
        countersign(folder, "keys", "generate", "--kind", "ed25519", "--out", f"{name}.key", "--public-out", f"{name}.pub")
    countersign(folder, "keys", "trust", "--threshold", "1", "--out", "root.json", "op.pub")
    keyring = json.loads(countersign(folder, "keys", "keyring", "--add", "finance=finance.pub", "--add", "clerk=clerk.pub"))
    keys = keyring["trusted_keys"]
    keys["clerk"] = {"public_key": keys["clerk"] if isinstance(keys["clerk"], str) else keys["clerk"]["public_key"], "impacts": ["write"]}
    (folder / "keyring.json").write_text(json.dumps(keyring))
    (folder / "evidence").mkdir()
    (folder / "evidence" / "invoice.txt").write_text("Invoice 17\n500 EUR \u202eto eve\n")
    command = [*SERVER, str(folder / "paid")]
    draft = json.loads(countersign(folder, "mcp", "inspect", "--name", "bank", "--", *command))
    draft["agents"] = [{
        "agent": "pay-bot", "version": 1, "registered_by": "operator", "output_tags": [], "max_session": "1h",
        "tools": [{"server": "bank", "name": "pay"}],
    }]
    draft["tools"] = [dict(tool, impact="money", approval=approval, evidence="not_required", ask="not_required") for tool in draft["tools"]]
    (folder / "draft.json").write_text(json.dumps(draft))
    countersign(folder, "registry", "sign", "draft.json", "--key", "op.key", "--ttl", "1d", "--out", "registry.json")
    (folder / "gateway.toml").write_text(CONFIG.format(approval=hold, proposals=proposals))
    return [str(COUNTERSIGN), "mcp", "run", "--config", str(folder / "gateway.toml"), "--", *command]


@contextlib.asynccontextmanager
async def session(command):
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as client:
        await client.initialize()
        yield client


def runs(folder):
    file = folder / "paid"
    return [json.loads(line)["to"] for line in file.read_text().splitlines()] if file.exists() else []


def decision(result):
    return (result.meta or {}).get(DECISION, {}) if result.is_error else {}


def proposal(to, **more):
    return {
        "protocol": "PIC/1.0", "intent": f"pay {to}", "impact": "money",
        "provenance": [{"id": "invoice", "trust": "trusted"}],
        "claims": [{"text": "the invoice is due", "evidence": ["invoice"]}],
        "action": {"tool": "pay", "args": {"to": to}}, **more,
    }


async def pay(client, to, **more):
    return await client.call_tool("pay", {"to": to, **more})


async def question(client, to, **more):
    """Makes a call that is refused for want of evidence, and returns the id that a person types."""
    text = (await pay(client, to, **more)).content[0].text
    return text.rsplit(": ", 1)[1].rstrip(".")


def until(screen, wanted):
    """Reads the terminal until it shows `wanted`."""
    text = ""
    while wanted not in text:
        ready, _, _ = select.select([screen], [], [], 30)
        if not ready:
            raise SystemExit(f"the terminal shows no {wanted!r}: {text}")
        text += os.read(screen, 65536).decode(errors="replace")
    return text


def at_terminal(folder, args, lines):
    """Answers the prompts of a command at a terminal. Returns its exit code and everything that it showed."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen([COUNTERSIGN, *args], cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = ""
    for prompt, line in lines:
        shown += until(screen, prompt)
        os.write(screen, line.encode() + b"\n")
    with contextlib.suppress(OSError):
        while text := os.read(screen, 65536):
            shown += text.decode(errors="replace")
    return process.wait(30), shown


def watch(folder):
    """Starts `approve --watch` at a terminal."""
    screen, terminal = pty.openpty()
    args = [COUNTERSIGN, "approve", "--watch", "--by", "ada"]
    process = subprocess.Popen(args, cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    return process, screen


async def from_nothing(folder, client):
    result = await pay(client, "nothing")
    text, refused = result.content[0].text, decision(result)
    check("the refusal says what is missing", refused["code"] == "PIC_INVALID_REQUEST" and refused["missing"] == "proposal", result)
    check("the refusal has the id and no value", "Attestation id: " in text and "nothing" not in text, text)
    asked = text.rsplit(": ", 1)[1].rstrip(".")
    check("the officer's line has at most 80 characters", len(LINE.format(asked)) <= 80 and 4 <= len(asked) <= 6, asked)
    listed = countersign(folder, "approve", "list")
    wanted = f"waits for evidence (countersign attest {asked} "
    check("the list says what it waits for, and the command", asked in listed and wanted in listed, listed)
    status, shown = await asyncio.to_thread(
        at_terminal, folder, LINE.format(asked).split()[1:], [("nothing) ", "pay invoice 17"), ("do not] ", "y")])
    check("it asks for the intent, shows the call and signs", status == 0 and "pay invoice 17" in shown and "bank:pay" in shown, shown)
    result = await pay(client, "nothing")
    check("the plain retry runs", not result.is_error and runs(folder).count("nothing") == 1, result)
    again = decision(await pay(client, "nothing"))
    check("a second retry does not", again["code"] == "PIC_INVALID_REQUEST" and runs(folder).count("nothing") == 1, again)


async def with_proposal(folder, client):
    digest = subprocess.run(["sha256sum", folder / "evidence" / "invoice.txt"], capture_output=True, text=True).stdout.split()[0]
    file = {"id": "file", "type": "hash", "ref": "file://invoice.txt", "sha256": digest}
    pic = {"__pic": proposal("proposed", evidence=[file])}
    result = await pay(client, "proposed", **pic)
    check("an unsigned file is not enough", decision(result)["missing"] == "trusted_claim", result)
    asked = result.content[0].text.rsplit(": ", 1)[1].rstrip(".")
    status, shown = await asyncio.to_thread(at_terminal, folder, ["attest", asked, *KEY], [("do not] ", "y")])
    parts = ["file://invoice.txt", digest, "Invoice 17", "\\u202e", "the invoice is due"]
    check("it shows claim and file, escaped", status == 0 and all(part in shown for part in parts) and "\u202e" not in shown, shown)
    result = await pay(client, "proposed")
    check("the retry needs no `__pic`", not result.is_error and runs(folder).count("proposed") == 1, result)


async def bad_answers(folder, client):
    asked = await question(client, "bad", __pic=proposal("bad"))

    def answer(*args):
        done = run(folder, "attest", asked, "--yes", *args)
        return done.returncode, done.stderr.split(":")[0].removeprefix("error ").strip(), done.stderr

    cases = [
        ("a key of another name", ["--key", "finance.key", "--key-id", "nobody"], "ATTEST_KEY"),
        ("another key", ["--key", "other.key", "--key-id", "finance"], "ATTEST_SIGNATURE"),
        ("a key for another impact", ["--key", "clerk.key", "--key-id", "clerk"], "PIC_EVIDENCE_FAILED"),
        ("a missing evidence file", [*KEY, "--intent", "x", "--evidence", "absent.txt"], "PIC_EVIDENCE_FAILED"),
        ("a file outside", [*KEY, "--intent", "x", "--evidence", "../finance.key"], "PIC_EVIDENCE_FAILED"),
        ("a command that signs nothing", ["--key-id", "finance", "--sign-with", "true"], "SIGN_COMMAND"),
        ("no key at all", ["--key-id", "finance"], "USAGE"),
    ]
    for what, args, wanted in cases:
        status, code, text = answer(*args)
        check(f"{what} is refused", status != 0 and wanted in (code, text.splitlines()[-1].split(":")[0].removeprefix("error ")), (status, text))
    unknown = run(folder, "attest", "zzzz", *KEY, "--yes")
    check("so is an unknown id", unknown.returncode == 1 and "PENDING_UNKNOWN" in unknown.stderr, unknown.stderr)
    done = run(folder, "approve", asked, "--yes")
    check("an approval is no attestation", done.returncode == 1 and "PENDING_KIND" in done.stderr, done.stderr)
    check("nothing has run", decision(await pay(client, "bad"))["missing"] == "proposal" and "bad" not in runs(folder))
    keyring = (folder / "keyring.json").read_text()
    revoked = json.loads(keyring)
    revoked["revoked_keys"] = ["finance"]
    (folder / "keyring.json").write_text(json.dumps(revoked))
    status, code, text = answer(*KEY)
    check("a revoked key is refused", code == "ATTEST_KEY" and "revoked" in text, text)
    (folder / "keyring.json").write_text(keyring)
    status, _, text = answer(*KEY)
    check("the right key still can", status == 0, text)
    status, code, text = answer(*KEY)
    check("a second answer is refused", code == "PENDING_DECIDED", text)


async def attacks(folder, client):
    first, second = await question(client, "first"), await question(client, "second")
    countersign(folder, "attest", first, *KEY, "--intent", "pay first", "--yes")
    result = await pay(client, "second")
    check("an attestation is for its own call", result.is_error and "second" not in runs(folder), result)
    result = await pay(client, "first", more=1)
    check("changed arguments are refused", result.is_error and "first" not in runs(folder), result)
    result = await pay(client, "first", __pic=proposal("first", intent="something else"))
    check("another proposal changes nothing", not result.is_error and runs(folder).count("first") == 1, result)
    countersign(folder, "approve", second, "--deny", "--by", "ada", "--reason", "no such invoice")
    result = await pay(client, "second", __pic=proposal("second"))
    check("a denial is final", decision(result)["code"] == "APPROVAL_DENIED" and "no such invoice" in result.content[0].text, result)
    asked = await question(client, "race")
    args = ["attest", asked, *KEY, "--intent", "pay race", "--yes"]
    answers = await asyncio.gather(*[asyncio.to_thread(run, folder, *args) for _ in range(2)])
    check("of two answers at once one counts", sorted(done.returncode for done in answers) == [0, 1], [done.stderr for done in answers])
    results = await asyncio.gather(pay(client, "race"), pay(client, "race"))
    check("of two retries at once one runs", sorted(result.is_error for result in results) == [False, True] and runs(folder).count("race") == 1)


async def watched(folder, client):
    asked = await question(client, "watched")
    process, screen = watch(folder)

    def type_line(line):
        os.write(screen, line.encode() + b"\n")

    while f"countersign attest {asked} " not in (shown := until(screen, "q: quit] ")):
        type_line("s")
    type_line("y")
    until(screen, "q: quit] ")
    type_line("n")
    until(screen, "for none): ")
    type_line("not today")
    until(screen, "denied by ada")
    process.terminate()
    process.wait(30)
    check("a watch shows what waits for evidence, and denies it", "watched" in shown, shown)
    result = await pay(client, "watched")
    check("a yes attests to nothing", decision(result)["code"] == "APPROVAL_DENIED" and "not today" in result.content[0].text, result)


async def both_answers(command, folder):
    async with session(command) as client:
        for to, order in [("approve first", 0), ("attest first", 1)]:
            result = await pay(client, to)
            text = result.content[0].text
            check("one id serves both answers", decision(result)["approval_id"] == decision(result)["attestation_id"], text)
            asked = text.rsplit(": ", 1)[1].rstrip(".")
            steps = [["approve", asked, "--by", "ada", "--yes"], ["attest", asked, *KEY, "--intent", "pay", "--yes"]]
            countersign(folder, *steps[order])
            result = await pay(client, to)
            check(f"one answer is not enough ({to})", result.is_error and asked in result.content[0].text, result)
            countersign(folder, *steps[1 - order])
            result = await pay(client, to)
            check(f"both run it once ({to})", not result.is_error and runs(folder).count(to) == 1, result)


async def held(command, folder):
    async with session(command) as client:
        messages = []

        async def on_progress(progress, total, message):
            messages.append(message)

        call = asyncio.create_task(client.call_tool("pay", {"to": "held"}, progress_callback=on_progress))
        while not messages:
            await asyncio.sleep(0.05)
        check("a held call says that it waits for evidence", messages[0].startswith("waits for evidence: "), messages)
        asked = messages[0].removeprefix("waits for evidence: ")
        args = ["attest", asked, "--key-id", "finance", "--intent", "pay held", "--yes"]
        done = await asyncio.to_thread(run, folder, *args)
        check("a signing command signs", done.returncode == 0, done.stderr)
        result = await asyncio.wait_for(call, 20)
        check("a held call runs once it is attested to", not result.is_error and runs(folder).count("held") == 1, result)


def dead(folder, command):
    """Kills a gateway behind the attestation, and another before it."""
    def start():
        gateway = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}

        def send(message):
            gateway.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            gateway.stdin.flush()

        send({"id": 1, "method": "initialize", "params": hello})
        gateway.stdout.readline()
        send({"method": "notifications/initialized"})
        send({"id": 2, "method": "tools/call", "params": {"name": "pay", "arguments": {"to": "killed"}}})
        line = json.loads(gateway.stdout.readline())
        return gateway, line["result"]["_meta"][DECISION]["attestation_id"]

    def kill(gateway):
        os.killpg(gateway.pid, signal.SIGKILL)
        gateway.wait()

    gateway, asked = start()
    countersign(folder, "attest", asked, *KEY, "--intent", "pay", "--yes")
    kill(gateway)
    gateway, other = start()
    check("the attestation of a killed gateway's call is for no other session", other != asked and "killed" not in runs(folder))
    kill(gateway)
    time.sleep(16)
    done = run(folder, "attest", other, *KEY, "--intent", "pay", "--yes")
    check("a dead session's question cannot be attested to", done.returncode == 1 and "SESSION_ENDED" in done.stderr, done.stderr)


def recorded(folder):
    lines = [json.loads(line) for file in sorted((folder / "log").rglob("*.jsonl")) for line in file.read_text().splitlines()]
    answers = [line for line in lines if line.get("type") == "answer" and line["verdict"] == "attested"]
    accepted = [line for line in lines if line.get("type") == "decision" and line["verdict"] == "accept"]
    ids = {line["call_id"] for line in answers}
    check("each answer is recorded with its key", answers and all(line["key"] == "finance" and line["attestation"] for line in answers))
    check("each run has its answer, and came under its id", len(accepted) == len(runs(folder)) and all(line["call_id"] in ids for line in accepted), accepted)
    check("no call ran twice", len(runs(folder)) == len(set(runs(folder))), runs(folder))


async def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = set_up(folder)
        async with session(command) as client:
            await from_nothing(folder, client)
            await with_proposal(folder, client)
            await bad_answers(folder, client)
            await attacks(folder, client)
            await watched(folder, client)
        dead(folder, command)
        recorded(folder)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await both_answers(set_up(folder, approval="required"), folder)
        recorded(folder)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        signer = folder / "sign.py"
        signer.write_text(SIGNER)
        command = set_up(folder, hold='hold = "1m"', proposals=f'sign_with = ["{sys.executable}", "{signer}"]')
        await held(command, folder)
        recorded(folder)
    return told()


sys.exit(asyncio.run(main()))
