"""Registry, keys, record and store in files, as an operator makes them. `COUNTERSIGN` names the program."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from countersign import ApprovalRequest, ApprovalRequired, Approvals, Countersign, Gate, LoadError, Log, Rejected
from countersign import SessionError
from countersign.testing import gate as memory_gate

PROGRAM = os.environ.get("COUNTERSIGN")
needs_program = pytest.mark.skipif(PROGRAM is None, reason="COUNTERSIGN does not name the program")
VECTORS = Path(__file__).parents[2] / "tests" / "vectors" / "tool-gate"
READ = {"server": "desk", "name": "search", "impact": "read", "approval": "not_required", "args_schema": {"type": "object"}}
REFUND = {**READ, "name": "refund", "impact": "money", "approval": "required"}


class Folder:
    """What an operator keeps: keys, a signed registry, the log, the store of spent tokens."""

    def __init__(self, path: Path) -> None:
        self.path, self.version = path, 0
        self.run("keys", "generate", "--kind", "ed25519", "--out", "operator.key", "--public-out", "operator.pub")
        self.run("keys", "generate", "--kind", "hmac", "--out", "approval.key")
        self.run("keys", "generate", "--kind", "log", "--origin", "example.com/log", "--out", "log.key", "--public-out", "log.vkey")
        self.run("keys", "trust", "--threshold", "1", "--out", "root.json", "operator.pub")
        self.publish({
            "agents": [{"agent": "bot", "version": 1, "registered_by": "ops", "max_session": "1h",
                        "tools": [{"server": "desk", "name": name} for name in ("search", "refund")]}],
            "tools": [READ, REFUND]})

    def run(self, *args: str) -> str:
        done = subprocess.run([str(PROGRAM), *args], cwd=self.path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def publish(self, draft: dict[str, Any]) -> None:
        self.version += 1
        (self.path / "draft.json").write_text(json.dumps({**draft, "version": self.version}))
        (self.path / "registry.json").unlink(missing_ok=True)
        self.run("registry", "sign", "draft.json", "--key", "operator.key", "--ttl", "30d", "--out", "registry.json")

    def load(self) -> Countersign:
        return Countersign.load(self.path / "registry.json", self.path / "root.json", state=self.path / "state")

    def log(self, durability: str = "group") -> Log:
        return Log(self.path / "log", key=self.path / "log.key", origin="example.com/log", durability=durability)

    def approvals(self) -> Approvals:
        return Approvals(key=self.path / "approval.key", store=self.path / "spent.sqlite", audience="desk")

    def gate(self, log: Log, **options: Any) -> Gate:
        return self.load().session("bot", session="s-1", principal="ada@example.com", record=log,
                                   approvals=self.approvals(), **options)

    def decisions(self) -> list[dict[str, Any]]:
        self.run("audit", "verify", "log", "--key", "log.vkey")
        lines = self.run("audit", "show", "log", "--json").splitlines()
        return [entry for entry in map(json.loads, lines) if entry.get("kind", entry.get("type")) == "decision"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@needs_program
def test_an_approved_call_is_in_a_log_that_verifies(folder: Folder) -> None:
    log = folder.log()
    gate = folder.gate(log, goal="Answer ticket T-1001")
    with pytest.raises(ApprovalRequired) as raised:
        gate.check("c1", "refund", {"amount": 5})
    token = gate.approve(raised.value.request, "bob", "5m")
    assert gate.check("c1", "refund", {"amount": 5}, approval=token).run(lambda amount: amount) == 5
    with pytest.raises(Rejected):
        gate.check("c2", "wipe", {})
    assert log.checkpoint().startswith("example.com/log\n")
    gate.close()
    del gate, log
    assert [it.get("code") for it in folder.decisions()] == ["APPROVAL_REQUIRED", None, "UNDISCLOSED_TOOL"]


OTHER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_files import Folder
from countersign import ApprovalRequest, Rejected
folder = Folder.__new__(Folder)
folder.path = Path(sys.argv[1])
gate = folder.gate(folder.log())
try:
    answer = gate.check("c1", "refund", {"amount": 5}, approval=sys.argv[3] or None).run(lambda amount: amount)
except Rejected as refused:
    answer = refused.code
print(answer)
"""


@needs_program
def test_an_id_runs_once_over_processes(folder: Folder) -> None:
    log = folder.log()
    gate = folder.gate(log)
    with pytest.raises(ApprovalRequired) as raised:
        gate.check("c1", "refund", {"amount": 5})
    kept = raised.value.request.to_json()
    token = gate.approve(ApprovalRequest.from_json(kept), "bob", "5m")
    del gate, log

    def elsewhere(token: str) -> str:
        args = [sys.executable, "-c", OTHER, str(folder.path), str(Path(__file__).parent), token]
        return subprocess.run(args, capture_output=True, text=True, check=True).stdout.strip()

    assert [elsewhere(token), elsewhere(token), elsewhere("")] == ["5", "CALL_ID_REUSED", "CALL_ID_REUSED"]


