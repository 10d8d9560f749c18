"""Event loops, threads, processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import countersign
from countersign import ApprovalRequired, Call, Gate, Rejected
from countersign.testing import gate


async def test_an_async_tool_runs_with_what_was_decided() -> None:
    call = await gate(allow=["search"]).acheck("c1", "search", {"q": 1})

    async def tool(q: int) -> int:
        return q + 1

    assert await call.arun(tool) == 2


async def test_an_async_refusal_is_raised() -> None:
    with pytest.raises(Rejected):
        await gate().acheck("c1", "search", {})


async def test_an_async_context_gives_the_arguments() -> None:
    async with await gate(allow=["search"]).acheck("c1", "search", {"q": 1}) as args:
        assert args == {"q": 1}


async def test_a_cancelled_tool_ends() -> None:
    call = await gate(allow=["search"]).acheck("c1", "search", {})
    started = asyncio.Event()

    async def tool() -> None:
        started.set()
        await asyncio.sleep(60)

    async def run() -> None:
        await call.arun(tool)

    task = asyncio.create_task(run())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_thousand_checks_at_once() -> None:
    it = gate(allow=["search"])
    calls = await asyncio.gather(*(it.acheck(f"c{n}", "search", {"n": n}) for n in range(1_000)))
    assert len({call.sequence for call in calls}) == 1_000


async def test_each_check_of_a_crowd_gets_its_own_answer() -> None:
    good, other = gate(allow=["search"]), gate(allow=["search"])
    wrong: Any = {"n": {1, 2}}
    checks = []
    for n in range(100):
        checks.append(good.acheck(f"c{n}", "search", {"n": n}))
        checks.append(other.acheck(f"c{n}", "made-up", {}))
        checks.append(good.acheck(f"m{n}", "search", wrong))
    answers = await asyncio.gather(*checks, return_exceptions=True)
    assert [answer.args["n"] for answer in answers[::3] if isinstance(answer, Call)] == list(range(100))
    refused = [(answer.code, answer.call_id) for answer in answers if isinstance(answer, Rejected)]
    assert refused[::2] == [("UNDISCLOSED_TOOL", f"c{n}") for n in range(100)]
    assert refused[1::2] == [("MALFORMED_CALL", f"m{n}") for n in range(100)]
    assert other.attempted_undisclosed() == 100


async def test_one_approval_runs_one_of_a_crowd() -> None:
    it = gate(approve=["refund"])
    with pytest.raises(ApprovalRequired) as raised:
        it.check("c1", "refund", {})
    it.present(it.approve(raised.value.request, "bob", 60))
    answers = await asyncio.gather(*(it.acheck("c1", "refund", {}) for _ in range(100)), return_exceptions=True)
    assert sum(isinstance(answer, Call) for answer in answers) == 1
    assert {answer.code for answer in answers if isinstance(answer, Rejected)} <= {"APPROVAL_REQUIRED", "CALL_ID_REUSED"}


async def test_cancelled_checks_leave_the_others() -> None:
    it = gate(allow=["search"])
    tasks = [asyncio.ensure_future(it.acheck(f"c{n}", "search", {})) for n in range(100)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    assert all(isinstance(answer, Call) for answer in answers[1::2])


def test_a_closed_loop_leaves_its_checks() -> None:
    held, entered = threading.Event(), threading.Event()

    def hold(_name: str, _args: dict[str, Any]) -> bool:
        entered.set()
        return held.wait(10)

    it = gate(allow=["search"], checks={"hold": hold})

    async def leave() -> None:
        task = asyncio.ensure_future(it.acheck("c1", "search", {}))
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()

    asyncio.run(leave())
    held.set()

    async def once() -> Call:
        return await it.acheck("c2", "search", {})

    assert asyncio.run(once()).call_id == "c2"


def test_one_approval_runs_one_of_many_threads() -> None:
    it = gate(approve=["refund"])
    with pytest.raises(ApprovalRequired) as raised:
        it.check("c1", "refund", {})
    token = it.approve(raised.value.request, "bob", 60)

    def attempt(_: int) -> str:
        try:
            it.check("c1", "refund", {}, approval=token).run(dict)
        except Rejected as error:
            return error.code
        return "ran"

    with ThreadPoolExecutor(64) as pool:
        codes = list(pool.map(attempt, range(1_064)))
    assert codes.count("ran") == 1 and set(codes) <= {"ran", "APPROVAL_SPENT", "CALL_ID_REUSED"}


def test_two_loops_share_a_gate() -> None:
    it = gate(allow=["search"])

    async def once(call_id: str) -> Call:
        return await it.acheck(call_id, "search", {})

    assert {asyncio.run(once(call_id)).call_id for call_id in ("c1", "c2")} == {"c1", "c2"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_is_refused_at_once() -> None:
    it = gate(allow=["search"])
    held = it.check("c1", "search", {})
    child = os.fork()
    if child == 0:
        try:
            it.check("c2", "search", {})
        except Rejected as error:
            os._exit(7 if error.code == "AUDIT_UNAVAILABLE" else 8)
        os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    held.run(dict)


def _decide(_: int) -> str:
    return gate(allow=["search"]).check("c1", "search", {}).name


def test_a_spawned_process_has_gates_of_its_own() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_decide, [1]) == ["search"]


def test_an_exit_with_calls_in_flight_does_not_hang() -> None:
    program = "from countersign.testing import gate; it = gate(allow=['s']); calls = [it.check(str(n), 's', {}) for n in range(9)]"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_a_dropped_call_is_settled() -> None:
    it: Gate = gate(allow=["search"])
    it.check("c1", "search", {})
    countersign.settle()