@needs_program
async def test_many_checks_share_few_threads(folder: Folder) -> None:
    before = threading.active_count()
    gate = folder.gate(folder.log("every"))
    calls = await asyncio.gather(*(gate.acheck(f"c{n}", "search", {"n": n}) for n in range(1_000)))
    assert len({call.sequence for call in calls}) == 1_000
    assert threading.active_count() - before <= 8


async def test_the_loop_ticks_while_a_decision_waits() -> None:
    """A check of the host holds the decision, as a slow disk would, until the loop has made its ticks."""
    latch = threading.Event()
    gate = memory_gate(["search"], checks={"latch": lambda name, args: None if latch.wait(30) else "no tick"})
    decided = asyncio.ensure_future(gate.acheck("c1", "search", {}))
    for _ in range(100):
        await asyncio.sleep(0.001)
        assert not decided.done()
    latch.set()
    assert (await decided).run(dict) == {}


@needs_program
@pytest.mark.parametrize("name", ["registry.json", "root.json", "log.key", "approval.key"])
@pytest.mark.parametrize("fault", ["missing", "garbage", "cut"])
def test_a_broken_file_opens_no_gate(folder: Folder, name: str, fault: str) -> None:
    file = folder.path / name
    text = file.read_bytes()
    file.unlink()
    if fault != "missing":
        file.write_bytes(b"garbage" if fault == "garbage" else text[: len(text) // 2])
        file.chmod(0o600)
    with pytest.raises(LoadError) as raised:
        folder.gate(folder.log())
    assert raised.value.code


@needs_program
def test_an_unknown_agent_opens_no_gate(folder: Folder) -> None:
    with pytest.raises(SessionError) as raised:
        folder.load().session("other", session="s-1", principal="ada", record=folder.log())
    assert raised.value.code == "AGENT_NOT_REGISTERED"


def vectors() -> list[Any]:
    files = sorted(VECTORS.glob("accept/*.json")) + sorted(VECTORS.glob("reject/*.json"))
    return [pytest.param(json.loads(file.read_text()), id=f"{file.parent.name}/{file.stem}") for file in files]


def needs_a_clock(vector: dict[str, Any]) -> bool:
    return any(event["do"] == "wait" for event in vector["events"])


def publishes(vector: dict[str, Any]) -> bool:
    return any(event["do"] == "publish" for event in vector["events"])


def play(vector: dict[str, Any], gate: Gate, publish: Callable[[dict[str, Any]], None] | None) -> None:
    for tool in vector.get("listed", []):
        gate.note_definition("desk", json.dumps(tool))
    for number, event in enumerate(vector["events"]):
        if event["do"] == "publish":
            assert publish is not None
            publish(event["registry"])
            continue
        id, server = event.get("call_id", f"c{number}"), event.get("server", "desk")
        args = event["args"] if "args" in event else event["args_text"]

        def attempt(approval: str | None = None) -> str:
            try:
                gate.check(id, event["tool"], args, server, ask=event.get("ask"), approval=approval).run(lambda **_: None)
            except ApprovalRequired as refused:
                if event.get("approve") and approval is None:
                    return attempt(gate.approve(refused.request, "grace@example.com", "5m"))
                return refused.code
            except Rejected as refused:
                return refused.code
            return "accept"

        assert attempt() == event["expect"], event


@pytest.mark.parametrize("vector", [it for it in vectors() if not needs_a_clock(it.values[0]) and not publishes(it.values[0])])
def test_a_vector_of_the_gate_has_its_codes(vector: dict[str, Any]) -> None:
    from countersign._native import testing_gate as open_gate

    gate = open_gate(json.dumps(vector["registry"]), "support-bot", session="s-1", principal="ada@example.com",
                     goal=vector.get("goal"))
    play(vector, gate, None)


@needs_program
@pytest.mark.parametrize("vector", [it for it in vectors() if publishes(it.values[0])])
def test_a_vector_that_publishes_has_its_codes(vector: dict[str, Any], folder: Folder) -> None:
    folder.publish(vector["registry"])
    gate = folder.load().session("support-bot", session="s-1", principal="ada@example.com", record=folder.log(),
                                 goal=vector.get("goal"), approvals=folder.approvals())
    play(vector, gate, folder.publish)


def test_few_vectors_are_left_out() -> None:
    assert [it.id for it in vectors() if needs_a_clock(it.values[0])] == [
        "accept/009_rate_after_its_window", "reject/029_ask_expired", "reject/037_contract_expired",
        "reject/038_contract_expired_to_the_millisecond"]


def resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1_024)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_a_million_refusals_need_no_memory() -> None:
    gate = memory_gate(["search"])

    def refuse(numbers: range) -> None:
        for number in numbers:
            try:
                gate.check(f"id-{number}", f"made-up-{number}", b"{}")
            except Rejected:
                pass

    # What is kept of the last calls is full after the first of them.
    refuse(range(50_000))
    before = resident_kib()
    refuse(range(50_000, 1_000_000))
    assert resident_kib() - before <= 4 * 1_024
    assert gate.attempted_undisclosed() == 1_000_000
